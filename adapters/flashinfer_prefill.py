"""FlashInfer's prefill under the judge. usage: flashinfer_prefill.py [single|blocks] [auto|fa2|fa3]

single: single_prefill_with_kv_cache, which takes causality and a window by its switches and all else as a packed mask. blocks: the
BSR wrapper, lists as `s2 export --to flashinfer` writes them. A mask and a list are of all heads, so heads that read differently get a
call each, with the KV heads that they read.
"""
import math
import sys

import s2_adapter
import torch

WORD, BACKEND = (sys.argv[1:3] + ["single", "auto"][len(sys.argv[1:3]) :])[:2]
if WORD not in ("single", "blocks") or BACKEND not in ("auto", "fa2", "fa3"):
    s2_adapter.refuse("flashinfer_prefill.py takes single or blocks, then auto, fa2 or fa3")
if not torch.cuda.is_available():
    s2_adapter.refuse("FlashInfer needs a GPU, and torch sees none")
import flashinfer

ROOM = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")


def single(p, mask):
    """A call (q, k, v) -> (o, lse in base 2) for the heads of one mask; None: the pattern's shape says it."""
    words = {"causal": p.shape == "causal", "window_left": -1, "backend": BACKEND}
    if p.shape == "window":
        words.update(causal=True, window_left=p.window - 1)
    if mask is not None:
        words["packed_custom_mask"] = flashinfer.quantization.packbits(mask.reshape(-1), bitorder="little")
    return lambda q, k, v: flashinfer.single_prefill_with_kv_cache(q, k, v, sm_scale=p.scale, return_lse=True, **words)


def blocks(p, mask, n_q, n_kv):
    """The same by BSR lists, with the pairs of each listed block where not all of them are read."""
    rows, keys = (math.gcd(n, 64) for n in (p.q_tok, p.k_tok))
    if keys < 8 or rows < 8:
        raise s2_adapter.Unsupported("lists of blocks need a length that blocks of 8 tokens or more divide")
    cut = mask.view(p.q_tok // rows, rows, p.k_tok // keys, keys).transpose(1, 2)
    read = cut.any(-1).any(-1)
    counts = torch.nn.functional.pad(read.sum(-1).cumsum(0), (1, 0)).int()
    wrapper = flashinfer.BlockSparseAttentionWrapper(ROOM, backend=BACKEND)
    wrapper.plan(counts, read.nonzero()[:, 1].int(), p.q_tok, p.k_tok, rows, keys, n_q, n_kv, p.head_dim, sm_scale=p.scale,
                 mask=None if cut[read].all() else cut[read], q_data_type=p.dtype, o_data_type=p.dtype)
    return lambda q, k, v: wrapper.run(q, k, v, return_lse=True)


def calls(p):
    """[(query heads, KV heads, call)]: one where all heads read alike, else one for each mask."""
    if WORD == "single" and p.shape != "mask":
        return [(list(range(p.heads)), list(range(p.kv_heads)), single(p, None))]
    groups = {}
    for head, mask in enumerate(p.mask()):
        groups.setdefault(mask.cpu().numpy().tobytes(), []).append(head)
    made = []
    for heads in groups.values():
        kv = [head // p.group for head in heads] if len(groups) > 1 else list(range(p.kv_heads))
        mask = p.mask()[heads[0]]
        made.append((heads, kv, single(p, mask) if WORD == "single" else blocks(p, mask, len(heads), len(kv))))
    return made


def forward(p):
    o, lse = torch.empty_like(p.q), torch.empty(p.q.shape[:3], device=p.q.device)
    for heads, kv, call in p.keep("calls", lambda: calls(p)):
        for seq in range(p.n_seqs):
            q, k, v = (x.transpose(0, 1).contiguous() for x in (p.q[seq, heads], p.k[seq, kv], p.v[seq, kv]))
            part, base2 = p.launch(lambda call=call, q=q, k=k, v=v: call(q, k, v))
            o[seq, heads], lse[seq, heads] = part.transpose(0, 1), base2.T * math.log(2)
    return o, lse


s2_adapter.serve(f"flashinfer-{WORD}-{BACKEND}", forward, versions=s2_adapter.versions_of(torch, flashinfer, device="cuda"), device="cuda",
                 rounds="sums", refusals=("not supported", "Unsupported", "dispatch"))
