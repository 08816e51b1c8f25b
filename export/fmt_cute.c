/*
 * FlashAttention CuTe: BlockSparseTensors, with the predicate in Python.
 */
#include "export/blockmask.h"

static const s2_blockmask_words words = {
    .format = "flash-attention-cute",
    .manifest = "cute.json",
    .module = "cute_mask.py",
    .partial_count = "mask_block_cnt",
    .partial_index = "mask_block_idx",
    .full_count = "full_block_cnt",
    .full_index = "full_block_idx",
    .has_batch = true,
    .module_end = "",
};

static int recognises(const s2_source *source)
{
    return source->doc != NULL && s2_doc_has(source->doc, "/layouts/0/mask_block_cnt") ? 92 : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    return s2_blockmask_import(source, &words, out);
}

static s2_status export(const s2_target *target)
{
    S2_TRY(s2_blockmask_export(target, &words));
    s2_note(target->notes, "partial blocks need a predicate with the rule of cute_mask.py, written as a CuTe "
                           "mask_mod; it replaces causal. SM80 kernels ignore these tensors; 128 x 128 fits "
                           "SM90 at head dimension 128, SM100 wants 256 rows");
    return S2_OK;
}

const s2_format s2_format_cute = {
    .name = "cute",
    .summary = "FlashAttention CuTe block sparsity: counts, indices and the predicate in Python",
    .file_name = "cute.json",
    .per_gpu = true,
    .settings = "block (128)",
    .recognises = recognises,
    .read = import,
    .write = export,
};
