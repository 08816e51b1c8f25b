#!/usr/bin/env python3
"""The forward shapes of docs/kernels.md through torch, interleaved with ours, on one GPU.

usage: peers.py [path of bench_gpu]

For each pattern and length: ours, then torch's SDPA with FlashAttention-2 and with cuDNN (dense causal), then
FlexAttention with the same pattern; each as bench_gpu measures: sustained and cool. Also the ceilings of the
same run: an 8192^3 bf16 matrix product and a device copy. One JSON object a line. Without torch or a GPU it says
so and exits with 77.
"""
import json
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    print("peers.py: python3 has no torch here", file=sys.stderr)
    sys.exit(77)
if not torch.cuda.is_available():
    print("peers.py: torch sees no GPU", file=sys.stderr)
    sys.exit(77)

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

BENCH = sys.argv[1] if len(sys.argv) > 1 else "build/current/bench_gpu"
BLOCK = 64
# name: KV heads, window, stride; None: dense
PATTERNS = {"dense": (32, None, None), "L8V16": (32, 8, 16), "phi3": (8, 16, 8), "L16V32": (32, 16, 32)}


def span(run, n_runs):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(n_runs):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / n_runs


def measure(run, window_ms=130.0):
    run()
    first = span(run, 2)
    cool = []
    for _ in range(3 if first > 50 else 7):
        torch.cuda.synchronize()
        time.sleep(0.06)
        cool.append(span(run, 1))
    n_runs = 1 + int(window_ms / first)
    span(run, 1 + n_runs // 2)
    windows = [span(run, n_runs) for _ in range(3)]
    return statistics.median(windows), statistics.median(cool)


def emit(**row):
    print(json.dumps(row), flush=True)


def ceilings():
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    sustained, cool = measure(lambda: a @ b)
    emit(row="ceiling", what="matrix product 8192^3 bf16, TFLOP/s", sustained=2 * 8192**3 / sustained * 1e-9,
         cool=2 * 8192**3 / cool * 1e-9)
    x = torch.empty(1 << 32, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    sustained, _ = measure(lambda: y.copy_(x))
    emit(row="ceiling", what="copy, TB/s read and written", sustained=2 * 2**32 / sustained * 1e-9)


def ours(pattern, n_tok):
    out = subprocess.run([BENCH, f"--only={pattern}", f"--tok={n_tok}", "--kernel=sm90"], capture_output=True,
                         text=True, check=False).stdout
    for line in out.splitlines():
        row = json.loads(line)
        if row["row"] == "forward" and row["n_tok"] == n_tok:
            print(line, flush=True)
            return row
    return None


def peer(name, pattern, n_tok, pairs, run):
    try:
        sustained, cool = measure(run)
    except Exception as error:  # a peer that cannot is a row, not the end of the table
        emit(row="peer", kernel=name, pattern=pattern, n_tok=n_tok, why=str(error)[:200])
        return
    flop = 4.0 * 128 * pairs
    emit(row="peer", kernel=name, pattern=pattern, n_tok=n_tok, sustained_ms=round(sustained, 4),
         sustained_tflops=round(flop / sustained * 1e-9, 1), cool_ms=round(cool, 4),
         cool_tflops=round(flop / cool * 1e-9, 1))


def sparse_peer(pattern, n_tok, pairs, q, kv_heads, window, stride):
    k, v = (torch.randn(1, kv_heads, n_tok, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    group = 32 // kv_heads

    def reads(_, head, q_tok, k_tok):
        q_blk, k_blk = q_tok // BLOCK, k_tok // BLOCK
        return (q_tok >= k_tok) & ((q_blk - k_blk < window) | ((k_blk + head // group) % stride == 0))

    compiled = torch.compile(flex_attention)
    try:
        mask = create_block_mask(reads, 1, 32, n_tok, n_tok, device="cuda", BLOCK_SIZE=(128, 64), _compile=True)
    except Exception as error:
        emit(row="peer", kernel="FlexAttention", pattern=pattern, n_tok=n_tok, why=str(error)[:200])
        return
    peer("FlexAttention", pattern, n_tok, pairs,
         lambda: compiled(q, k, v, block_mask=mask, enable_gqa=group > 1))


def dense_peers(n_tok, pairs, q):
    k, v = (torch.randn_like(q) for _ in range(2))
    for name, backend in (("FlashAttention-2", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
        def run(backend=backend):
            with sdpa_kernel(backend):
                scaled_dot_product_attention(q, k, v, is_causal=True)
        peer(name, "dense", n_tok, pairs, run)


def main():
    emit(row="device", name=torch.cuda.get_device_name(), torch=torch.__version__, cuda=torch.version.cuda)
    ceilings()
    # The dense peers first: compiling FlexAttention takes the longest.
    for pattern, (kv_heads, window, stride) in PATTERNS.items():
        for n_tok in (8192, 32768, 131072):
            q = torch.randn(1, 32, n_tok, 128, device="cuda", dtype=torch.bfloat16)
            row = ours(pattern, n_tok)
            if row is None:
                continue
            if window is None:
                dense_peers(n_tok, row["pairs"], q)
            else:
                sparse_peer(pattern, n_tok, row["pairs"], q, kv_heads, window, stride)
    ceilings()


if __name__ == "__main__":
    main()
