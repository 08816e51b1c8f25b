/*
 * vLLM's BlocksparseParams (up to 0.9): the same family as Phi-3-small's config, heads counted per
 * tensor-parallel rank, and a flag that only the decode kernel obeys.
 */
#include "export/rotation.h"

#include <stdio.h>

#define WRAPPER "/blocksparse_params"
#define STACK   "vLLM up to 0.9"

static int recognises(const s2_source *source)
{
    const char *const root = s2_rotation_holder(source, "vert_stride", WRAPPER);
    if (root == NULL)
        return 0;
    char path[64];
    snprintf(path, sizeof path, "%s/max_seqlen", root);
    return root[0] != '\0' || s2_doc_has(source->doc, path) ? 90 : 40;
}

static s2_status read_heads(const s2_source *source, const char *root, s2_rotation *rotation)
{
    char path[64];
    int64_t n_ranks;
    S2_TRY(s2_rotation_read_ranks(source, "/" S2_RANKS_KEY, &n_ranks));
    snprintf(path, sizeof path, "%s/num_heads", root);
    S2_TRY(s2_doc_int(source->doc, path, 1, S2_LIMIT_HEADS / n_ranks, &rotation->n_heads, source->diag));
    snprintf(path, sizeof path, "%s/num_kv_heads", root);
    S2_TRY(s2_doc_int_or(source->doc, path, 1, rotation->n_heads, rotation->n_heads, &rotation->n_kv_heads,
                         source->diag));
    if (rotation->n_heads % rotation->n_kv_heads != 0)
        return s2_doc_refuse(source->doc, path, source->diag, "num_kv_heads does not divide num_heads");
    rotation->n_heads *= n_ranks;
    rotation->n_kv_heads *= n_ranks;
    s2_note(source->notes, "num_heads is per tensor-parallel rank; %lld rank%s %s", (long long)n_ranks,
            s2_text_plural(n_ranks),
            s2_doc_has(source->doc, "/" S2_RANKS_KEY) ? "stated" : "assumed (--set tp=N)");
    return S2_OK;
}

static s2_status read_flags(const s2_source *source, const char *root, s2_rotation *rotation)
{
    char path[64];
    bool group_flag;
    snprintf(path, sizeof path, "%s/homo_head", root);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &rotation->homogeneous, source->diag));
    snprintf(path, sizeof path, "%s/homo_head_group", root);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &group_flag, source->diag));
    if (group_flag && !rotation->homogeneous) {
        rotation->decode_kv_step = s2_rotation_step(rotation->stride_blk, rotation->n_kv_heads);
        s2_note(source->notes, "homo_head_group reaches vLLM's decode kernel only: prefill rotates over "
                               "query heads, decode over KV heads, and the two masks disagree");
    }
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_rotation rotation, heads;
    const char *const root = s2_rotation_holder(source, "vert_stride", WRAPPER);
    if (root == NULL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "there is no \"vert_stride\"");
    S2_TRY(s2_rotation_read(source, root, "block_size", "local_blocks", "vert_stride", 1, &rotation));
    heads = rotation;
    S2_TRY(read_heads(source, root, &heads));
    S2_TRY(s2_rotation_read_extras(source, &heads, &rotation));
    S2_TRY(s2_said_most(source, root, "max_seqlen"));
    S2_TRY(read_flags(source, root, &rotation));
    rotation.step = s2_rotation_step(rotation.stride_blk, rotation.n_heads);
    rotation.offset = 1;
    s2_note(source->notes, "phase: (block + head*%lld + 1) mod %lld, as vLLM computes it",
            (long long)(rotation.homogeneous ? 0 : rotation.step), (long long)rotation.stride_blk);
    return s2_rotation_import(source, &rotation, out);
}

/* vLLM splits heads evenly over ranks, and its step counts the heads of all ranks. */
static s2_status read_target_ranks(const s2_target *target, const s2_rotation *rotation, int64_t *n_ranks)
{
    S2_TRY(s2_setting_int(&target->settings, "tp", 1, S2_LIMIT_HEADS, 1, n_ranks, target->diag));
    if (rotation->n_kv_heads % *n_ranks == 0)
        return S2_OK;
    return s2_target_refuse(target, "%lld ranks cannot share %lld KV heads evenly: --set tp must divide them",
                            (long long)*n_ranks, (long long)rotation->n_kv_heads);
}

static void note_use(const s2_target *target, int64_t n_ranks)
{
    if (n_ranks == 1)
        s2_note(target->notes, "num_heads and num_kv_heads are the whole model's, for one GPU; --tp N "
                               "writes those of a tensor-parallel rank");
    else
        s2_note(target->notes,
                "num_heads and num_kv_heads are those of each of %lld tensor-parallel ranks; the file is the "
                "same for all of them",
                (long long)n_ranks);
    s2_note_most(target, "max_seqlen");
    s2_note(
        target->notes, STACK
        " has this attention, later versions do not; a model's code passes the object on as "
        "Attention(blocksparse_params=...), to the layers that are not dense; its Phi-3-small makes it of "
        "the blocksparse_* keys of the model's own config.json, which --to hf writes");
}

static s2_status export(const s2_target *target)
{
    s2_rotation rotation;
    s2_buf buf = {0};
    int64_t n_ranks;
    S2_TRY(s2_rotation_derive_alike(target, &rotation));
    S2_TRY(read_target_ranks(target, &rotation, &n_ranks));
    s2_buf_puts(&buf, "{\n  \"blocksparse_params\": {\n");
    s2_buf_printf(&buf, "    \"max_seqlen\": %lld,\n", (long long)target->n_tok);
    s2_buf_printf(&buf, "    \"num_heads\": %lld,\n", (long long)(rotation.n_heads / n_ranks));
    s2_buf_printf(&buf, "    \"num_kv_heads\": %lld,\n", (long long)(rotation.n_kv_heads / n_ranks));
    s2_buf_printf(&buf, "    \"block_size\": %lld,\n", (long long)rotation.block_tok);
    s2_buf_printf(&buf, "    \"local_blocks\": %lld,\n", (long long)rotation.local_blk);
    s2_buf_printf(&buf, "    \"vert_stride\": %lld,\n", (long long)rotation.stride_blk);
    s2_buf_printf(&buf, "    \"homo_head\": %s,\n    \"homo_head_group\": false\n  },\n",
                  rotation.homogeneous ? "true" : "false");
    s2_buf_printf(&buf, "  \"" S2_RANKS_KEY "\": %lld,\n", (long long)n_ranks);
    s2_rotation_print_model(&buf, target, &rotation);
    note_use(target, n_ranks);
    return s2_fileset_add_buf(target->files, "blocksparse_params.json", &buf);
}

const s2_format s2_format_vllm = {
    .name = "vllm",
    .summary = "vLLM BlocksparseParams (" STACK ")",
    .file_name = "blocksparse_params.json",
    .settings = "layers, head-dim, dense-every, tp (1)",
    .stack = STACK,
    .model = "phi-3-small",
    .keeps_all = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
