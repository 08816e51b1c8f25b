/*
 * export/model_types.h - what the code of each model_type of Hugging Face does, one line per type.
 *
 * X(model_type, rule, key, period, phase, window_tok, head_dim, flags)
 *   rule        which keys of the config decide what a layer reads (export/model.h)
 *   key         the config's name for the period, NULL: it has none; for ENCODER the key that makes it causal
 *   period      without a list of layers, layer l is full when l % period == phase; 0: no layer is; for
 *               SWITCHED_UPPER the max_window_layers of a config that leaves it out; 0: 28
 *   window_tok  if the config leaves sliding_window (or attention_chunk_size) out; 0: no window then
 *   head_dim    if the config leaves head_dim out; 0: hidden_size / heads
 *   flags       S2_UNGATED: two matrices in the feed-forward layer; S2_TIED: one embedding unless stated; S2_SINKS:
 *               a learned sink logit of each head; S2_CAPPED: scores are capped at 50 unless stated; S2_UNPRICED: its
 *               code has other matrices than attention and feed-forward, or uses them more than once; S2_UNGROUPED: its
 *               code reads no number of KV heads, and has one for each head; S2_APART: feed-forward layers are layers
 *               of their own, and none is in a layer with keys or a state
 *
 * tests/formats/truth.py and habits.py check every line against the code of transformers.
 */
#ifndef S2_EXPORT_MODEL_TYPES_H
#define S2_EXPORT_MODEL_TYPES_H

#include "export/model.h"

#define S2_MODEL_TYPES(X)                                                                                    \
    X("apertus", FULL, NULL, 0, 0, 0, 0, S2_UNGATED)                                                         \
    X("apertus1p5_text", FULL, NULL, 0, 0, 0, 0, S2_UNGATED)                                                 \
    X("arcee", FULL, NULL, 0, 0, 0, 0, S2_UNGATED)                                                           \
    X("aria_text", FULL, NULL, 0, 0, 0, 0, 0)                                                                \
    X("axk1", FULL, NULL, 0, 0, 0, 0, 0)                                                                     \
    X("bailing_moe", FULL, NULL, 0, 0, 0, 0, 0)                                                              \
    X("bailing_moe_v2", FULL, NULL, 0, 0, 0, 0, 0)                                                           \
    X("biogpt", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                 \
    X("bitnet", FULL, NULL, 0, 0, 0, 0, 0)                                                                   \
    X("bloom", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                  \
    X("codegen", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_UNGROUPED)                                          \
    X("cohere", FULL, NULL, 0, 0, 0, 0, S2_TIED)                                                             \
    X("ctrl", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                   \
    X("dbrx", FULL, NULL, 0, 0, 0, 0, 0)                                                                     \
    X("deepseek_v2", FULL, NULL, 0, 0, 0, 0, 0)                                                              \
    X("deepseek_v3", FULL, NULL, 0, 0, 0, 0, 0)                                                              \
    X("diffllama", FULL, NULL, 0, 0, 0, 0, 0)                                                                \
    X("emu3", FULL, NULL, 0, 0, 0, 0, 0)                                                                     \
    X("emu3_text_model", FULL, NULL, 0, 0, 0, 0, 0)                                                          \
    X("ernie4_5", FULL, NULL, 0, 0, 0, 128, S2_TIED)                                                         \
    X("ernie4_5_moe", FULL, NULL, 0, 0, 0, 0, S2_TIED)                                                       \
    X("exaone", FULL, NULL, 0, 0, 0, 0, 0)                                                                   \
    X("falcon", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED)                                                \
    X("flex_olmo", FULL, NULL, 0, 0, 0, 0, 0)                                                                \
    X("fuyu", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_UNGROUPED)                                             \
    X("gemma", FULL, NULL, 0, 0, 0, 256, S2_TIED)                                                            \
    X("git", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_UNGROUPED)                                              \
    X("hrm_text", FULL, NULL, 0, 0, 0, 128, S2_UNPRICED)                                                     \
    X("jetmoe", FULL, NULL, 0, 0, 0, 128, S2_TIED | S2_UNPRICED)                                             \
    X("glm", FULL, NULL, 0, 0, 0, 128, 0)                                                                    \
    X("glm4", FULL, NULL, 0, 0, 0, 128, 0)                                                                   \
    X("glm4_moe", FULL, NULL, 0, 0, 0, 0, 0)                                                                 \
    X("glm4_moe_lite", FULL, NULL, 0, 0, 0, 0, 0)                                                            \
    X("glm_ocr_text", FULL, NULL, 0, 0, 0, 0, 0)                                                             \
    X("gpt-sw3", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                \
    X("gpt2", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                   \
    X("gpt_bigcode", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED)                                           \
    X("gpt_neox", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_UNGROUPED)                                         \
    X("gpt_neox_japanese", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                      \
    X("gptj", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_UNGROUPED)                                             \
    X("granite", FULL, NULL, 0, 0, 0, 0, 0)                                                                  \
    X("granite_docling_text", FULL, NULL, 0, 0, 0, 0, S2_TIED)                                               \
    X("granitemoe", FULL, NULL, 0, 0, 0, 0, 0)                                                               \
    X("granitemoeshared", FULL, NULL, 0, 0, 0, 0, 0)                                                         \
    X("helium", FULL, NULL, 0, 0, 0, 128, 0)                                                                 \
    X("hunyuan_v1_dense", FULL, NULL, 0, 0, 0, 0, 0)                                                         \
    X("hunyuan_v1_moe", FULL, NULL, 0, 0, 0, 0, 0)                                                           \
    X("hunyuan_vl_text", FULL, NULL, 0, 0, 0, 0, S2_TIED)                                                    \
    X("hy_v3", FULL, NULL, 0, 0, 0, 128, 0)                                                                  \
    X("hyperclovax", FULL, NULL, 0, 0, 0, 0, 0)                                                              \
    X("internlm2", FULL, NULL, 0, 0, 0, 0, 0)                                                                \
    X("internlm3", FULL, NULL, 0, 0, 0, 128, 0)                                                              \
    X("iquestcoder", FULL, NULL, 0, 0, 0, 128, 0)                                                            \
    X("jais2", FULL, NULL, 0, 0, 0, 0, S2_UNGATED)                                                           \
    X("kimi_k2", FULL, NULL, 0, 0, 0, 0, 0)                                                                  \
    X("llama", FULL, NULL, 0, 0, 0, 0, 0)                                                                    \
    X("longcat_flash", FULL, NULL, 0, 0, 0, 0, 0)                                                            \
    X("minicpm3", FULL, NULL, 0, 0, 0, 0, S2_TIED)                                                           \
    X("minimax_m2", FULL, NULL, 0, 0, 0, 128, 0)                                                             \
    X("moshi", FULL, NULL, 0, 0, 0, 0, S2_UNPRICED)                                                          \
    X("moss_transcribe_diarize", FULL, NULL, 0, 0, 0, 0, S2_TIED)                                            \
    X("mpt", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED)                                                   \
    X("nanochat", FULL, NULL, 0, 0, 0, 0, S2_UNGATED)                                                        \
    X("nemotron", FULL, NULL, 0, 0, 0, 0, S2_UNGATED)                                                        \
    X("olmo", FULL, NULL, 0, 0, 0, 0, 0)                                                                     \
    X("olmo2", FULL, NULL, 0, 0, 0, 0, 0)                                                                    \
    X("olmoe", FULL, NULL, 0, 0, 0, 0, 0)                                                                    \
    X("openai-gpt", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                             \
    X("opt", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                    \
    X("persimmon", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_UNGROUPED)                                        \
    X("phi", FULL, NULL, 0, 0, 0, 0, S2_UNGATED)                                                             \
    X("qwen3_vl_moe_text", FULL, NULL, 0, 0, 0, 128, 0)                                                      \
    X("qwen3_vl_text", FULL, NULL, 0, 0, 0, 128, 0)                                                          \
    X("glm4v_text", FULL, NULL, 0, 0, 0, 0, 0)                                                               \
    X("glm4v_moe_text", FULL, NULL, 0, 0, 0, 0, 0)                                                           \
    X("ernie4_5_vl_moe_text", FULL, NULL, 0, 0, 0, 0, S2_TIED)                                               \
    X("qwen3_omni_moe_text", FULL, NULL, 0, 0, 0, 0, 0)                                                      \
    X("mimo", FULL, NULL, 0, 0, 0, 0, 0)                                                                     \
    X("mistral4", FULL, NULL, 0, 0, 0, 0, 0)                                                                 \
    X("paddleocr_vl_text", FULL, NULL, 0, 0, 0, 128, S2_TIED)                                                \
    X("sarvam_mla", FULL, NULL, 0, 0, 0, 0, 0)                                                               \
    X("sarvam_moe", FULL, NULL, 0, 0, 0, 64, 0)                                                              \
    X("seed_oss", FULL, NULL, 0, 0, 0, 128, 0)                                                               \
    X("solar_open", FULL, NULL, 0, 0, 0, 128, 0)                                                             \
    X("stablelm", FULL, NULL, 0, 0, 0, 0, 0)                                                                 \
    X("step3_text", FULL, NULL, 0, 0, 0, 256, S2_UNPRICED)                                                   \
    X("xglm", FULL, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                   \
    X("youtu", FULL, NULL, 0, 0, 0, 0, S2_TIED)                                                              \
    X("ministral3", WINDOW, NULL, 0, 0, 0, 128, 0)                                                           \
    X("mistral", WINDOW, NULL, 0, 0, 4096, 0, 0)                                                             \
    X("mixtral", WINDOW, NULL, 0, 0, 0, 0, 0)                                                                \
    X("phi3", WINDOW, NULL, 0, 0, 0, 0, 0)                                                                   \
    X("phi4_multimodal", WINDOW, NULL, 0, 0, 0, 0, 0)                                                        \
    X("phimoe", WINDOW, NULL, 0, 0, 0, 0, 0)                                                                 \
    X("starcoder2", WINDOW, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED)                                          \
    X("qwen3_moe", SWITCHED, NULL, 0, 0, 4096, 0, 0)                                                         \
    X("got_ocr2", SWITCHED_UPPER, NULL, 0, 0, 4096, 0, S2_TIED)                                              \
    X("qwen2", SWITCHED_UPPER, NULL, 0, 0, 4096, 0, 0)                                                       \
    X("qwen3", SWITCHED_UPPER, NULL, 0, 0, 4096, 128, 0)                                                     \
    X("qwen2_vl", SWITCHED_UPPER, NULL, 80, 0, 4096, 0, 0)                                                   \
    X("qwen2_vl_text", SWITCHED_UPPER, NULL, 80, 0, 4096, 0, 0)                                              \
    X("qwen2_5_vl", SWITCHED_UPPER, NULL, 80, 0, 4096, 0, 0)                                                 \
    X("qwen2_5_vl_text", SWITCHED_UPPER, NULL, 80, 0, 4096, 0, 0)                                            \
    X("qwen2_5_omni_text", SWITCHED_UPPER, NULL, 0, 0, 32768, 0, 0)                                          \
    X("qwen2_moe", SWITCHED_EVEN, NULL, 0, 0, 4096, 0, 0)                                                    \
    X("smollm3", SWITCHED_ROTARY, NULL, 0, 0, 0, 0, S2_TIED)                                                 \
    X("dots1", UPPER, NULL, 0, 0, 4096, 0, 0)                                                                \
    X("afmoe", TYPES, "global_attn_every_n_layers", 4, 3, 1024, 128, 0)                                      \
    X("cohere2", TYPES, "sliding_window_pattern", 4, 3, 4096, 0, S2_TIED)                                    \
    X("cwm", TYPES, NULL, 4, 0, 8192, 128, 0)                                                                \
    X("exaone4", TYPES, "sliding_window_pattern", 4, 3, 4096, 0, 0)                                          \
    X("gemma2", TYPES, NULL, 2, 1, 4096, 256, S2_TIED | S2_CAPPED)                                           \
    X("gemma3", TYPES, "sliding_window_pattern", 6, 5, 4096, 256, S2_TIED)                                   \
    X("gemma3_text", TYPES, "sliding_window_pattern", 6, 5, 4096, 256, S2_TIED)                              \
    X("gemma3n", TYPES, NULL, 5, 4, 512, 256, S2_TIED)                                                       \
    X("gemma3n_text", TYPES, NULL, 5, 4, 512, 256, S2_TIED)                                                  \
    X("gpt_oss", TYPES, NULL, 2, 1, 128, 64, S2_SINKS)                                                       \
    X("granite_swa", TYPES, NULL, 4, 0, 128, 0, S2_TIED | S2_SINKS)                                          \
    X("granitemoe_swa", TYPES, NULL, 4, 0, 128, 0, S2_SINKS)                                                 \
    X("kolibri1", TYPES, NULL, 5, 4, 513, 128, 0)                                                            \
    X("laguna", TYPES, NULL, 1, 0, 512, 128, 0)                                                              \
    X("mellum", TYPES, NULL, 1, 0, 1024, 128, 0)                                                             \
    X("ministral", TYPES, NULL, 0, 0, 4096, 0, 0)                                                            \
    X("olmo3", TYPES, NULL, 4, 3, 4096, 0, 0)                                                                \
    X("vaultgemma", TYPES, NULL, 2, 1, 4096, 256, S2_TIED | S2_CAPPED)                                       \
    X("modernbert-decoder", HALVES, "global_attn_every_n_layers", 3, 0, 128, 0, S2_TIED | S2_UNGROUPED)      \
    X("beam", LISTED, NULL, 0, 0, 512, 128, 0)                                                               \
    X("cohere2_moe", LISTED, NULL, 0, 0, 4096, 128, S2_TIED)                                                 \
    X("exaone_moe", TYPES, "sliding_window_pattern", 4, 3, 4096, 0, 0)                                       \
    X("flint", LISTED, NULL, 0, 0, 513, 128, S2_SINKS)                                                       \
    X("step3p5", LISTED, NULL, 0, 0, 0, 128, 0)                                                              \
    X("llama4", CHUNKS, "no_rope_layer_interval", 4, 3, 8192, 128, 0)                                        \
    X("llama4_text", CHUNKS, "no_rope_layer_interval", 4, 3, 8192, 128, 0)                                   \
    X("mimo_v2_flash", MIMO, NULL, 0, 0, 129, 192, 0)                                                        \
    X("bart", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                \
    X("blenderbot", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                          \
    X("blenderbot-small", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                    \
    X("marian", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                              \
    X("mbart", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                               \
    X("mvp", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                 \
    X("pegasus", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                             \
    X("plbart", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                              \
    X("prophetnet", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                          \
    X("trocr", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                               \
    X("whisper", DECODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED)                                            \
    X("bert", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                                \
    X("bert-generation", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                     \
    X("camembert", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                           \
    X("data2vec-text", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                       \
    X("electra", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                             \
    X("ernie", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                               \
    X("megatron-bert", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                       \
    X("rembert", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_UNGROUPED)                                       \
    X("roberta", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                             \
    X("roberta-prelayernorm", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                \
    X("roc_bert", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNPRICED | S2_UNGROUPED)              \
    X("roformer", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                            \
    X("xlm-roberta", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                         \
    X("xlm-roberta-xl", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                      \
    X("xmod", ENCODER, NULL, 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNPRICED | S2_UNGROUPED)                  \
    X("xlm", ENCODER, "causal", 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                             \
    X("xlnet", ENCODER, "attn_type", 0, 0, 0, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)                        \
    X("bailing_hybrid", HYBRID, "layer_group_size", 6, 5, 0, 128, 0)                                         \
    X("bamba", HYBRID, NULL, 0, 0, 0, 0, 0)                                                                  \
    X("granitemoehybrid", HYBRID, NULL, 0, 0, 0, 0, 0)                                                       \
    X("jamba", HYBRID, NULL, 8, 4, 0, 0, 0)                                                                  \
    X("kimi_linear", HYBRID, NULL, 0, 0, 0, 0, 0)                                                            \
    X("lara_mini", HYBRID, NULL, 0, 0, 512, 128, S2_TIED)                                                    \
    X("lfm2", HYBRID, NULL, 0, 0, 0, 0, S2_TIED)                                                             \
    X("lfm2_moe", HYBRID, NULL, 0, 0, 0, 0, S2_TIED)                                                         \
    X("lfm3", HYBRID, NULL, 0, 0, 256, 128, S2_TIED)                                                         \
    X("minimax", HYBRID, NULL, 0, 0, 0, 0, 0)                                                                \
    X("minimax_m1", HYBRID, NULL, 0, 0, 0, 0, 0)                                                             \
    X("minimax_text_01", HYBRID, NULL, 0, 0, 0, 0, 0)                                                        \
    X("nemotron_h", HYBRID, NULL, 0, 0, 0, 128, S2_UNGATED | S2_APART)                                       \
    X("olmo_hybrid", HYBRID, NULL, 0, 0, 0, 0, 0)                                                            \
    X("qwen3_5_moe_text", HYBRID, "full_attention_interval", 4, 3, 0, 256, 0)                                \
    X("qwen3_5_text", HYBRID, "full_attention_interval", 4, 3, 0, 256, 0)                                    \
    X("qwen3_next", HYBRID, "full_attention_interval", 4, 3, 0, 256, 0)                                      \
    X("recurrent_gemma", HYBRID, NULL, 0, 0, 2048, 0, S2_TIED)                                               \
    X("falcon_h1", PARALLEL, NULL, 0, 0, 0, 0, 0)                                                            \
    X("inkling2_text", PARALLEL, NULL, 6, 5, 1024, 128, 0)                                                   \
    X("inkling_text", PARALLEL, NULL, 6, 5, 512, 128, 0)                                                     \
    X("zamba", PARALLEL, NULL, 0, 0, 0, 0, S2_TIED | S2_UNPRICED)                                            \
    X("zamba2", PARALLEL, NULL, 0, 0, 0, 0, S2_TIED | S2_UNPRICED)                                           \
    X("zaya", PARALLEL, NULL, 0, 0, 0, 128, S2_TIED)                                                         \
    X("falcon_mamba", STATES, NULL, 0, 0, 0, 0, S2_TIED)                                                     \
    X("mamba", STATES, NULL, 0, 0, 0, 0, S2_TIED)                                                            \
    X("mamba2", STATES, NULL, 0, 0, 0, 0, 0)                                                                 \
    X("mllama_text_model", CROSSED, NULL, 0, 0, 0, 0, 0)                                                     \
    X("gemma4_text", TYPES, NULL, 6, 5, 512, 256, S2_TIED)                                                   \
    X("gemma4_unified_text", TYPES, NULL, 6, 5, 1024, 256, S2_TIED)                                          \
    X("gpt_neo", GPT_NEO, NULL, 0, 0, 256, 0, S2_UNGATED | S2_TIED | S2_UNGROUPED)

#endif /* S2_EXPORT_MODEL_TYPES_H */
