"""FlashAttention CuTe (PyPI flash-attn-4) as a peer: what peers.py needs of it. Importing this raises ImportError where it is missing.

Wheels: flash-attn-4, nvidia-cutlass-dsl with -libs-base, -libs-core and -libs-cu13 of the same version, quack-kernels,
apache-tvm-ffi, torch-c-dlpack-ext, all in one folder on PYTHONPATH, beside its nvidia_cutlass_dsl/dsl_packages.

It compiles every kind of call once, some seconds each, before anything is timed; FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED=1 keeps the
result on disk.
"""
import importlib.metadata

import torch

try:
    import cutlass.cute as cute
    from flash_attn.cute.block_sparsity import BlockSparseTensorsTorch
    from flash_attn.cute.interface import flash_attn_func
except (RuntimeError, OSError, AttributeError) as error:  # it is there and does not fit this torch or driver
    raise ImportError(f"FlashAttention CuTe cannot be loaded: {error}") from error

__version__ = importlib.metadata.version("flash-attn-4")
NAME = "FlashAttention CuTe"
FORWARD_TILE = (128, 64)  # of the lists, query tokens by keys: the smallest that its kernels for Hopper take at these speeds
BACKWARD_TILES = ((64, 128), (128, 128))


def pattern_mask(window, stride, group, block):
    """A mask for tiles that are not read whole. All of them are powers of two but `window`, which counts blocks."""
    @cute.jit
    def reads(batch, head, query, key, lengths, extra):
        near = key >= (query & -block) - block * (window - 1)
        far = ((key + (head // group) * block) & (block * stride - block)) == 0
        return (key <= query) & (near | far)
    return reads


def block_lists(some, whole, tile):
    """[1, head, row] counts and [1, head, row, n] numbers of the tiles that are read in part and of those that are read whole.
    some, whole: a boolean [row, column] for each head."""
    parts = []
    for tiles in (some, whole):
        count = torch.stack([one.sum(1, dtype=torch.int32) for one in tiles])
        most = max(1, int(count.max()))
        order = torch.stack([torch.argsort(one.int(), dim=1, descending=True, stable=True)[:, :most].int() for one in tiles])
        parts += [count[None].contiguous(), order[None].contiguous()]
    return BlockSparseTensorsTorch(*parts, block_size=tile)


def attend_dense(q, k, v, window=None, deterministic=False):
    """Causal attention over [batch, token, head, d]; `window`: the tokens that a query reads, itself among them."""
    left = None if window is None else window - 1
    return flash_attn_func(q, k, v, causal=True, window_size=(left, None), deterministic=deterministic)[0]


def attend_lists(q, k, v, mask, lists, backward_lists=None):
    return flash_attn_func(q, k, v, mask_mod=mask, pack_gqa=False, block_sparse_tensors=lists,
                           block_sparse_tensors_bwd=backward_lists)[0]
