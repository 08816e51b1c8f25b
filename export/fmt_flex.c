/*
 * PyTorch FlexAttention: BlockMask.from_kv_blocks and a Python module with the mask_mod.
 */
#include "export/blockmask.h"

/* A compiled kernel's tiles must divide the mask's blocks; by default torch chooses up to 128, then
 * refuses its own choice. */
static const char module_end[] =
    "KERNEL_OPTIONS = {name: min(BLOCK, most) for name, most in (\n"
    "    (\"BLOCK_M\", 128), (\"BLOCK_N\", 64), (\"BLOCK_M1\", 32), (\"BLOCK_N1\", 64), (\"BLOCK_M2\", 64), "
    "(\"BLOCK_N2\", 32))}\n\n\n"
    "def block_mask(layer, device=\"cuda\"):\n"
    "    \"\"\"The BlockMask of one layer for flex_attention(q, k, v, block_mask=..., enable_gqa=True,\n    "
    "kernel_options=KERNEL_OPTIONS): tiles that divide BLOCK, which a compiled CUDA kernel needs.\"\"\"\n"
    "    import os\n"
    "    import numpy\n"
    "    import torch\n"
    "    from torch.nn.attention.flex_attention import BlockMask\n\n"
    "    here = os.path.dirname(os.path.abspath(__file__))\n"
    "    load = lambda name: torch.from_numpy(numpy.load(os.path.join(\n"
    "        here, \"layout%d_%s.npy\" % (LAYER_CLASS[layer], name)))).unsqueeze(0).to(device)\n"
    "    return BlockMask.from_kv_blocks(\n"
    "        load(\"kv_num_blocks\"), load(\"kv_indices\"), load(\"full_kv_num_blocks\"), "
    "load(\"full_kv_indices\"),\n"
    "        BLOCK_SIZE=BLOCK, mask_mod=make_mask_mod(layer, device), seq_lengths=(LEN, LEN))\n";

static const s2_blockmask_words words = {
    .format = "flex-attention",
    .manifest = "flex.json",
    .module = "flex_mask.py",
    .partial_count = "kv_num_blocks",
    .partial_index = "kv_indices",
    .full_count = "full_kv_num_blocks",
    .full_index = "full_kv_indices",
    .module_end = module_end,
};

static int recognises(const s2_source *source)
{
    return source->doc != NULL && s2_doc_has(source->doc, "/layouts/0/kv_num_blocks") ? 92 : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    return s2_blockmask_import(source, &words, out);
}

static s2_status export(const s2_target *target)
{
    S2_TRY(s2_blockmask_export(target, &words));
    s2_note(target->notes, "import flex_mask and call block_mask(layer): partial blocks need the predicate, "
                           "or a causal pattern reads above the diagonal; a compiled CUDA kernel needs "
                           "kernel_options=KERNEL_OPTIONS where blocks are smaller than 128");
    return S2_OK;
}

const s2_format s2_format_flex = {
    .name = "flex",
    .summary = "PyTorch FlexAttention: BlockMask arrays and a Python module with the mask_mod",
    .file_name = "flex.json",
    .per_gpu = true,
    .settings = "block (128)",
    .recognises = recognises,
    .read = import,
    .write = export,
};
