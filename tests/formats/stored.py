#!/usr/bin/env python3
"""The bytes of quantized checkpoints as s2 counts them, against a sum over the matrices of transformers' own models.

Each method's quantization_config is put into configs of several kinds of models, with lists of modules that stay in 16
bits. A model is built without memory for its weights, and each of its matrices counts by the rule of the tool that reads
such a list: Python's re for compressed-tensors, fnmatch for modelopt, transformers' own function for others. s2 must come
to as many bytes, to 2 %; where it cannot know the type it must say so and count 16 bits.

usage: stored.py S2_PROGRAM
Last line: N held, N did not. Exit 1 when one did not, 77 when transformers is missing.
"""
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tally import end, hold

try:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.quantizers.quantizers_utils import should_convert_module
except ImportError as why:
    print("skipped: transformers and torch are needed (%s)" % why)
    sys.exit(77)

NEAR = 0.02
UNTOLD = "has no price here"
MODELS = {"llama": {"num_hidden_layers": 8},
          "mistral": {"num_hidden_layers": 8},
          "qwen3_moe": {"num_hidden_layers": 8, "mlp_only_layers": [1]},
          "deepseek_v3": {"num_hidden_layers": 6, "hidden_size": 2048, "intermediate_size": 4096, "n_routed_experts": 32,
                          "moe_intermediate_size": 512, "n_group": 4, "num_experts_per_tok": 4},
          "qwen3_next": {"num_hidden_layers": 8, "num_experts": 64},
          "nemotron_h": {"layers_block_type": ["linear_attention", "moe", "full_attention", "moe"] * 3},
          "gemma4_text": {"num_hidden_layers": 6, "enable_moe_block": True, "num_experts": 16, "top_k_experts": 4,
                          "moe_intermediate_size": 704, "hidden_size_per_layer_input": 0},
          "minimax_m2": {"num_hidden_layers": 4, "num_local_experts": 16},
          "qwen3_5_moe_text": {"num_hidden_layers": 8, "num_experts": 16}}


def ct(bits, kind, group, ignore, symmetric=True, targets=("Linear",), style="pack-quantized"):
    return {"quant_method": "compressed-tensors", "format": style, "ignore": ignore, "config_groups": {"group_0": {
        "targets": list(targets), "weights": {"num_bits": bits, "type": kind, "group_size": group, "symmetric": symmetric}}}}


def modelopt(algo, ignore):
    return {"quant_method": "modelopt", "quant_algo": algo, "exclude_modules": ignore, "kv_cache_quant_algo": None}


HEAD = ["lm_head"]
TOWERS = ["vision_tower.encoder.layers.0.self_attn.q_proj", "model.visual.layers.1.mlp.up_proj", "mtp.layers.0.mlp.up_proj",
          "mtp.layers.1.self_attn.o_proj"]  # what has no price, though its layers have numbers too
ATTENTION = r".*(attn|mamba|mixer\.[a-z]+_proj)"
IN_FP8_AND_NVFP4 = [(ATTENTION, 8), (".*", 4.5)]


def by_module(names, n_experts):
    """modelopt's MIXED_PRECISION, which names each module, and experts one by one."""
    algo = {name: "FP8" if re.match(ATTENTION, name) else "NVFP4" for name in names}
    every = {name.replace(".experts.0.", ".experts.%d." % nth): word for name, word in algo.items()
             for nth in range(n_experts if ".experts.0." in name else 1)}
    return {**modelopt("MIXED_PRECISION", ["lm_head", "mtp*"]),
            "quantized_layers": {name: {"quant_algo": word, "group_size": 16} for name, word in every.items()}}


def by_holder(names, n_experts):
    """The same with a name for all experts of a layer, and the head."""
    said = by_module([re.sub(r"\.experts\.0\..*", ".experts", name) for name in names], n_experts)
    said["exclude_modules"] = []
    said["quantized_layers"]["lm_head"] = {"quant_algo": "W4A16_NVFP4", "group_size": 16}
    return said


def named_twice(names, n_experts):
    """Two groups that name the same modules."""
    word = "self_attn" if any("self_attn" in name for name in names) else "mixer"
    return {**ct(4, "int", 32, HEAD), "config_groups": {
        "group_0": {"targets": ["re:.*%s.*" % word], "weights": {"num_bits": 4, "type": "int", "group_size": 32}},
        "group_1": {"targets": ["re:.*%s.*" % word], "weights": {"num_bits": 8, "type": "int"}}}}


def without_one(names, n_experts):
    """An expert that is not named: what it is stored in is not said."""
    said = by_module(names, n_experts)
    return {**said, "quantized_layers": {name: own for name, own in said["quantized_layers"].items() if ".experts.3." not in name}}


# (the config, bits of a weight that it stores, or a list of them by names, or None: unknown; how its list is read; whether
# the head is stored too). A function makes the config of the names of a model's matrices.
CASES = [
    ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, 8, "hf", False),
    ({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0", "model.layers.2.self_attn", "lm_head"]}, 8, "hf", False),
    ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.3.mlp"]}, 8, "hf", False),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 4 + 20 / 128, "hf", False),
    ({"quant_method": "gptq", "bits": 8, "group_size": 64}, 8 + 24 / 64, "hf", False),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {r"-:.*self_attn.*": {}}}, 4 + 20 / 128, r"re:.*self_attn.*", False),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {r"+:.*self_attn.*": {"bits": 8}}},
     [(".*self_attn", 8 + 24 / 128), (".*", 4 + 20 / 128)], "hf", False),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {r"+:.*self_attn.*": {"bits": 2}}}, None, "hf", False),
    ({"quant_method": "gptq", "bits": 3, "group_size": 128}, None, "hf", False),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 32}, 4 + 20 / 32, "hf", False),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 32, "extra_config": {"model.layers.1.self_attn.o_proj": {"bits": 2}}}, None, "hf", False),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, 4.5, "hf", False),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, 4.127, "hf", False),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["model.layers.0", "lm_head"]}, 8, "hf", False),
    ({"quant_method": "bitsandbytes"}, None, "hf", False),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}, "skip_modules": HEAD}, 4.5, "hf", False),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3, "group_size": 64}}}, None, "hf", False),
    ({"quant_method": "quanto", "weights": "int8", "modules_to_not_convert": None}, 8, "hf", False),
    ({"quant_method": "quanto", "weights": "int2"}, None, "hf", False),
    ({"quant_method": "eetq", "weights": "int8"}, 8, "hf", False),
    ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {}}}}, 4.5, "hf", False),
    ({"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int4_weight"}, 4.5, "hf", False),
    ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8DynamicActivationFloat8WeightConfig"}}}, 8, "hf", False),
    ({"quant_method": "torchao", "quant_type": "autoquant"}, None, "hf", False),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}, "exclude": HEAD}, 8, "hf", False),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}, "exclude": ["lm_head", "re:.*self_attn.*"]}, 4.25, "re:.*self_attn.*", False),
    ({"quant_method": "quark", "layer_quant_config": {"*q_proj": {}}, "global_quant_config": {"weight": {"dtype": "int8"}}}, None, "hf", False),
    ({"quant_method": "nvfp4"}, 4.5, "hf", False),
    ({"quant_method": "mxfp8"}, 8.25, "hf", False),
    ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, None, "skip", False),
    (ct(4, "int", 32, HEAD), 4.5, "re", False),
    (ct(4, "int", 128, HEAD, symmetric=False), 4 + 20 / 128, "re", False),
    (ct(8, "float", None, HEAD + [r"re:.*self_attn.*"], style="float-quantized"), 8, "re", False),
    (ct(8, "float", None, HEAD + [r"re:model\.layers\.[0-2]\..*"], style="float-quantized"), 8, "re", False),
    (ct(4, "float", 16, HEAD + [r"re:.*mlp\.(gate|up)_proj$"], style="nvfp4-pack-quantized"), 4.5, "re", False),
    (ct(4, "float", 32, HEAD, style="mxfp4-pack-quantized"), 4.25, "re", False),
    (ct(8, "int", None, []), 8, "re", True),
    (ct(8, "int", None, HEAD + [r"re:(?!.*mlp).*"]), None, "re", False),
    (ct(4, "int", 32, HEAD + ["model.layers.0.something.else"]), None, "re", False),
    ({**ct(4, "int", 32, HEAD), "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}},
                                                  "group_1": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "int"}}}},
     [(".*self_attn", 8), (".*", 4.5)], "re", False),
    (named_twice, None, "re", False),
    (ct(4, "int", 32, HEAD + TOWERS), 4.5, "re", False),
    (modelopt("NVFP4", HEAD), 4.5, "fn", False),
    (modelopt("NVFP4", HEAD + ["model.layers.*.self_attn*"]), 4.5, "fn", False),
    (modelopt("FP8", HEAD + ["model.layers.1.*", "*mlp.gate"]), 8, "fn", False),
    (modelopt("FP8", []), 8, "fn", True),
    (modelopt("NVFP4", HEAD + ["model.layers.99*", "model.layers.99.mlp.*", "*mtp*"]), 4.5, "fn", False),
    (modelopt("MIXED_PRECISION", HEAD), None, "fn", False),
    (by_module, IN_FP8_AND_NVFP4, "fn", False),
    (by_holder, IN_FP8_AND_NVFP4, "fn", True),
    (without_one, None, "fn", False),
    ({"quant_method": "bitnet"}, None, "hf", False),
    ({"quant_method": "aqlm", "nbits_per_codebook": 16, "num_codebooks": 1, "in_group_size": 8}, None, "hf", False),
    ({"quant_method": "vptq"}, None, "hf", False),
    ({"quant_method": "higgs", "bits": 4}, None, "hf", False),
    ({"quant_method": "spqr", "bits": 3}, None, "hf", False),
    ({"quant_method": "sinq", "nbits": 4}, None, "hf", False),
    ({"bits": 4, "group_size": 64}, None, "hf", False)]
LISTS = ("ignore", "modules_to_not_convert", "exclude_modules", "exclude", "llm_int8_skip_modules", "skip_modules")


def entries(said):
    return [entry for key in LISTS for entry in said.get(key) or []]


def kept(name, said, how):
    """Whether the matrix of a name stays in 16 bits."""
    if how.startswith("re:"):
        return re.match(how[3:], name) is not None
    if how == "re":
        return any(re.match(e[3:], name) if e.startswith("re:") else e == name for e in entries(said))
    if how == "fn":
        return any(fnmatch.fnmatch(name, e) for e in entries(said))
    return not should_convert_module(name, entries(said))


def matrices(kind, changes):
    """(config, [(names of a matrix in a checkpoint, elements)])"""
    config = AutoConfig.for_model(kind, tie_word_embeddings=False, **changes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    found = []
    for name, p in model.named_parameters():
        module = name.removesuffix(".weight")
        if p.dim() < 2 or module.endswith((".gate", "conv1d", "shared_expert_gate")):
            continue
        if ".experts." in module:  # one tensor here, one for each expert in a checkpoint
            inner = module.replace(".experts.", ".experts.0.")
            parts = [inner.replace("gate_up_proj", part) for part in ("gate_proj", "up_proj")] if "gate_up" in inner else [inner]
            found += [(part, p.numel() / len(parts)) for part in parts]
        else:
            found.append((module, p.numel()))
    return config.to_dict(), found


def bits_of(name, bits):
    return next(own for pattern, own in bits if re.match(pattern, name)) if isinstance(bits, list) else bits


def bytes_of(found, said, bits, how, head):
    total = 0
    for name, n in found:
        whole = "embed" in name or (name == "lm_head" and not head) or bits is None or kept(name, said, how)
        total += n * (16 if whole else bits_of(name, bits)) / 8
    return total


def run(program, path):
    done = subprocess.run([program, "sim", path, "--model", path, "--len", "4k", "--phase", "decode", "--gpu", "h200", "--no-db",
                           "--json"], capture_output=True, text=True)
    found = re.search(r'"weight_bytes":([\d.e+]+)', done.stdout)
    return (float(found[1]) if found else 0), done.stderr


def compare(program, folder, kind, config, found, said, bits, how, head, beside):
    path = os.path.join(folder, "config.json")
    own = dict(config) if beside else {**config, "quantization_config": said}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(own, file, default=str)
    apart = os.path.join(folder, "hf_quant_config.json")
    if beside:
        with open(apart, "w", encoding="utf-8") as file:
            json.dump({"producer": {"name": "modelopt"}, "quantization": {k: v for k, v in said.items() if k != "quant_method"}}, file)
    ours, words = run(program, path)
    if beside:
        os.remove(apart)
    expected = bytes_of(found, said, bits, how, head)
    hold(abs(ours - expected) <= NEAR * expected, "%s %.300s: %.5g bytes of matrices, s2 counts %.5g" % (kind, said, expected, ours))
    hold((bits is None) == (UNTOLD in words), "%s %.300s: %s" % (kind, said, words))


with tempfile.TemporaryDirectory() as folder:
    for kind, changes in MODELS.items():
        config, found = matrices(kind, changes)
        experts = next((config[key] for key in ("num_experts", "num_local_experts", "n_routed_experts") if config.get(key)), 1)
        modules = [name for name, _ in found if "embed" not in name and name != "lm_head"]
        for said, bits, how, head in CASES:
            if how == "skip" or (said is without_one and not any(".experts." in name for name in modules)):
                continue
            said = said(modules, experts) if callable(said) else said
            compare(sys.argv[1], folder, kind, config, found, said, bits, how, head, False)
            if said.get("quant_method") == "modelopt":
                compare(sys.argv[1], folder, kind, config, found, said, bits, how, head, True)
end(len(MODELS))
