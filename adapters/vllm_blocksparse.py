"""vLLM's block sparse attention under the judge: DKernel's inference kernel by its author, as vLLM 0.6 carries it.

It takes a list of key blocks for each head and block of queries, and applies causality to the last of the list: causal patterns of
whole blocks, in which no query is without keys. Of vLLM only the kernel's own file is imported, which needs torch and Triton.
"""
import s2_adapter
import torch

if not torch.cuda.is_available():
    s2_adapter.refuse("Triton's kernels need a GPU, and torch sees none")
import triton
from vllm.attention.ops.blocksparse_attention.blocksparse_attention_kernel import blocksparse_flash_attn_varlen_fwd


def layout(p):
    """crow [H, blocks + 1] and col [H, most], padded with -1."""
    if p.q_tok != p.k_tok:
        raise s2_adapter.Unsupported("as many queries as keys, or one")
    n, block, mask = -(-p.k_tok // p.block), p.block, p.mask()
    room = torch.nn.functional.pad(mask, (0, n * block - p.k_tok, 0, n * block - p.q_tok))
    read = room.view(p.heads, n, block, n, block).any(4).any(2)
    whole = read.repeat_interleave(block, 1).repeat_interleave(block, 2)[:, : p.q_tok, : p.k_tok].tril()
    if block < 16 or not torch.equal(whole, mask):
        raise s2_adapter.Unsupported("causal lists of whole blocks of 16 tokens or more, nothing else")
    if not read.any(-1).all():
        raise s2_adapter.Unsupported("a query without keys has no list")
    counts = torch.nn.functional.pad(read.sum(-1).cumsum(-1), (1, 0))
    col = torch.full((p.heads, int(counts.max())), -1, device=mask.device)
    for head in range(p.heads):
        listed = read[head].nonzero()[:, 1]
        col[head, : len(listed)] = listed
    return counts, col


def forward(p):
    if p.dtype == torch.float32:
        raise s2_adapter.Unsupported("tl.dot rounds fp32 to tf32: bf16 and fp16 only")
    q, k, v = (x.transpose(1, 2).reshape(-1, x.shape[1], p.head_dim) for x in (p.q, p.k, p.v))
    ends = torch.arange(p.n_seqs + 1, dtype=torch.int32, device=q.device) * p.q_tok
    lists = p.keep("layout", lambda: layout(p))
    o = p.launch(lambda: blocksparse_flash_attn_varlen_fwd(q, k, v, ends, ends, p.scale, lists, block_size=p.block, max_seqlen=p.k_tok))
    return o.view(p.n_seqs, p.q_tok, p.heads, p.head_dim).transpose(1, 2)


s2_adapter.serve("vllm-blocksparse", forward, lse=False, device="cuda",
                 versions=s2_adapter.versions_of(torch, triton, device="cuda", packages=("vllm",)))
