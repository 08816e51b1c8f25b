/*
 * TensorRT-LLM's BlockSparseAttnParams: phase one later, rotated over the query heads of each rank. Its fused
 * context attention does not know them and computes every causal pair; see `differs`. The config.json of its
 * checkpoints and, under "pretrained_config", of its engines are read too.
 */
#include "export/rotation.h"

#include <stdio.h>
#include <string.h>

#include "export/model.h"

#define WRAPPER "/block_sparse_params"
#define ENGINE  "/pretrained_config"
#define SPARSE  "Phi3SmallForCausalLM"

static const char *block_key(const s2_source *source, const char *root)
{
    char path[64];
    snprintf(path, sizeof path, "%s/block_sparse_block_size", root);
    return s2_doc_has(source->doc, path) ? "block_sparse_block_size" : "block_size";
}

/* Where the config of a checkpoint is: "" or in the config of an engine; NULL: this is none. */
static const char *checkpoint(const s2_source *source)
{
    static const char *const roots[] = {"", ENGINE};
    char path[3][S2_DOC_PATH];
    for (size_t n = 0; source->doc != NULL && n < sizeof roots / sizeof *roots; n++)
        if (s2_doc_text(source->doc, s2_doc_under(roots[n], "architecture", path[0])) != NULL &&
            s2_doc_has(source->doc, s2_doc_under(roots[n], "num_attention_heads", path[1])) &&
            s2_doc_has(source->doc, s2_doc_under(roots[n], "mapping", path[2])))
            return roots[n];
    return NULL;
}

static int recognises(const s2_source *source)
{
    return s2_rotation_holder(source, "vertical_stride", WRAPPER) != NULL || checkpoint(source) != NULL ? 90
                                                                                                        : 0;
}

/* The kernels of a rank know its own heads alone, counted from 0, and take the step of that number. */
static s2_status read_ranks(const s2_source *source, const char *path, s2_rotation *rotation)
{
    S2_TRY(s2_rotation_read_ranks(source, path, &rotation->n_ranks));
    if (rotation->n_heads % rotation->n_ranks != 0)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "%lld tensor-parallel ranks cannot share %lld heads evenly",
                           (long long)rotation->n_ranks, (long long)rotation->n_heads);
    rotation->step = s2_rotation_step(rotation->stride_blk, rotation->n_heads / rotation->n_ranks);
    return S2_OK;
}

static s2_status finish(const s2_source *source, s2_rotation *rotation, s2_pattern *out)
{
    rotation->offset = 1;
    s2_note(source->notes, "phase: (block + head*%lld + 1) mod %lld, as TensorRT-LLM computes it%s",
            (long long)(rotation->homogeneous ? 0 : rotation->step), (long long)rotation->stride_blk,
            rotation->n_ranks > 1 ? ", with the heads of each rank counted from 0" : "");
    return s2_rotation_import(source, rotation, out);
}

/* ---- the config of a checkpoint or an engine ---------------------------------------------------- */

/* Architectures whose code in tensorrt_llm/models gives every layer the causal mask. */
static bool is_causal(const char *architecture)
{
    static const char *const names[] = {
        "LlamaForCausalLM",    "MistralForCausalLM",   "MixtralForCausalLM", "ExaoneForCausalLM",
        "InternLMForCausalLM", "InternLM2ForCausalLM", "GraniteForCausalLM", "GraniteMoeForCausalLM",
        "SkyworkForCausalLM",  "ArcticForCausalLM",    "Phi3ForCausalLM",    "PhiMoEForCausalLM",
        "QWenLMHeadModel",     "QWenForCausalLM",      "Qwen2ForCausalLM",   "Qwen2MoeForCausalLM",
        "Qwen3ForCausalLM"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strcmp(architecture, names[n]) == 0)
            return true;
    return false;
}

/* Every layer reads every earlier key, unless whoever runs the engine gives it windows. */
static s2_status import_causal(const s2_source *source, const char *root, const char *ranks, s2_pattern *out)
{
    s2_model_shape shape;
    s2_buf text = {0};
    int64_t n_ranks;
    S2_TRY(s2_model_shape_read(source, root, &shape));
    S2_TRY(s2_rotation_read_ranks(source, ranks, &n_ranks));
    s2_language_name(&text, source->name);
    s2_language_shape(&text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, 64);
    s2_buf_puts(&text, "layers all: dense\n");
    s2_note(source->notes,
            "windows are no part of a checkpoint: max_attention_window_size, a setting of whoever "
            "runs the engine, is one");
    return s2_language_parse(source, &text, out);
}

static s2_status import_sparse(const s2_source *source, const char *root, const char *ranks, s2_pattern *out)
{
    s2_rotation rotation;
    char path[S2_DOC_PATH];
    S2_TRY(s2_rotation_read(source, root, "blocksparse_block_size", "blocksparse_num_local_blocks",
                            "blocksparse_vertical_stride", 1, &rotation));
    S2_TRY(s2_rotation_read_model(source, root, &rotation));
    if (rotation.dense_every == 0)
        return s2_doc_refuse(
            source->doc, s2_doc_under(root, "dense_attention_every_n_layers", path), source->diag,
            "\"dense_attention_every_n_layers\" is missing, and the code of " SPARSE " divides by it");
    s2_doc_under(root, "blocksparse_homo_head_pattern", path);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &rotation.homogeneous, source->diag));
    S2_TRY(read_ranks(source, ranks, &rotation));
    return finish(source, &rotation, out);
}

/* An engine that was built with the fused kernels of prefill does not follow the pattern there. */
static s2_status say_fused(const s2_source *source)
{
    static const char PATH[] = "/build_config/plugin_config/context_fmha";
    bool fused = false;
    if (s2_doc_text(source->doc, PATH) == NULL)
        S2_TRY(s2_doc_bool_or(source->doc, PATH, false, &fused, source->diag));
    if (fused)
        s2_note(&source->said->warnings,
                "the engine was built with context_fmha, whose kernels do not know these "
                "parameters: its prefill reads every earlier key, its decode what is "
                "written here");
    return S2_OK;
}

static s2_status import_checkpoint(const s2_source *source, const char *root, s2_pattern *out)
{
    char path[S2_DOC_PATH], ranks[S2_DOC_PATH], clean[64];
    const char *const architecture = s2_doc_text(source->doc, s2_doc_under(root, "architecture", path));
    const char *const rule = s2_setting_text(&source->settings, "rule");
    s2_doc_under(root, "mapping/tp_size", ranks);
    S2_TRY(s2_said_most(source, root, "max_position_embeddings"));
    if (rule != NULL && strcmp(rule, "full") != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "--set rule=%.40s: expected full",
                           rule);
    if (rule == NULL && strcmp(architecture, SPARSE) == 0) {
        S2_TRY(say_fused(source));
        return import_sparse(source, root, ranks, out);
    }
    if (rule != NULL || is_causal(architecture))
        return import_causal(source, root, ranks, out);
    s2_text_clean(clean, sizeof clean, architecture);
    return s2_doc_refuse(
        source->doc, path, source->diag,
        "what the layers of TensorRT-LLM's %s read is not known here; if all of them read every "
        "earlier key, say it: --set rule=full",
        clean);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_rotation rotation;
    char path[64];
    const char *const root = s2_rotation_holder(source, "vertical_stride", WRAPPER);
    const char *const config = checkpoint(source);
    if (config != NULL)
        return import_checkpoint(source, config, out);
    if (root == NULL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "there is no \"vertical_stride\"");
    S2_TRY(s2_rotation_read(source, root, block_key(source, root), "num_local_blocks", "vertical_stride", 1,
                            &rotation));
    S2_TRY(s2_rotation_read_extras(source, NULL, &rotation));
    snprintf(path, sizeof path, "%s/homo_head_pattern", root);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &rotation.homogeneous, source->diag));
    S2_TRY(read_ranks(source, "/" S2_RANKS_KEY, &rotation));
    return finish(source, &rotation, out);
}

static s2_status export(const s2_target *target)
{
    s2_rotation rotation;
    s2_buf buf = {0};
    int64_t n_ranks;
    S2_TRY(s2_rotation_derive_alike(target, &rotation));
    S2_TRY(s2_setting_int(&target->settings, "tp", 1, S2_LIMIT_HEADS, 1, &n_ranks, target->diag));
    if (rotation.n_heads % n_ranks != 0)
        return s2_target_refuse(target,
                                "%lld ranks cannot share %lld heads evenly: --set tp must divide them",
                                (long long)n_ranks, (long long)rotation.n_heads);
    if (n_ranks == 1 && !rotation.homogeneous)
        s2_note(target->notes, "the phases are those of one GPU: tensor-parallel ranks count their heads "
                               "from 0 each, and --tp N compares what N of them read");
    s2_note(target->notes, "the format has no place for a length: the engine's own settings limit it");
    s2_buf_printf(&buf, "{\n  \"block_sparse_params\": {\n    \"block_size\": %lld,\n",
                  (long long)rotation.block_tok);
    s2_buf_printf(&buf, "    \"homo_head_pattern\": %s,\n", rotation.homogeneous ? "true" : "false");
    s2_buf_printf(&buf, "    \"num_local_blocks\": %lld,\n", (long long)rotation.local_blk);
    s2_buf_printf(&buf, "    \"vertical_stride\": %lld\n  },\n", (long long)rotation.stride_blk);
    s2_buf_printf(&buf, "  \"" S2_RANKS_KEY "\": %lld,\n", (long long)n_ranks);
    s2_rotation_print_model(&buf, target, &rotation);
    return s2_fileset_add_buf(target->files, "block_sparse_params.json", &buf);
}

const s2_format s2_format_trtllm = {
    .name = "trtllm",
    .also = "TensorRT-LLM",
    .summary = "TensorRT-LLM BlockSparseAttnParams, or a checkpoint's config.json",
    .file_name = "block_sparse_params.json",
    .settings = "layers, heads, kv-heads, head-dim, dense-every, tp (1), rule (full)",
    .stack = "TensorRT-LLM",
    .model = "phi-3-small",
    .differs = "where its fused kernels compute prefill (context_fmha): these read every earlier key",
    .keeps_all = true, /* only a cyclic window frees, and these parameters have none */
    .recognises = recognises,
    .read = import,
    .write = export,
};
