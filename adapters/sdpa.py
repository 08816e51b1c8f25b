"""torch's scaled_dot_product_attention under the judge. usage: sdpa.py math|flash|flash3|flash4|cudnn|efficient

flash3 and flash4 are the FlashAttention backend with the kernels of the packages flash_attn_3 and flash-attn-4, where torch finds them. torch
2.11 unpacks two results of flash-attn-4's forward and three of its backward; what newer ones give besides is left out on the way.

Causal problems are asked as is_causal where that means the same (as many queries as keys); everything else as a mask, which
not every backend takes.
"""
import functools
import sys
import types

import s2_adapter
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

BACKENDS = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "flash3": SDPBackend.FLASH_ATTENTION, "flash4": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
PACKAGES = {"flash3": ("FA3", ()), "flash4": ("FA4", ("flash-attn-4",))}
WORD = sys.argv[1] if len(sys.argv) > 1 and not sys.argv[1].startswith("--") else "math"
DEVICE = s2_adapter.pick_device()


def first(n, function, *arguments, **words):
    return function(*arguments, **words)[:n]


def activate(package):
    if package == "FA4":
        from flash_attn.cute import interface
        from torch.nn.attention._fa4 import register_flash_attention_fa4

        sys.modules["s2_fa4"] = types.SimpleNamespace(_flash_attn_fwd=functools.partial(first, 2, interface._flash_attn_fwd),
                                                      _flash_attn_bwd=functools.partial(first, 3, interface._flash_attn_bwd))
        torch.nn.attention.register_flash_attention_impl("FA4", register_fn=lambda: register_flash_attention_fa4("s2_fa4"))
    torch.nn.attention.activate_flash_attention_impl(package)


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
PACKAGE, NAMES = PACKAGES.get(WORD, ("", ()))
if PACKAGE:
    try:
        activate(PACKAGE)
    except Exception as error:  # no such package, another torch, another GPU
        s2_adapter.refuse(f"torch {torch.__version__} finds no {PACKAGE}: {error}")
s2_adapter.serve(f"sdpa-{WORD}", forward, backward, lse=False, rounds="scores" if WORD == "math" else "weights",
                 versions=s2_adapter.versions_of(torch, device=DEVICE, packages=NAMES), device=DEVICE,
                 refusals=("No available kernel", "not supported", "No viable backend"))
