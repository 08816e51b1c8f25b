"""A Triton kernel of your own under the judge: this one is complete; put yours in its place.

One program computes BLOCK queries of one head over all keys, with the mask's bytes beside each tile.
"""
import s2_adapter
import torch

if not torch.cuda.is_available():
    s2_adapter.refuse("Triton's kernels need a GPU, and torch sees none")
import triton
import triton.language as tl


@triton.jit
def attend(Q, K, V, MASK, O, LSE, n_q, n_k, heads, group, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    head, batch = tl.program_id(1) % heads, tl.program_id(1) // heads
    rows, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    q_at = ((batch * heads + head) * n_q + rows)[:, None] * D + d[None, :]
    k_base = (batch * (heads // group) + head // group) * n_k
    q = tl.load(Q + q_at, mask=rows[:, None] < n_q, other=0.0)
    peak, total = tl.full((BLOCK,), float("-inf"), tl.float32), tl.zeros((BLOCK,), tl.float32)
    out = tl.zeros((BLOCK, D), tl.float32)
    for begin in range(0, n_k, BLOCK):
        keys = begin + tl.arange(0, BLOCK)
        k_at = (k_base + keys)[:, None] * D + d[None, :]
        k = tl.load(K + k_at, mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(V + k_at, mask=keys[:, None] < n_k, other=0.0)
        inside = (rows[:, None] < n_q) & (keys[None, :] < n_k)
        reads = tl.load(MASK + (head * n_q + rows)[:, None] * n_k + keys[None, :], mask=inside, other=0) != 0
        score = tl.where(reads, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        higher = tl.maximum(peak, tl.max(score, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)  # a row that has read nothing yet
        weight, decay = tl.exp(score - base[:, None]), tl.exp(peak - base)
        total = total * decay + tl.sum(weight, 1)
        out = out * decay[:, None] + tl.dot(weight.to(v.dtype), v)
        peak = higher
    o = tl.where(total[:, None] > 0, out / tl.where(total == 0, 1.0, total)[:, None], 0.0)
    tl.store(O + q_at, o.to(O.dtype.element_ty), mask=rows[:, None] < n_q)
    lse = tl.where(total > 0, peak + tl.log(total), float("-inf"))
    tl.store(LSE + (batch * heads + head) * n_q + rows, lse, mask=rows < n_q)


def forward(p):
    if p.dtype == torch.float32:
        raise s2_adapter.Unsupported("tl.dot rounds fp32 to tf32: bf16 and fp16 only")
    q, k, v = p.q.contiguous(), p.k.contiguous(), p.v.contiguous()
    mask = p.keep("bytes", lambda: p.mask().to(torch.uint8).contiguous())
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    grid = triton.cdiv(p.q_tok, 64), p.n_seqs * p.heads
    p.launch(lambda: attend[grid](q, k, v, mask, o, lse, p.q_tok, p.k_tok, p.heads, p.group, p.scale, D=p.head_dim, BLOCK=64))
    return o, lse


s2_adapter.serve("triton-template", forward, versions=s2_adapter.versions_of(torch, triton, device="cuda"), device="cuda")
