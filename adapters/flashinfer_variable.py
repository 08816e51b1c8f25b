"""FlashInfer's attention on blocks of unequal sizes under the judge (PyPI flashinfer-python). usage: flashinfer_variable.py [auto|fa2|fa3]

Every KV head has its own map of blocks. Query heads that share one read alike, or the problem is refused. Rows and columns of a mask
that are equal and lie together are a block, so that the map says each pair and nothing is masked beside it.
"""
import math
import sys

import s2_adapter
import torch

BACKEND = sys.argv[1] if len(sys.argv) > 1 and not sys.argv[1].startswith("--") else "fa2"
MOST_BLOCKS = 32768  # rows of blocks of all KV heads: FlashInfer's own buffer
if BACKEND not in ("auto", "fa2", "fa3"):
    s2_adapter.refuse("flashinfer_variable.py takes auto, fa2 or fa3")
if not torch.cuda.is_available():
    s2_adapter.refuse("FlashInfer needs a GPU, and torch sees none")
import flashinfer

ROOM = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")


def sizes(changes):
    """Lengths of the runs that begin where changes [n - 1] is true."""
    begins = torch.cat([changes.new_zeros(1, dtype=torch.long), changes.nonzero()[:, 0] + 1, changes.new_full((1,), len(changes) + 1, dtype=torch.long)])
    return begins.diff()


def plan(p):
    masks = p.mask()[:: p.group]
    if not (p.mask().view(p.kv_heads, p.group, p.q_tok, p.k_tok) == masks[:, None]).all():
        raise s2_adapter.Unsupported("the query heads of a KV head read differently")
    if not masks.any(2).any(1).all():
        raise s2_adapter.Unsupported("a KV head reads no key: FlashInfer's plan takes at least one")
    rows = sizes((masks[:, 1:] != masks[:, :-1]).any(2).any(0))
    columns = sizes((masks[:, :, 1:] != masks[:, :, :-1]).any(1).any(0))
    if len(rows) * p.kv_heads > MOST_BLOCKS:
        raise s2_adapter.Unsupported(f"{len(rows)} rows of blocks on {p.kv_heads} KV heads: FlashInfer has room for {MOST_BLOCKS}")
    first = [torch.nn.functional.pad(x.cumsum(0)[:-1], (1, 0)) for x in (rows, columns)]
    wrapper = flashinfer.VariableBlockSparseAttentionWrapper(ROOM, backend=BACKEND)
    wrapper.plan(masks[:, first[0]][:, :, first[1]].contiguous(), rows.int().expand(p.kv_heads, -1).contiguous(),
                 columns.int().expand(p.kv_heads, -1).contiguous(), p.heads, p.kv_heads, p.head_dim, causal=False, sm_scale=p.scale,
                 q_data_type=p.dtype)
    return wrapper


def forward(p):
    wrapper = p.keep("plan", lambda: plan(p))
    o, lse = torch.empty_like(p.q), torch.empty(p.q.shape[:3], device=p.q.device)
    for seq in range(p.n_seqs):
        q, k, v = (x[seq].contiguous() for x in (p.q, p.k, p.v))
        part, base2 = p.launch(lambda q=q, k=k, v=v: wrapper.run(q, k, v, return_lse=True))
        o[seq], lse[seq] = part.view_as(q), base2.view(p.heads, p.q_tok) * math.log(2)
    return o, lse


s2_adapter.serve(f"flashinfer-variable-{BACKEND}", forward, versions=s2_adapter.versions_of(torch, flashinfer, device="cuda"), device="cuda",
                 rounds="sums", refusals=("not supported", "Unsupported", "dispatch"))
