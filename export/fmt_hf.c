/*
 * Phi-3-small's config.json: absolute stride with a phase one later than DKernel's, rotated over query heads;
 * layer l is dense when (l + 1) mod dense_attention_every_n_layers is 0.
 */
#include "export/rotation.h"
#include "export/model.h"

#include <stdio.h>
#include <string.h>

#define MODEL "phi-3-small"
#define TYPE  "phi3small"

static int recognises(const s2_source *source)
{
    if (source->doc == NULL)
        return 0;
    const char *const type = s2_doc_text(source->doc, "/model_type");
    if (s2_doc_has(source->doc, "/blocksparse_vert_stride"))
        return 95;
    return type != NULL && strcmp(type, TYPE) == 0 ? 95 : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_rotation rotation;
    int64_t kernel_block;
    S2_TRY(s2_rotation_read(source, "", "blocksparse_block_size", "blocksparse_num_local_blocks",
                            "blocksparse_vert_stride", 1, &rotation));
    S2_TRY(s2_rotation_read_model(source, "", &rotation));
    S2_TRY(s2_doc_bool_or(source->doc, "/blocksparse_homo_head_pattern", false, &rotation.homogeneous,
                          source->diag));
    S2_TRY(s2_doc_int_or(source->doc, "/blocksparse_triton_kernel_block_size", 1, S2_LIMIT_BLOCK_TOK,
                         rotation.block_tok, &kernel_block, source->diag));
    if (!s2_doc_has(source->doc, "/dense_attention_every_n_layers") &&
        s2_setting_text(&source->settings, "dense-every") == NULL)
        s2_note(source->notes,
                "dense_attention_every_n_layers is not stated: no layer is taken as dense (--set "
                "dense-every=N)");
    S2_TRY(s2_said_most(source, "", "max_position_embeddings"));
    rotation.step = s2_rotation_step(rotation.stride_blk, rotation.n_heads);
    rotation.offset = 1;
    s2_note(source->notes,
            "phase: (block + head*%lld + 1) mod %lld, as HF, vLLM and TensorRT-LLM compute it; DKernel's "
            "default is one block earlier",
            (long long)(rotation.homogeneous ? 0 : rotation.step), (long long)rotation.stride_blk);
    s2_note(source->notes,
            "the phase rotates over query heads, so a KV head keeps the union of its group of %lld",
            (long long)(rotation.n_heads / rotation.n_kv_heads));
    if (kernel_block != rotation.block_tok)
        s2_note(source->notes, "kernel block %lld differs from the sparse block; vLLM refuses that",
                (long long)kernel_block);
    return s2_rotation_import(source, &rotation, out);
}

static s2_status export(const s2_target *target)
{
    s2_rotation rotation;
    s2_buf buf = {0};
    S2_TRY(s2_rotation_derive_alike(target, &rotation));
    /* hidden size, longest context and whatever else belongs to the model are left to its own config */
    s2_buf_puts(&buf,
                s2_pattern_is_of(target->pattern, MODEL) ? "{\n  \"model_type\": \"" TYPE "\",\n" : "{\n");
    s2_model_shape_print(&buf, target->pattern, "  ");
    s2_buf_printf(&buf, "  \"blocksparse_block_size\": %lld,\n", (long long)rotation.block_tok);
    s2_buf_printf(&buf, "  \"blocksparse_num_local_blocks\": %lld,\n", (long long)rotation.local_blk);
    s2_buf_printf(&buf, "  \"blocksparse_vert_stride\": %lld,\n", (long long)rotation.stride_blk);
    s2_buf_printf(&buf, "  \"blocksparse_homo_head_pattern\": %s,\n",
                  rotation.homogeneous ? "true" : "false");
    s2_buf_printf(&buf, "  \"blocksparse_triton_kernel_block_size\": %lld,\n", (long long)rotation.block_tok);
    if (rotation.dense_every > 0)
        s2_buf_printf(&buf, "  \"dense_attention_every_n_layers\": %lld,\n", (long long)rotation.dense_every);
    else
        s2_buf_puts(&buf, "  \"dense_attention_every_n_layers\": null,\n");
    s2_provenance_print(&buf, target, "  ");
    s2_buf_puts(&buf, "}\n");
    s2_note(target->notes, "only the fields of attention are written; merge them into the model's own "
                           "config.json, which says the longest context; ranks are the server's");
    return s2_fileset_add_buf(target->files, "config.json", &buf);
}

const s2_format s2_format_hf = {
    .name = "hf",
    .also = "transformers",
    .summary = "Phi-3-small style config.json (blocksparse_* fields)",
    .file_name = "config.json",
    .settings = "layers, heads, kv-heads, head-dim, dense-every",
    .stack = "transformers",
    .model = MODEL,
    .offloads = true,
    .keeps_all = true, /* only its sliding-window caches free, and no config of this kind has one */
    .recognises = recognises,
    .read = import,
    .write = export,
};
