/*
 * TensorRT-LLM's BlockSparseAttnParams: phase one later, rotated over the query heads of each rank. Its fused
 * context attention does not know them and computes every causal pair; see `differs`.
 */
#include "export/rotation.h"

#include <stdio.h>

#define WRAPPER "/block_sparse_params"

static const char *block_key(const s2_source *source, const char *root)
{
    char path[64];
    snprintf(path, sizeof path, "%s/block_sparse_block_size", root);
    return s2_doc_has(source->doc, path) ? "block_sparse_block_size" : "block_size";
}

static int recognises(const s2_source *source)
{
    return s2_rotation_holder(source, "vertical_stride", WRAPPER) != NULL ? 90 : 0;
}

/* The kernels of a rank know its own heads alone, counted from 0, and take the step of that number. */
static s2_status read_ranks(const s2_source *source, s2_rotation *rotation)
{
    S2_TRY(s2_rotation_read_ranks(source, &rotation->n_ranks));
    if (rotation->n_heads % rotation->n_ranks != 0)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "%lld tensor-parallel ranks cannot share %lld heads evenly",
                           (long long)rotation->n_ranks, (long long)rotation->n_heads);
    rotation->step = s2_rotation_step(rotation->stride_blk, rotation->n_heads / rotation->n_ranks);
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_rotation rotation;
    char path[64];
    const char *const root = s2_rotation_holder(source, "vertical_stride", WRAPPER);
    if (root == NULL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "there is no \"vertical_stride\"");
    S2_TRY(s2_rotation_read(source, root, block_key(source, root), "num_local_blocks", "vertical_stride", 1,
                            &rotation));
    S2_TRY(s2_rotation_read_extras(source, NULL, &rotation));
    snprintf(path, sizeof path, "%s/homo_head_pattern", root);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &rotation.homogeneous, source->diag));
    S2_TRY(read_ranks(source, &rotation));
    rotation.offset = 1;
    s2_note(source->notes, "phase: (block + head*%lld + 1) mod %lld, as TensorRT-LLM computes it%s",
            (long long)(rotation.homogeneous ? 0 : rotation.step), (long long)rotation.stride_blk,
            rotation.n_ranks > 1 ? ", with the heads of each rank counted from 0" : "");
    return s2_rotation_import(source, &rotation, out);
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
                               "from 0 each, and --set tp=N compares what N of them read");
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
    .summary = "TensorRT-LLM BlockSparseAttnParams",
    .file_name = "block_sparse_params.json",
    .settings = "layers, heads, kv-heads, head-dim, dense-every, tp (1)",
    .stack = "TensorRT-LLM",
    .model = "phi-3-small",
    .differs = "where its fused kernels compute prefill (context_fmha): these read every earlier key",
    .keeps_all = true, /* only a cyclic window frees, and these parameters have none */
    .recognises = recognises,
    .read = import,
    .write = export,
};
