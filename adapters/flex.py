"""torch's FlexAttention under the judge. usage: flex.py [eager|compiled|flash|flash-output]     the pattern goes in as a BlockMask

flash: compiled, with FlashAttention CuTe (PyPI flash-attn-4) as its backend; flash-output hands over no LSE, which torch 2.11 gives wrong
there, so that the outputs are judged.
"""
import importlib.util
import sys

import s2_adapter
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

WORD = sys.argv[1] if len(sys.argv) > 1 and not sys.argv[1].startswith("--") else "eager"
DEVICE = s2_adapter.pick_device()
FLASH, LSE = WORD.startswith("flash"), WORD != "flash-output"
if WORD not in ("eager", "compiled", "flash", "flash-output"):
    s2_adapter.refuse("flex.py takes eager, compiled, flash or flash-output")
if FLASH and importlib.util.find_spec("flash_attn") is None:
    s2_adapter.refuse("FlexAttention's flash backend needs PyPI's flash-attn-4")
torch._dynamo.config.cache_size_limit = 256
attend = flex_attention if WORD == "eager" else torch.compile(flex_attention, dynamic=False)
OPTIONS = {"kernel_options": {"BACKEND": "FLASH"}} if FLASH else {}
PACKAGES = ("flash-attn-4",) if FLASH else ()
TILE = 256  # at most: the flash backend asks its mask_mod of queries and keys past the last, too


def block_mask(p):
    if hasattr(p, "mod"):  # a pattern that is drawn says its function
        return create_block_mask(p.mod, 1, p.heads, p.q_tok, p.k_tok, device=DEVICE)
    mask = p.mask()
    if FLASH:
        mask = torch.nn.functional.pad(mask.to(torch.int8), (0, -p.k_tok % TILE, 0, -p.q_tok % TILE))
    return create_block_mask(lambda b, h, q, k: mask[h, q, k] != 0, 1, p.heads, p.q_tok, p.k_tok, device=DEVICE)


def forward(p):
    blocks = p.keep("blocks", lambda: block_mask(p))
    made = p.launch(lambda: attend(p.q, p.k, p.v, block_mask=blocks, scale=p.scale, enable_gqa=p.group > 1, return_lse=True, **OPTIONS))
    return made if LSE else made[0]


def backward(p):
    return s2_adapter.gradients(p, forward)


s2_adapter.serve(f"flex-{WORD}", forward, backward, versions=s2_adapter.versions_of(torch, device=DEVICE, packages=PACKAGES), device=DEVICE,
                 lse=LSE, rounds="scores" if WORD == "eager" else "weights",
                 refusals=("NotImplementedError", "not supported", "must be a power of 2"))
