"""torch's FlexAttention under the judge. usage: flex.py [eager|compiled]     the pattern goes in as a BlockMask"""
import sys

import s2_adapter
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

WORD = sys.argv[1] if len(sys.argv) > 1 else "eager"
DEVICE = s2_adapter.pick_device()
torch._dynamo.config.cache_size_limit = 256
attend = torch.compile(flex_attention, dynamic=False) if WORD == "compiled" else flex_attention


def block_mask(p):
    mask = p.mask()
    return create_block_mask(lambda b, h, q, k: mask[h, q, k], 1, p.heads, p.q_tok, p.k_tok, device=DEVICE)


def forward(p):
    blocks = p.keep("blocks", lambda: block_mask(p))
    return p.launch(lambda: attend(p.q, p.k, p.v, block_mask=blocks, scale=p.scale, enable_gqa=p.group > 1, return_lse=True))


def backward(p):
    return s2_adapter.gradients(p, forward)


s2_adapter.serve(f"flex-{WORD}", forward, backward, versions=s2_adapter.versions_of(torch, device=DEVICE), device=DEVICE,
                 rounds="scores" if WORD == "eager" else "weights",
                 refusals=("NotImplementedError", "not supported", "must be a power of 2"))
