"""torch's scaled_dot_product_attention under the judge. usage: sdpa.py math|flash|cudnn|efficient

Causal problems are asked as is_causal where that means the same (as many queries as keys); everything else as a mask, which
not every backend takes.
"""
import sys

import s2_adapter
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

BACKENDS = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}
WORD = sys.argv[1] if len(sys.argv) > 1 else "math"
DEVICE = s2_adapter.pick_device()


def forward(p):
    rows = p.shape == "causal" and p.q_tok == p.k_tok
    mask = None if rows or p.shape == "full" else p.mask()[None]
    k, v = (p.k, p.v) if p.group == 1 else (p.repeated(p.k), p.repeated(p.v))

    def attend():  # the choice of a backend holds only inside the `with`
        with sdpa_kernel([BACKENDS[WORD]]):
            return scaled_dot_product_attention(p.q, k, v, attn_mask=mask, is_causal=rows, scale=p.scale)
    return p.launch(attend)


def backward(p):
    return s2_adapter.gradients(p, forward)


if WORD not in BACKENDS:
    s2_adapter.refuse(f"sdpa.py takes one of {', '.join(BACKENDS)}")
s2_adapter.serve(f"sdpa-{WORD}", forward, backward, lse=False, rounds="scores" if WORD == "math" else "weights",
                 versions=s2_adapter.versions_of(torch, device=DEVICE), device=DEVICE,
                 refusals=("No available kernel", "not supported", "No viable backend"))
