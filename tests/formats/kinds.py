"""Configs of transformers' own classes that tests build models from: one for each model_type, and more of some."""
import json
import os
import re

# Text models that transformers builds as a part of another one.
PARTS = {"glm_ocr_text": "glm_ocr", "granite_docling_text": "granite_docling", "mistral4": "mistral4",
         "paddleocr_vl_text": "paddleocr_vl", "step3p5": "step3p7"}


def every(n, word, other, period):
    return [word if layer % period == period - 1 else other for layer in range(n)]


# Of types whose default has layers of one kind alone, or names none: configs in which they are mixed.
MIXED = {
    "bailing_hybrid": [{"q_lora_rank": 1536, "layer_group_size": 8, "num_hidden_layers": 32}],
    "deepseek_v2": [{"num_experts_per_tok": 6}],
    "bamba": [{"attn_layer_indices": [9, 18, 27]}],
    "gemma4_text": [{"num_kv_shared_layers": 18},
                    {"enable_moe_block": True, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704,
                     "intermediate_size": 2112, "hidden_size": 2816, "hidden_size_per_layer_input": 0,
                     "num_attention_heads": 16, "num_key_value_heads": 8, "num_global_key_value_heads": 2,
                     "attention_k_eq_v": True},
                    {"num_kv_shared_layers": 18, "use_double_wide_mlp": True}],
    "granitemoehybrid": [{"layer_types": every(32, "full_attention", "linear_attention", 8), "num_key_value_heads": 8},
                         {"layer_types": every(32, "full_attention", "linear_attention", 8), "num_local_experts": 0,
                          "shared_intermediate_size": 8192}],
    "falcon_mamba": [{"hidden_size": 4096, "num_hidden_layers": 64, "vocab_size": 65024}],
    "jamba": [{"num_experts": 1}, {"expert_layer_period": 3, "expert_layer_offset": 2}],
    "lfm2": [{"layer_types": every(16, "full_attention", "conv", 3), "num_hidden_layers": 16},
             {"layer_types": every(16, "full_attention", "conv", 3), "num_hidden_layers": 16,
              "block_ffn_dim_multiplier": 1.3, "block_multiple_of": 64}],
    "lfm2_moe": [{"layer_types": every(24, "full_attention", "conv", 4), "num_hidden_layers": 24}],
    "nemotron_h": [{"layers_block_type": ["linear_attention", "mlp"] * 6 + ["full_attention", "mlp"] * 2},
                   {"layers_block_type": ["linear_attention", "moe"] * 6 + ["full_attention", "moe"] * 2},
                   {"layers_block_type": ["mlp", "linear_attention", "linear_attention", "moe", "mlp",
                                          "full_attention"]},
                   {"layers_block_type": ["linear_attention", "moe"] * 6 + ["full_attention", "moe"] * 2,
                    "moe_latent_size": 1024, "n_routed_experts": 64, "moe_intermediate_size": 2048}],
    "qwen3_next": [{"mlp_only_layers": [0, 5, 6]}, {"layer_types": ["full_attention"] * 48}],
    "qwen3_moe": [{"mlp_only_layers": [1, 2, 9]}],
}


def rules():
    """{model type that s2 knows: its rule}, in the order of its table."""
    table = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../export/model_types.h")
    return dict(re.findall(r'^    X\("([^"]+)", (\w+)', open(table, encoding="utf-8").read(), re.M))


def text_of(config):
    """A config as its file would have it."""
    return json.dumps(config.to_dict(), default=str)
