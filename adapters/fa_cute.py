"""FlashAttention CuTe (PyPI flash-attn-4) under the judge. usage: fa_cute.py [switches|blocks]

switches: causal, a window or all keys as the kernel's own arguments say them; nothing else. blocks: everything as block sparsity, the lists
of `s2 export --to cute` and, for blocks that are read in part, a mask_mod that looks the pair up.
"""
import sys

import s2_adapter
import torch

WORD = sys.argv[1] if len(sys.argv) > 1 else "switches"
if WORD not in ("switches", "blocks"):
    s2_adapter.refuse("fa_cute.py takes switches or blocks")
if not torch.cuda.is_available():
    s2_adapter.refuse("FlashAttention CuTe needs a GPU, and torch sees none")
import cutlass
import flash_attn.cute
from cutlass import cute
from flash_attn.cute.block_sparsity import BlockSparseTensorsTorch
from flash_attn.cute.interface import flash_attn_func
from flash_attn.cute.utils import scalar_to_ssa

BLOCK = 128  # a tile of queries and of keys at head dims up to 128


@cute.jit
def looked_up(batch, head, q, k, lengths, aux):
    return scalar_to_ssa(aux[0][head[0], q[0], k[0]], cutlass.Int8) != scalar_to_ssa(cutlass.Int8(0), cutlass.Int8)


def lists(counted):
    """How many blocks each row of blocks has, and which, in rising order."""
    at = torch.arange(counted.shape[-1], device=counted.device)
    order = torch.where(counted, at, at + counted.shape[-1]).argsort(-1)
    return counted.sum(-1).int()[None].contiguous(), order.int()[None].contiguous()


def blocks_of(p, transposed=False):
    mask = p.mask()
    rows, keys = -(-p.q_tok // BLOCK), -(-p.k_tok // BLOCK)
    room = torch.nn.functional.pad(mask.int(), (0, keys * BLOCK - p.k_tok, 0, rows * BLOCK - p.q_tok))
    read = room.view(p.heads, rows, BLOCK, keys, BLOCK).sum((2, 4))
    full = read == BLOCK * BLOCK
    part = (read > 0) & ~full
    if transposed:
        full, part = full.transpose(1, 2), part.transpose(1, 2)
    return BlockSparseTensorsTorch(*lists(part), *lists(full), block_size=(BLOCK, BLOCK))


def padded(p):
    """The pairs as int8, to the end of the last tile: the kernel asks its mask_mod of queries and keys past the last, too."""
    return torch.nn.functional.pad(p.mask().to(torch.int8), (0, -p.k_tok % BLOCK, 0, -p.q_tok % BLOCK)).contiguous()


def how(p):
    if WORD == "blocks":
        return {"mask_mod": looked_up, "aux_tensors": [padded(p)], "pack_gqa": False,
                "block_sparse_tensors": blocks_of(p), "block_sparse_tensors_bwd": blocks_of(p, transposed=True)}
    if p.shape == "mask":
        raise s2_adapter.Unsupported("no switch says this mask: fa_cute.py blocks")
    return {"causal": p.shape == "causal", "window_size": (p.window - 1, 0) if p.shape == "window" else (None, None)}


def forward(p):
    q, k, v = (x.transpose(1, 2).contiguous() for x in (p.q, p.k, p.v))
    words = p.keep("how", lambda: how(p))
    steady = WORD == "switches" or p.request["pass"] != "backward"  # gradients of block lists have no such way on Hopper
    o, lse = p.launch(lambda: flash_attn_func(q, k, v, softmax_scale=p.scale, deterministic=steady, return_lse=True, **words))[:2]
    return o.transpose(1, 2), lse


s2_adapter.serve(f"fa-cute-{WORD}", forward, lambda p: s2_adapter.gradients(p, forward), versions=s2_adapter.versions_of(torch, device="cuda", packages=("flash-attn-4", "nvidia-cutlass-dsl")),
                 device="cuda", refusals=("inputs must be float16", "not supported", "Block sparsity"))
