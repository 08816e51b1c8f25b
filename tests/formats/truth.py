#!/usr/bin/env python3
"""The masks that models of transformers really use, against what s2 reads from their configs.

Models of every causal type are built with tiny widths and run once; a recording attention function keeps the mask of
each layer, and (for models that do not know the interface) the softmax is watched. Every (layer, head, query, key), the
KV heads and the head dimension are then compared with what `s2 mask` says of the same config.json. Layer counts, head
counts, windows and patterns of layers are the config's own; widths, vocabulary and experts are made small.

usage: truth.py S2_PROGRAM [--types A,B] [--defaults] [--configs DIR [--only]] [--write FILE.md] [--save FILE.json]
                [--from FILE.json] [--verbose]
`--configs` compares the published configs of a folder too, `--only` nothing else. `--write` puts the table between its
marks in FILE; `--save` keeps outcomes, `--from` takes those of configs that this run leaves out.
Last line: N equal, N refused, N different, N without truth. Exit 1 when one differs, 77 when transformers is missing.
"""
import argparse
import collections
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

try:
    import numpy
    import torch
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL
except ImportError as why:
    print("skipped: transformers and torch are needed (%s)" % why)
    sys.exit(77)

LEN = 24       # tokens of a run
WINDOW = 7     # for windows that would not show in LEN tokens
LAYERS = 6

# Widths are no part of a mask. A name that a config does not have is left out.
SMALL = dict(
    vocab_size=64, intermediate_size=16, moe_intermediate_size=16, shared_expert_intermediate_size=16, ffn_dim=16,
    n_inner=16, d_ff=16, decoder_ffn_dim=16, encoder_ffn_dim=16, ffn_hidden_size=16, mlp_hidden_size=16,
    num_experts=4, num_local_experts=4, n_routed_experts=4, moe_num_experts=4, num_experts_per_tok=2, moe_k=2,
    experts_per_token=2, top_k_experts=2, moe_topk=2, moe_top_k=2, num_experts_per_topk=2, n_group=1, topk_group=1, n_shared_experts=1, moe_num_shared_experts=1,
    max_position_embeddings=64, n_positions=64, vocab_size_per_layer_input=64, hidden_size_per_layer_input=8,
    pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=0, embedding_size=32,
    block_auto_adjust_ff_dim=False, mamba_d_state=8, ssm_state_size=8, state_size=8,
    encoder_layers=2, tie_word_embeddings=False)
SEQUENCES = ("layer_types", "mlp_layer_types", "no_rope_layers", "moe_layers", "layers_block_type", "block_types",
             "hybrid_layer_pattern", "moe_layer_freq", "hybrid_override_pattern", "indexer_types", "compress_ratios",
             "attn_type_list", "per_layer_config", "activation_sparsity_pattern", "attention_types", "attention_layers", "num_attention_heads_per_layer")
N_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers")
N_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads")
HIDDEN = ("hidden_size", "n_embd", "d_model", "dim", "emb_dim")


# What some types need besides, to be built so small. None: the key is left out.
REPAIRS = {
    "bamba": dict(mamba_n_heads=16, mamba_d_head="auto", attn_layer_indices=[2, 5]),
    "granitemoehybrid": dict(mamba_n_heads=16, mamba_d_head="auto"),
    "codegen": dict(rotary_dim=8, n_ctx=64), "gptj": dict(rotary_dim=8),
    "dots1": dict(n_shared_experts=1, first_k_dense_replace=6),
    "gemma3n": dict(intermediate_size=16, activation_sparsity_pattern=None),
    "gemma3n_text": dict(intermediate_size=[16] * LAYERS, activation_sparsity_pattern=[0.0] * LAYERS,
                         num_kv_shared_layers=0),
    "gpt_neo": dict(attention_types=[[["global", "local"], LAYERS // 2]]),
    "kimi_linear": dict(num_experts_per_token=2, num_experts=4),
    "lfm2_moe": dict(num_dense_layers=6, layer_types=["conv", "conv", "full_attention"] * (LAYERS // 3)),
    "nemotron": dict(num_key_value_heads=8), "xmod": dict(default_language="en_XX"),
    "mamba2": dict(num_heads=8, head_dim=16, hidden_size=64),
    "reformer": dict(is_decoder=True),
    "xlnet": dict(d_model=32, n_head=4, d_head=8),
    "musicgen": dict(), "musicgen_melody": dict(),
    "dots3_note": dict(mlp_layer_types=["dense"] * LAYERS), "dots3_note_text": dict(mlp_layer_types=["dense"] * LAYERS),
    "longcat_flash": dict(ffn_hidden_size=16, expert_ffn_hidden_size=16, zero_expert_num=2, n_routed_experts=4, num_layers=3),
    "hymba": dict(),
    "mamba": dict(hidden_size=8, intermediate_size=16), "falcon_mamba": dict(hidden_size=8, intermediate_size=16),
    "mllama": dict(cross_attention_layers=[1, 4]), "hrm_text": dict(num_layers_per_stack=1, num_hidden_layers=8),
    "xlm": dict(emb_dim=32, n_heads=4),
    "doge": dict(keep_window_size=WINDOW),
    "deepseek_v2": dict(num_experts_per_tok=2, n_group=1, topk_group=1),
    "dbrx": dict(attn_config=dict(kv_n_heads=8, rope_theta=10000.0, clip_qkv=8.0)),
}
# Of these, what no pattern sees: published configs keep all else.
WIDTHS = ("hidden_size", "n_shared_experts", "rotary_dim", "n_ctx", "num_experts", "num_experts_per_token", "default_language",
          "num_experts_per_tok", "n_group", "topk_group")
# One layer runs several times, each time with a cache of its own.
REPEATED = ("hrm_text",)


class Records:
    """What the layers of a run used: layer -> mask[heads, queries, keys], KV heads, widths of key and value."""

    def __init__(self):
        self.reset()

    def reset(self, repeated=False):
        self.layers, self.current, self.repeated, self.states = collections.OrderedDict(), None, repeated, {}
        self.closed = False

    def put(self, layer, mask, n_kv, dims):
        if self.closed:
            return
        if self.repeated:
            layer = len(self.layers)
        if layer is not None and layer not in self.layers:
            self.layers[layer] = (mask, n_kv, dims)


RECORDS = Records()


def as_bool(mask):
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def record(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """An attention function: exact, and keeps which keys each query may read."""
    n_heads, n_q, n_k = query.shape[1], query.shape[2], key.shape[2]
    if attention_mask is None:
        causal = kwargs.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        mask = torch.ones(n_q, n_k, dtype=torch.bool)
        mask = (mask.tril(n_k - n_q) if causal else mask)[None, None]
    else:
        mask = as_bool(attention_mask[..., :n_k])
    mask = mask.expand(query.shape[0], n_heads if mask.shape[1] in (1, n_heads) else mask.shape[1], n_q, n_k)
    n_copies = getattr(module, "top_k", 1) if type(module).__name__ == "JetMoeAttention" else 1
    RECORDS.put(RECORDS.current, mask[0].numpy().copy(), key.shape[1] // n_copies, (key.shape[3], value.shape[3]))
    groups = n_heads // key.shape[1]
    k, v = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = (query @ k.transpose(2, 3)) * (scaling if scaling is not None else query.shape[-1] ** -.5)
    weights = scores.masked_fill(~mask, -1e30).softmax(-1)
    return (weights.to(v.dtype) @ v).transpose(1, 2).contiguous(), weights


transformers.AttentionInterface.register("s2_record", record)
AttentionMaskInterface.register("s2_record", eager_mask)


def watch_softmax():
    """For models that compute attention themselves: weights over all keys of a row, zero where a key is not read."""
    places = ((torch.nn.functional, "softmax"), (torch, "softmax"), (torch.Tensor, "softmax"))
    plain = [getattr(owner, name) for owner, name in places]

    def watched(compute):
        def watch(*args, **kwargs):
            out = compute(*args, **kwargs)
            weights = out[None] if out.dim() == 3 else out
            if weights.dim() == 4 and weights.shape[2] == LEN and weights.shape[3] >= LEN:
                RECORDS.put(RECORDS.current, (weights[0][..., :LEN] > 0).numpy().copy(), None, None)
            return out
        return watch
    for (owner, name), compute in zip(places, plain):
        setattr(owner, name, watched(compute))
    return lambda: [setattr(owner, name, compute) for (owner, name), compute in zip(places, plain)]


def mark_layers(model):
    """Say which layer runs: the outermost numbered module of the decoder's list."""
    lists = [(name, module) for name, module in model.named_modules() if isinstance(module, torch.nn.ModuleList)
             and not re.search(r"vision|visual|audio|mtp|\.\d+\.|expert", name) and len(module) > 0]
    if not lists:
        return
    best = max(lists, key=lambda item: (len(item[1]), "decoder" in item[0], -item[0].count(".")))[1]
    for n, layer in enumerate(best):
        layer.register_forward_pre_hook(lambda *_, n=n: setattr(RECORDS, "current", n))
        layer.register_forward_hook(lambda *_: setattr(RECORDS, "current", None))


def states_of(model, tokens):
    """Elements of recurrent and of convolution states that each layer keeps, where the cache has them."""
    try:
        out = model(input_ids=tokens, use_cache=True)
    except Exception:  # masks are the truth here; a model that cannot fill a cache has no states to compare
        return {}
    cache = getattr(out, "past_key_values", None) or getattr(out, "cache_params", None)

    def elements(held):
        held = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else [held]
        return sum(tensor.numel() for tensor in held if torch.is_tensor(tensor))
    found = [(elements(getattr(layer, "recurrent_states", None)), elements(getattr(layer, "conv_states", None)))
             for layer in getattr(cache, "layers", None) or []]
    return {n: state for n, state in enumerate(found) if any(state)}


def run_model(config):
    """Records of one run of a tiny model, or the reason why there is no truth."""
    reasons = []
    for implementation in ("s2_record", "eager"):
        RECORDS.reset(config.model_type in REPEATED)
        unwatch = watch_softmax() if implementation == "eager" else None
        try:
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(config, attn_implementation=implementation).eval().float()
            mark_layers(model)
            with torch.no_grad():
                tokens = torch.randint(3, 60, (1, LEN))
                model(input_ids=tokens, use_cache=False)
                RECORDS.closed = True
                RECORDS.states = states_of(model, tokens)
        except Exception as why:  # a model that cannot be built has no truth; the reason is printed
            reasons.append("%s: %s" % (type(why).__name__, str(why).split("\n")[0][:110]))
            continue
        finally:
            if unwatch is not None:
                unwatch()
        if RECORDS.layers or RECORDS.states or all(kind == "linear_attention" for kind in getattr(config, "layer_types", None) or [""]):
            return RECORDS.layers, None
    return None, reasons[0] if reasons else "no layer computes attention"


def preload(config):
    """Import a model's code before the children fork, so that not each of them does."""
    try:
        AutoModelForCausalLM._model_mapping[type(config)]
    except Exception:  # the child says what is wrong with it
        pass


def in_child(work, seconds=40, n_bytes=6 << 30):
    """work() in a process of its own, so that a model too large or too slow costs only its own row."""
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))  # a busy machine is no reason to give up
        signal.alarm(10 * seconds)
        try:
            answer = work()
        except MemoryError:
            answer = ("no truth", "more memory than a tiny model needs")
        os.write(start, json.dumps(answer).encode())
        os._exit(0)
    os.close(start)
    with os.fdopen(end, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return tuple(json.loads(text)) if text else ("no truth", "the model could not be run in %d s" % seconds)


def first(config, names, default=None):
    return next((config[n] for n in names if config.get(n) is not None), default)


def shrink(d, n_layers=None):
    """A config's dictionary with small widths; n_layers replaces the count of layers, with what follows from it."""
    d = {k: v for k, v in d.items()}
    for key, value in d.items():
        if isinstance(value, dict) and key.endswith(("config", "coder")):
            d[key] = shrink(value, n_layers)
    for key, small in SMALL.items():
        if isinstance(d.get(key), (int, float)) and d[key] is not None and key in d:
            d[key] = small if isinstance(small, bool) else min(d[key], small)
    if n_layers is not None:
        was = first(d, N_LAYERS)
        for key in N_LAYERS:
            if isinstance(d.get(key), int):
                d[key] = n_layers
        if was != n_layers:
            for key in SEQUENCES:
                d.pop(key, None)
    heads = first(d, N_HEADS)
    if isinstance(heads, int):
        dim = 8
        if "head_dim" in d:
            d["head_dim"] = dim
        for key, small in dict(global_head_dim=16, swa_head_dim=dim, v_head_dim=8, swa_v_head_dim=8,
                               qk_rope_head_dim=8, qk_nope_head_dim=8, kv_lora_rank=8, q_lora_rank=8, qk_head_dim=16,
                               attention_head_dim=dim, index_head_dim=8, index_n_heads=2).items():
            if isinstance(d.get(key), int):
                d[key] = min(small, d[key])
        for key in HIDDEN:
            if isinstance(d.get(key), int):
                d[key] = heads * dim
        if isinstance(d.get("word_embed_proj_dim"), int):
            d["word_embed_proj_dim"] = heads * dim
    for key in ("sliding_window", "attention_chunk_size", "window_size", "sliding_window_size", "local_attention",
                "attention_window", "index_topk", "keep_window_size"):
        if isinstance(d.get(key), int) and d[key] > LEN // 2:
            d[key] = WINDOW if key != "attention_chunk_size" else 8
    return d


def set_deep(d, **values):
    """A variant: the value goes where the config has (or its text config would have) the key."""
    d = dict(d)
    inner = d.get("text_config")
    if isinstance(inner, dict):
        d["text_config"] = {**inner, **values}
    else:
        d.update(values)
    return d


def variants(d):
    """(name, dictionary): at least three configs beside the defaults, where the type has such keys."""
    t = d["text_config"] if isinstance(d.get("text_config"), dict) else d
    n = first(t, N_LAYERS, LAYERS)
    heads = first(t, N_HEADS, 4)
    out = []
    out.append(("window 5", set_deep(d, sliding_window=5)))
    out.append(("window off", set_deep(d, sliding_window=None)))
    out.append(("use_sliding_window", set_deep(d, use_sliding_window=True, sliding_window=6, max_window_layers=2)))
    if True:
        types = ["sliding_attention" if l % 3 else "full_attention" for l in range(n)]
        out.append(("layer types", set_deep(d, layer_types=types, sliding_window=6)))
    if t.get("num_key_value_heads") is not None and heads % 2 == 0:
        kv = heads // 2 if t["num_key_value_heads"] == heads else heads
        out.append(("grouped heads", set_deep(d, num_key_value_heads=kv)))
    if "layer_types" in t:
        out.append(("no layer_types", set_deep(d, sliding_window=6)))
    out.append(("is_causal", set_deep(d, is_causal=False)))
    if "use_bidirectional_attention" in t:
        out.append(("both ways", set_deep(d, use_bidirectional_attention=True)))
    if "is_decoder" in t:
        out.append(("is_decoder", set_deep(d, is_decoder=True)))
    return out


class S2:
    """What s2 reads from a config."""

    def __init__(self, program):
        self.program, self.dir = program, tempfile.mkdtemp(prefix="s2-truth-")

    def run(self, *args):
        return subprocess.run((self.program,) + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def read(self, text):
        path = os.path.join(self.dir, "config.json")
        with open(path, "w") as f:
            f.write(text)
        done = self.run("import", "--no-db", path)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().split("\n")[0]
            return None, re.sub(r"^.*?(S2P400|config.json(:\d+:\d+)?:) ", "", said)
        return done.stdout.decode(), path

    def mask(self, path, layer):
        out = os.path.join(self.dir, "mask.npy")
        done = self.run("mask", path, "--len", str(LEN), "--layer", str(layer), "--tokens", "--format", "npy", "-o", out)
        if done.returncode != 0:
            return None
        return numpy.load(out)


def number(text, word, default):
    found = re.search(r"^%s (\d+)$" % word, text, re.M)
    return int(found.group(1)) if found else default


def text_of(config, name):
    """The config.json that s2 reads: as transformers saves it, or as older files are."""
    saved = json.loads(config.to_json_string())
    if name == "no layer_types":
        for holder in (saved, saved.get("text_config") or {}):
            holder.pop("layer_types", None)
    return json.dumps(saved, indent=2)


def compare(s2, config, source, records):
    """('equal' | 'refused' | 'different' | 'partial', reason)"""
    text, path = s2.read(source)
    if text is None:
        return "refused", path
    n_layers = number(text, "layers", 1)
    states = RECORDS.states
    if "are left out: layers are counted without them" in text:
        kinds = getattr(config.get_text_config(), "layer_types", None)
        crossed = getattr(config.get_text_config(), "cross_attention_layers", ())
        n_all = n_layers + int(re.search(r"(\d+) of \d+ layers have neither", text).group(1))
        left = [n for n in range(n_all) if n not in crossed and not (kinds and kinds[n] in ("mlp", "moe"))]
        records = {left.index(layer): record for layer, record in records.items() if layer in left}
        states = {left.index(layer): state for layer, state in states.items()}
    if "# - this is the encoder" in text:
        return "no truth", "the pattern is the encoder's, and a causal model runs the decoder"
    if records and max(records) >= n_layers:
        return "different", "layer %d of %d" % (max(records), n_layers)
    dynamic = False
    for layer, (wide, narrow) in states.items():
        bytes_kept = own_number(text, "state", layer, 0)
        if bytes_kept not in (4 * wide + 2 * narrow, 4 * (wide + narrow), 2 * (wide + narrow)):
            return "different", "layer %d keeps %d and %d elements of state, not %d bytes" % (
                layer, wide, narrow, bytes_kept)
    for layer in range(n_layers):
        got = s2.mask(path, layer)
        stateful = is_state(text, layer)
        if layer not in records:
            if not stateful:
                return "different", "layer %d computes no attention" % layer
            continue
        mask, n_kv, dims = records[layer]
        if got is None or got.shape != mask.shape:
            return "different", "layer %d: heads, queries, keys %s, not %s" % (
                layer, mask.shape, got.shape if got is not None else None)
        if is_chosen(text, layer):
            dynamic = True
            if (got & ~mask.astype(bool)).any():
                return "different", "layer %d: a key is read that the model never reads" % layer
        elif (got != mask).any():
            h, q, k = [int(x[0]) for x in numpy.nonzero(got != mask)]
            return "different", "layer %d head %d query %d key %d is %s" % (layer, h, q, k,
                                                                          "read" if mask[h, q, k] else "not read")
        problem = cache_problem(text, layer, n_kv, dims)
        if problem:
            return "different", problem
    return ("partial", "keys are chosen at run time") if dynamic else ("equal", "")


def bodies_of(text, layer):
    """Bodies of the rules that hold for a layer (later ones win, by head); a rough reading of our own text."""
    found = []
    for line in text.split("\n"):
        m = re.match(r"^(?:prefill |decode )?layers ([\d,:-]+|all)(?: (?:heads|kv) [\d,:-]+)?: (.*)$", line)
        if m and holds(m.group(1).strip(), layer) and not re.match(r"(kv-heads|head-dim|kv-layer|state) ", m.group(2)):
            found.append(m.group(2))
    return found


def holds(ranges, layer):
    """Is the layer in a LIST of the language: a, a-b, begin:end:step with parts left out, all."""
    for part in ranges.split(","):
        part = part.strip()
        if part == "all":
            return True
        if ":" in part:
            begin, end, step = ([int(x) if x else None for x in part.split(":")] + [None])[:3]
            begin, step = begin or 0, step or 1
            if layer >= begin and (end is None or layer < end) and (layer - begin) % step == 0:
                return True
        else:
            low, high = (part.split("-") * 2)[:2]
            if int(low) <= layer <= int(high):
                return True
    return False


def is_chosen(text, layer):
    bodies = bodies_of(text, layer)
    return bool(bodies) and re.search(r"\b(topk|pages|heavy)\b", bodies[-1]) is not None


def own_number(text, word, layer, default):
    """The number that `layers LIST: WORD N` gives a layer."""
    for ranges, value in re.findall(r"^layers ([\d,:-]+|all): %s (\d+)$" % word, text, re.M):
        if holds(ranges, layer):
            default = int(value)
    return default


def is_state(text, layer):
    """The layer keeps a state and reads no keys."""
    return own_number(text, "state", layer, None) is not None and bodies_of(text, layer)[-1:] == ["none"]


def cache_problem(text, layer, n_kv, dims):
    if n_kv is None or "MLA" in text:
        return None
    want_kv, want_dim = number(text, "kv-heads", number(text, "heads", 1)), number(text, "head-dim", 128)
    want_kv = own_number(text, "kv-heads", layer, want_kv)
    want_dim = own_number(text, "head-dim", layer, want_dim)
    if own_number(text, "kv-layer", layer, None) is not None:
        return None
    if n_kv * (dims[0] + dims[1]) != want_kv * 2 * want_dim:
        return "layer %d caches %d heads of %d + %d, not %d of 2 x %d" % ((layer, n_kv) + dims + (want_kv, want_dim))
    return None


def build(d, kind):
    cls = type(AutoConfig.for_model(kind))
    d = {k: v for k, v in d.items() if k != "transformers_version"}
    return cls.from_dict(d)


def subjects(kinds, verbose):
    """(type, variant, config, the text that s2 reads) of the defaults and their variants; no config: why not."""
    for kind in kinds:
        try:
            base = shrink(AutoConfig.for_model(kind).to_dict(), LAYERS)
            base = set_deep(base, **REPAIRS.get(kind, {}))
        except Exception as why:
            yield kind, "defaults", None, "%s: %s" % (type(why).__name__, str(why)[:90])
            continue
        for name, d in [("defaults", base)] + variants(base):
            try:
                config = build(d, kind)
                yield kind, name, config, text_of(config, name)
            except Exception as why:
                if name == "defaults":
                    yield kind, name, None, "%s: %s" % (type(why).__name__, str(why)[:90])
                elif verbose:
                    print("  %s %s: %s" % (kind, name, str(why).split("\n")[0][:100]))


def with_widths(raw, small):
    """A published file with the widths of the small model that is built from it."""
    for key in HIDDEN + ("head_dim", "kv_lora_rank", "qk_rope_head_dim", "global_head_dim", "swa_head_dim", "v_head_dim"):
        if isinstance(small.get(key), int):
            raw[key] = small[key]
    for own in (small.get("per_layer_config") or {}).values():  # where transformers keeps global_head_dim
        if "global_head_dim" in raw and own.get("head_dim"):
            raw["global_head_dim"] = own["head_dim"]
    if isinstance(raw.get("text_config"), dict):
        with_widths(raw["text_config"], small["text_config"])
    return raw


def published(folder):
    """(type, name, config, why not, the text that s2 reads) of real models: all but their widths is theirs."""
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(folder, name)) as f:
            d = json.load(f)
        d.pop("source", None)
        kind = d["model_type"]
        try:
            small = shrink(build(d, kind).to_dict())
            small = set_deep(small, **{k: v for k, v in REPAIRS.get(kind, {}).items() if k in WIDTHS})
            yield kind, name[:-5], build(small, kind), json.dumps(with_widths(shrink(d), small))
        except Exception as why:
            yield kind, name[:-5], None, "%s: %s" % (type(why).__name__, str(why).split("\n")[0][:90])


def judge(s2, config, name, text):
    records, why = run_model(config)
    if records is not None:
        return compare(s2, config, text, records)
    read = s2.read(text)[0] is not None
    return "no truth", why + (" [read]" if read else " [refused]")


BEGIN, END = "<!-- written by tests/formats/truth.py -->\n", "<!-- end of what truth.py wrote -->\n"
WORDS = (("equal", "equal"), ("partial", "chosen at run time"), ("refused", "refused"), ("no truth", "cannot be run"),
         ("different", "different"))


def summary(rows, published_rows):
    """Markdown: how many of which outcome, the types one by one, and what was said of those that are not read."""
    kinds = collections.OrderedDict()
    for (kind, name), outcome in rows.items():
        kinds.setdefault(kind, []).append((name, outcome))
    parts = (("default configs, by type", [o for (_, name), o in rows.items() if name == "defaults"]),
             ("variants: window, layer types, grouped heads, both ways",
              [o for (_, name), o in rows.items() if name != "defaults"]),
             ("published configs", list(published_rows.values())))
    text = "With transformers %s:\n\n| | %s | read of those that run |\n|---|%s---|\n" % (
        transformers.__version__, " | ".join(words for _, words in WORDS), "---|" * len(WORDS))
    for title, outcomes in parts:
        if outcomes:
            count = collections.Counter(outcome for outcome, _ in outcomes)
            n_run = len(outcomes) - count["no truth"]
            text += "| %s | %s | %.1f %% |\n" % (title, " | ".join(str(count[word]) for word, _ in WORDS),
                                               100 * (count["equal"] + count["partial"]) / max(n_run, 1))
    whole = ["%s (%d)" % (kind, len(found)) for kind, found in kinds.items()
             if all(outcome == "equal" for _, (outcome, _) in found)]
    text += "\nEqual in every config, whose number is in brackets: %s.\n\n" % ", ".join(whole)
    text += "| type | configs | default config | variants |\n|---|---|---|---|\n"
    for kind, found in kinds.items():
        if any(outcome != "equal" for _, (outcome, _) in found):
            text += "| %s | %d | %s | %s |\n" % (kind, len(found), said(found[:1]), said(found[1:]))
    apart = [("%s" % name, outcome) for (_, name), outcome in published_rows.items() if outcome[0] != "equal"]
    if apart:
        text += "\nPublished configs that are not simply equal: %s.\n" % "; ".join(
            "%s: %s" % (name, said([(name, outcome)])) for name, outcome in apart)
    return text


def said(found):
    """Outcomes with their number where there are several, and the first reason of each."""
    count = collections.OrderedDict()
    for _, (outcome, reason) in found:
        count.setdefault(outcome, [0, reason])[0] += 1
    words = dict(WORDS)
    return "; ".join("%s%s%s" % (words[outcome], " %d" % n if len(found) > 1 else "",
                                 ": " + clean(reason) if reason and outcome != "partial" else "")
                     for outcome, (n, reason) in count.items())


def clean(reason):
    reason = re.sub(r"^S2P400 |; if you know, say it.*| \[(read|refused)\]$", "", reason)
    return re.sub(r"\s+", " ", reason).replace("|", "/").replace("`", "'").replace("<", "(").replace(">", ")").strip()


def write_summary(path, text):
    with open(path) as f:
        whole = f.read()
    head, rest = whole.split(BEGIN)
    tail = rest.split(END)[1]
    with open(path, "w") as f:
        f.write(head + BEGIN + text + END + tail)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("program")
    args.add_argument("--types")
    args.add_argument("--configs")
    args.add_argument("--only", action="store_true")
    args.add_argument("--write")
    args.add_argument("--save")
    args.add_argument("--from", dest="kept")
    args.add_argument("--verbose", action="store_true")
    args.add_argument("--defaults", action="store_true")
    args = args.parse_args()
    torch.set_num_threads(1)
    s2 = S2(args.program)
    kinds = args.types.split(",") if args.types else sorted(CAUSAL)
    rows = {"types": collections.OrderedDict(), "published": collections.OrderedDict()}
    if args.kept:
        with open(args.kept) as f:
            for part, kept in json.load(f).items():
                rows[part].update({(kind, name): tuple(outcome) for kind, name, outcome in kept})
    if not args.only:
        run(s2, subjects(kinds, args.verbose), args, rows["types"])
    if args.configs:
        run(s2, published(args.configs), args, rows["published"])
    if args.save:
        with open(args.save, "w") as f:
            json.dump({part: [(kind, name, outcome) for (kind, name), outcome in found.items()]
                       for part, found in rows.items()}, f, indent=1)
    if args.write:
        write_summary(args.write, summary(rows["types"], rows["published"]))
    count = collections.Counter(outcome for found in rows.values() for outcome, _ in found.values())
    print("transformers %s: %d equal, %d partial, %d refused, %d different, %d without truth" % (
        transformers.__version__, count["equal"], count["partial"], count["refused"], count["different"],
        count["no truth"]))
    return 1 if count["different"] else 0


def run(s2, work, args, rows):
    for kind, name, config, text in work:
        if work.__name__ == "subjects" and name != "defaults" and (args.defaults or is_hopeless(rows, kind)):
            continue
        if config is not None:
            preload(config)
        outcome = in_child(lambda: judge(s2, config, name, text)) if config is not None else ("no truth", text)
        rows[kind, name] = outcome
        if args.verbose or outcome[0] == "different":
            print("%-10s %s, %s: %s" % (outcome[0], kind, name, outcome[1]), flush=True)


def is_hopeless(rows, kind):
    """What cannot be run by default takes its time for each variant, and says nothing."""
    return rows.get((kind, "defaults"), ("", ""))[0] == "no truth"


if __name__ == "__main__":
    sys.exit(main())
