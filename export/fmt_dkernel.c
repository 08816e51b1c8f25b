/*
 * DKernel's LocalStrideSparseAttention arguments: phase 0 by default, rotated over KV heads where
 * num_kv_heads is given, while the step is still computed from the query heads.
 */
#include "export/rotation.h"

#include <stdio.h>
#include <string.h>

#include "export/call.h"
#include "export/tree.h"

#define CALLEE  "LocalStrideSparseAttention"
#define WRAPPER "/" CALLEE

/* Arguments that DKernel takes by position; the others must be named there too. */
static const char *const positional[] = {"num_heads", "max_seq_len", "block_size", "local_blocks",
                                         "vert_stride"};

static int recognises(const s2_source *source)
{
    static const char *const own[] = {"max_seq_len", "head_sliding_offset", "num_dense_heads",
                                      "active_head_range"};
    s2_call call;
    if (s2_call_find(source->bytes, source->n_bytes, CALLEE, &call))
        return 96;
    const char *const root = s2_rotation_holder(source, "vert_stride", WRAPPER);
    if (root == NULL)
        return 0;
    if (root[0] != '\0')
        return 95;
    for (size_t n = 0; n < sizeof own / sizeof *own; n++) {
        char path[64];
        snprintf(path, sizeof path, "/%s", own[n]);
        if (s2_doc_has(source->doc, path))
            return 92;
    }
    return 50;
}

static s2_status refuse_unsaid(const s2_source *source, const char *root)
{
    char path[96];
    bool causal;
    snprintf(path, sizeof path, "%s/causal", root);
    S2_TRY(s2_doc_bool_or(source->doc, path, true, &causal, source->diag));
    if (!causal)
        return s2_doc_refuse(
            source->doc, path, source->diag,
            "without causal DKernel strides over distances on both sides; only causal is read");
    snprintf(path, sizeof path, "%s/active_head_range", root);
    if (s2_doc_has(source->doc, path))
        return s2_doc_refuse(source->doc, path, source->diag,
                             "active_head_range is one rank's slice; give the arguments of the whole layer");
    return S2_OK;
}

static s2_status read_heads(const s2_source *source, const char *root, s2_rotation *rotation)
{
    char path[96];
    int64_t n_kv;
    snprintf(path, sizeof path, "%s/num_heads", root);
    S2_TRY(s2_doc_int(source->doc, path, 1, S2_LIMIT_HEADS, &rotation->n_heads, source->diag));
    snprintf(path, sizeof path, "%s/num_kv_heads", root);
    S2_TRY(s2_doc_int_or(source->doc, path, 1, rotation->n_heads, 0, &n_kv, source->diag));
    if (n_kv != 0 && rotation->n_heads % n_kv != 0)
        return s2_doc_refuse(source->doc, path, source->diag, "num_kv_heads does not divide num_heads");
    rotation->over_kv = n_kv != 0;
    rotation->n_kv_heads = n_kv != 0 ? n_kv : rotation->n_heads;
    snprintf(path, sizeof path, "%s/num_dense_heads", root);
    return s2_doc_int_or(source->doc, path, 0, rotation->n_kv_heads, 0, &rotation->n_dense_kv, source->diag);
}

static s2_status import_arguments(const s2_source *source, s2_pattern *out)
{
    s2_rotation rotation, heads;
    if (source->doc == NULL)
        return s2_source_needs(source, false, "a call of " CALLEE " or its arguments");
    char path[96];
    const char *const root = s2_rotation_holder(source, "vert_stride", WRAPPER);
    if (root == NULL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "there is no \"vert_stride\"");
    S2_TRY(s2_rotation_read(source, root, "block_size", "local_blocks", "vert_stride", 1, &rotation));
    S2_TRY(refuse_unsaid(source, root));
    heads = rotation;
    S2_TRY(read_heads(source, root, &heads));
    rotation.over_kv = heads.over_kv;
    rotation.n_dense_kv = heads.n_dense_kv;
    S2_TRY(s2_rotation_read_extras(source, &heads, &rotation));
    S2_TRY(s2_said_most(source, root, "max_seq_len"));
    snprintf(path, sizeof path, "%s/homo_head", root);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &rotation.homogeneous, source->diag));
    S2_TRY(s2_rotation_refuse_homogeneous(source, path, &rotation));
    if (rotation.homogeneous && heads.over_kv && heads.n_kv_heads > 1)
        return s2_doc_refuse(
            source->doc, path, source->diag,
            "DKernel cannot build a pattern where homo_head is true and num_kv_heads is above 1");
    snprintf(path, sizeof path, "%s/head_sliding_offset", root);
    S2_TRY(s2_doc_int_or(source->doc, path, 0, S2_LIMIT_STRIDE, 0, &rotation.offset, source->diag));
    rotation.step = s2_rotation_step(rotation.stride_blk, rotation.n_heads);
    s2_note(source->notes,
            "phase: (block + %s*%lld + %lld) mod %lld; the step is stride / num_heads (query heads), also "
            "where the mask is built per KV head",
            rotation.over_kv ? "kv" : "head", (long long)(rotation.homogeneous ? 0 : rotation.step),
            (long long)rotation.offset, (long long)rotation.stride_blk);
    if (!rotation.over_kv)
        s2_note(source->notes,
                "num_kv_heads is not given: every query head has its own pattern and KV is repeated");
    return s2_rotation_import(source, &rotation, out);
}

/* A call in a Python file. A refusal is reported at the call. */
static s2_status import_call(const s2_source *source, const s2_call *call, s2_pattern *out)
{
    s2_doc doc = {0};
    s2_buf text = {0};
    s2_source arguments = *source;
    s2_status status = s2_call_arguments(source->bytes, source->n_bytes, CALLEE, call, positional,
                                         sizeof positional / sizeof *positional, &text, source->diag);
    if (status != S2_OK) {
        s2_buf_release(&text);
        return status;
    }
    if (call->n_calls > 1)
        s2_note(source->notes, "the first of %d calls of " CALLEE " is read", call->n_calls);
    if (text.len > 0)
        status = s2_doc_parse(text.data, text.len, &doc, source->diag);
    else
        status = s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "this call has no arguments");
    if (status == S2_OK) {
        arguments.doc = &doc;
        status = import_arguments(&arguments, out);
        s2_doc_release(&doc);
    }
    if (status == S2_EPARSE && source->diag != NULL)
        s2_text_position(source->bytes, source->n_bytes, call->begin, &source->diag->line,
                         &source->diag->col);
    s2_buf_release(&text);
    return status;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_call call;
    if (s2_call_find(source->bytes, source->n_bytes, CALLEE, &call))
        return import_call(source, &call, out);
    return import_arguments(source, out);
}

static s2_status export(const s2_target *target)
{
    s2_rotation rotation;
    s2_buf buf = {0};
    S2_TRY(s2_rotation_derive(target, &rotation));
    S2_TRY(s2_rotation_check_dkernel(target, &rotation));
    if (rotation.stride_blk == 0)
        return s2_target_refuse(target, "this format has no window without a stride");
    s2_buf_puts(&buf, "{\n  \"LocalStrideSparseAttention\": {\n");
    s2_buf_printf(&buf, "    \"num_heads\": %lld,\n    \"max_seq_len\": %lld,\n", (long long)rotation.n_heads,
                  (long long)target->n_tok);
    s2_buf_printf(&buf, "    \"block_size\": %lld,\n    \"local_blocks\": %lld,\n",
                  (long long)rotation.block_tok, (long long)rotation.local_blk);
    s2_buf_printf(&buf, "    \"vert_stride\": %lld,\n    \"homo_head\": %s,\n",
                  (long long)rotation.stride_blk,
                  rotation.homogeneous && rotation.n_heads > 1 ? "true" : "false");
    s2_buf_printf(&buf, "    \"num_dense_heads\": %lld,\n", (long long)rotation.n_dense_kv);
    if ((rotation.over_kv && !rotation.homogeneous) || rotation.n_dense_kv > 0)
        s2_buf_printf(&buf, "    \"num_kv_heads\": %lld,\n", (long long)rotation.n_kv_heads);
    else
        s2_buf_puts(&buf, "    \"num_kv_heads\": null,\n");
    s2_buf_printf(&buf, "    \"head_sliding_offset\": %lld,\n    \"causal\": true\n  },\n",
                  (long long)rotation.offset);
    s2_rotation_print_model(&buf, target, &rotation);
    s2_note_most(target, "max_seq_len");
    if (!rotation.over_kv && rotation.n_kv_heads < rotation.n_heads)
        s2_note(target->notes,
                "heads of one KV head differ: DKernel wants K and V repeated to all query heads");
    if (rotation.dense_every > 0)
        s2_note(target->notes,
                "dense layers are the model's business: one layer in %lld gets no sparse attention",
                (long long)rotation.dense_every);
    return s2_fileset_add_buf(target->files, "dkernel.json", &buf);
}

const s2_format s2_format_dkernel = {
    .name = "dkernel",
    .summary = "DKernel LocalStrideSparseAttention: its arguments, or the call in Python",
    .file_name = "dkernel.json",
    .per_gpu = true,
    .settings = "layers, kv-heads, head-dim, dense-every",
    .reads_bytes = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
