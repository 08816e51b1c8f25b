/*
 * The Megatron-LM hook of DKernel: --sparse-* arguments. A vertical stride of 0 means only the window.
 */
#include "export/rotation.h"

static int recognises(const s2_source *source)
{
    return s2_rotation_holder(source, "sparse_local_blocks", "") != NULL ? 90 : 0;
}

/* Megatron's own window, (left, right) in tokens: the hook takes fewer local blocks where it has fewer. */
static s2_status read_window(const s2_source *source, s2_rotation *rotation)
{
    static const char path[] = "/window_size";
    int64_t left, right;
    if (!s2_doc_has(source->doc, path))
        return S2_OK;
    if (!s2_doc_is_array(source->doc, path) || s2_doc_len(source->doc, path) != 2)
        return s2_doc_refuse(source->doc, path, source->diag, "expected the tokens on both sides: LEFT,0");
    S2_TRY(s2_doc_int(source->doc, "/window_size/0", -1, S2_LIMIT_CONTEXT_TOK, &left, source->diag));
    S2_TRY(s2_doc_int(source->doc, "/window_size/1", -1, S2_LIMIT_CONTEXT_TOK, &right, source->diag));
    if (right != 0 || left < rotation->block_tok || left % rotation->block_tok != 0)
        return s2_doc_refuse(
            source->doc, path, source->diag,
            "this hook takes a window of whole blocks of %lld tokens before a query and none "
            "after it, not (%lld, %lld)",
            (long long)rotation->block_tok, (long long)left, (long long)right);
    if (left / rotation->block_tok >= rotation->local_blk)
        return S2_OK;
    rotation->local_blk = left / rotation->block_tok;
    s2_note(source->notes, "window_size is below sparse_local_blocks: %lld local blocks",
            (long long)rotation->local_blk);
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_rotation rotation;
    S2_TRY(s2_rotation_read(source, "", "sparse_block_size", "sparse_local_blocks", "sparse_vertical_stride",
                            0, &rotation));
    S2_TRY(s2_rotation_read_extras(source, NULL, &rotation));
    S2_TRY(read_window(source, &rotation));
    S2_TRY(s2_said_most(source, "", "seq_length"));
    S2_TRY(s2_doc_bool_or(source->doc, "/sparse_homo_head", false, &rotation.homogeneous, source->diag));
    S2_TRY(s2_doc_int_or(source->doc, "/sparse_num_dense_heads", 0, rotation.n_kv_heads, 0,
                         &rotation.n_dense_kv, source->diag));
    S2_TRY(s2_doc_int_or(source->doc, "/sparse_head_sliding_offset", 0, S2_LIMIT_STRIDE, 0, &rotation.offset,
                         source->diag));
    S2_TRY(s2_rotation_refuse_homogeneous(source, "/sparse_homo_head", &rotation));
    if (s2_doc_has(source->doc, "/sparse_active_head_range"))
        return s2_doc_refuse(
            source->doc, "/sparse_active_head_range", source->diag,
            "an active head range is one rank's slice; give the arguments of the whole layer");
    rotation.over_kv = rotation.n_kv_heads < rotation.n_heads;
    rotation.step = rotation.stride_blk > 0 ? s2_rotation_step(rotation.stride_blk, rotation.n_heads) : 0;
    s2_note(source->notes,
            "phases as DKernel computes them with one tensor-parallel rank; with several ranks this hook "
            "shifts the offset and slices the heads, and both together lose columns");
    s2_note(source->notes, "one specification serves all layers; dense layers need --set dense-every=N");
    return s2_rotation_import(source, &rotation, out);
}

static s2_status export(const s2_target *target)
{
    s2_rotation rotation;
    s2_buf buf = {0};
    S2_TRY(s2_rotation_derive(target, &rotation));
    S2_TRY(s2_rotation_check_dkernel(target, &rotation));
    if (rotation.dense_every > 0)
        return s2_target_refuse(target, "this hook has no dense layers; layer %lld is dense",
                                (long long)(rotation.dense_every - 1));
    s2_buf_printf(&buf,
                  "--num-layers %lld --num-attention-heads %lld --num-query-groups %lld --kv-channels %lld\n",
                  (long long)rotation.n_layers, (long long)rotation.n_heads, (long long)rotation.n_kv_heads,
                  (long long)rotation.head_dim);
    s2_buf_printf(&buf, "--seq-length %lld\n--sparse-block-size %lld\n--sparse-local-blocks %lld\n",
                  (long long)target->n_tok, (long long)rotation.block_tok, (long long)rotation.local_blk);
    s2_buf_printf(&buf, "--sparse-vertical-stride %lld\n--sparse-num-dense-heads %lld\n",
                  (long long)rotation.stride_blk, (long long)rotation.n_dense_kv);
    s2_buf_printf(&buf, "--sparse-head-sliding-offset %lld\n", (long long)rotation.offset);
    if (rotation.homogeneous && rotation.n_heads > 1 && rotation.stride_blk > 0)
        s2_buf_puts(&buf, "--sparse-homo-head\n");
    s2_note_most(target, "--seq-length");
    return s2_fileset_add_buf(target->files, "megatron-args.txt", &buf);
}

const s2_format s2_format_megatron = {
    .name = "megatron",
    .summary = "Megatron-LM arguments of the DKernel hook (--sparse-*)",
    .file_name = "megatron-args.txt",
    .settings = "layers, heads, kv-heads, head-dim, dense-every",
    .recognises = recognises,
    .read = import,
    .write = export,
};
