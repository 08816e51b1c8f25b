/*
 * TensorRT-LLM's BlockSparseAttnParams: phase one later, rotated over query heads; one code path there
 * evaluates head 0 for every head, which the notes mention.
 */
#include "export/rotation.h"

#include <stdio.h>

#define WRAPPER "/block_sparse_params"

static const char *block_key(const s2_source *source, const char *at)
{
    char path[64];
    snprintf(path, sizeof path, "%s/block_sparse_block_size", at);
    return s2_doc_has(source->doc, path) ? "block_sparse_block_size" : "block_size";
}

static int recognises(const s2_source *source)
{
    return s2_rotation_holder(source, "vertical_stride", WRAPPER) != NULL ? 90 : 0;
}

/* Whoever deploys the file has to know this as well as whoever reads it. */
static void note_phase(const s2_rotation *rotation, s2_buf *notes)
{
    s2_note(notes,
            "phase: (block + head*%lld + 1) mod %lld, as TensorRT-LLM's kernels compute it; the path "
            "that materialises a mask evaluates head 0 for every head and leaves blocks unread",
            (long long)(rotation->homogeneous ? 0 : rotation->step), (long long)rotation->stride_blk);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_rotation rotation;
    char path[64];
    const char *const at = s2_rotation_holder(source, "vertical_stride", WRAPPER);
    if (at == NULL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "there is no \"vertical_stride\"");
    S2_TRY(s2_rotation_read(source, at, block_key(source, at), "num_local_blocks", "vertical_stride", 1,
                            &rotation));
    S2_TRY(s2_rotation_read_extras(source, NULL, &rotation));
    snprintf(path, sizeof path, "%s/homo_head_pattern", at);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &rotation.homogeneous, source->diag));
    rotation.step = s2_rotation_step(rotation.stride_blk, rotation.n_heads);
    rotation.offset = 1;
    note_phase(&rotation, source->notes);
    return s2_rotation_import(source, &rotation, out);
}

static s2_status export(const s2_target *target)
{
    s2_rotation rotation;
    s2_buf buf = {0};
    S2_TRY(s2_rotation_derive_alike(target, &rotation));
    note_phase(&rotation, target->notes);
    s2_buf_printf(&buf, "{\n  \"block_sparse_params\": {\n    \"block_size\": %lld,\n",
                  (long long)rotation.block_tok);
    s2_buf_printf(&buf, "    \"homo_head_pattern\": %s,\n", rotation.homogeneous ? "true" : "false");
    s2_buf_printf(&buf, "    \"num_local_blocks\": %lld,\n", (long long)rotation.local_blk);
    s2_buf_printf(&buf, "    \"vertical_stride\": %lld\n  },\n", (long long)rotation.stride_blk);
    s2_rotation_print_model(&buf, target, &rotation);
    return s2_fileset_add_buf(target->files, "block_sparse_params.json", &buf);
}

const s2_format s2_format_trtllm = {
    .name = "trtllm",
    .also = "TensorRT-LLM",
    .summary = "TensorRT-LLM BlockSparseAttnParams",
    .file_name = "block_sparse_params.json",
    .settings = "layers, heads, kv-heads, head-dim, dense-every",
    .stack = "TensorRT-LLM",
    .keeps_all = true, /* only a cyclic window frees, and these parameters have none */
    .recognises = recognises,
    .read = import,
    .write = export,
};
