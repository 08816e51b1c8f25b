#!/usr/bin/env python3
"""The shapes of `make bench-gpu` through torch's kernels, interleaved with ours, on one GPU.

usage: peers.py [--bench=PATH] [--rows=FILE] [--phase=forward,backward,decode] [--only=NAME,...] [--tok=N,...]
                [--flex=all|few|none] [--window-ms=N] [--headline] [--json]
                [--commit=TEXT] [--driver=TEXT]

For each pattern and length: ours (bench_gpu in the same minute on the same card), then the peers. Dense: torch's SDPA
with the FLASH_ATTENTION and the CUDNN_ATTENTION backend, each named explicitly. Sparse: FlexAttention, compiled, with a
BlockMask of the same pattern, and DKernel where python3 has it. Each as bench_gpu measures: sustained (back to back)
and cool (single launches after idling, each behind an untimed one). The matrix product and the copy of torch stand at
both ends of the run. --headline leaves out what has no peer and no row among the project's goals. A table on standard
output, ratios at its end; one JSON object a line in FILE, or with --json on standard output instead of the table. Without torch or a GPU it says so and exits with 77.
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
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

try:
    import dkernel
except ImportError:
    dkernel = None

OPTIONS = {"bench": "build/current/bench_gpu", "rows": "", "phase": "forward,backward,decode", "only": "", "tok": "",
           "flex": "few", "window-ms": "90", "headline": "", "json": "", "commit": "unknown", "driver": ""}
BLOCK = 64
LENGTHS = (8192, 32768, 131072)
BACKENDS = (("FlashAttention-2", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION))
# phase, row of bench_gpu, heads, KV heads, head dim, (window, stride) in blocks or None for dense, batch, lengths.
# One line a row group; a name that bench_gpu does not know is run through the peers alone.
TABLE = [
    ("forward", "dense", 32, 32, 128, None, 1, LENGTHS),
    ("forward", "dense_d64", 32, 32, 64, None, 1, LENGTHS),
    ("forward", "dense_d256", 16, 16, 256, None, 1, LENGTHS),
    ("forward", "L8V16", 32, 32, 128, (8, 16), 1, LENGTHS),
    ("forward", "phi3", 32, 8, 128, (16, 8), 1, LENGTHS),
    ("forward", "L16V32", 32, 32, 128, (16, 32), 1, LENGTHS),
    ("backward", "dense", 32, 32, 128, None, 1, LENGTHS),
    ("backward", "L8V16", 32, 32, 128, (8, 16), 1, LENGTHS),
    ("backward", "phi3", 32, 8, 128, (16, 8), 1, LENGTHS),
    ("backward", "L16V32", 32, 32, 128, (16, 32), 1, LENGTHS),
    ("decode", "dense", 32, 8, 128, None, 1, (32768, 131072)),
    ("decode", "L8V16", 32, 32, 128, (8, 16), 1, (32768, 131072)),
    ("decode", "L8V16", 32, 32, 128, (8, 16), 16, (32768,)),
    ("decode", "phi3", 32, 8, 128, (16, 8), 1, (32768, 131072)),
    ("decode", "phi3", 32, 8, 128, (16, 8), 16, (32768,)),
    ("decode", "phi3", 32, 8, 128, (16, 8), 128, (32768,)),  # a dense cache of eight such layers fills the card
]
# FlexAttention compiles for every shape; these are what `few` runs.
FEW = {("L8V16", 8192), ("L8V16", 131072), ("phi3", 32768), ("L16V32", 131072)}
# The one goal of the portable kernel is against dense FlashAttention-2 at this length.
PORTABLE = ("L8V16", 32768)
# What --headline runs: pattern and lengths, by phase.
HEADLINE = {"forward": {"dense": LENGTHS, "dense_d64": (8192, 32768), "dense_d256": (8192, 32768), "L8V16": LENGTHS,
                        "phi3": (131072,), "L16V32": (131072,)},
            "backward": {"dense": LENGTHS},
            "decode": {"dense": (32768,), "phi3": (32768, 131072), "L8V16": (32768,)}}
rows = []
out = None


def emit(**row):
    rows.append(row)
    if out:
        out.write(json.dumps(row) + "\n")
        out.flush()


def say(text):
    print(text, flush=True, file=sys.stderr if OPTIONS["json"] else sys.stdout)


def span(run, n_runs):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(n_runs):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / n_runs


def measure(run):
    run()
    first = span(run, 2)
    cool = []
    for _ in range(3 if first > 100 else 5):
        torch.cuda.synchronize()
        time.sleep(0.04)
        if first < 20:  # keeps the GPU busy while the host launches what is timed
            run()
        cool.append(span(run, 1))
    n_runs = 1 + int(float(OPTIONS["window-ms"]) / first)
    span(run, n_runs)
    windows = [span(run, n_runs) for _ in range(1 if first > 100 else 3)]
    return statistics.median(windows), statistics.median(cool), (max(windows) - min(windows)) / statistics.median(windows)


def ceilings():
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    sustained, cool, spread = measure(lambda: a @ b)
    emit(row="ceiling", what="matrix_8192_bf16", by="torch", unit="TFLOP/s", sustained=2 * 8192**3 / sustained * 1e-9,
         cool=2 * 8192**3 / cool * 1e-9, spread=spread)
    say(f"ceiling matrix_8192_bf16 {rows[-1]['sustained']:.1f} TFLOP/s sustained, {rows[-1]['cool']:.1f} cool")
    x = torch.empty(1 << 32, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    sustained, cool, spread = measure(lambda: y.copy_(x))
    emit(row="ceiling", what="copy", by="torch", unit="TB/s", sustained=2 * 2**32 / sustained * 1e-9,
         cool=2 * 2**32 / cool * 1e-9, spread=spread)
    say(f"ceiling copy {rows[-1]['sustained']:.2f} TB/s")


def result(kernel, phase, pattern, n_tok, batch, work, sustained, cool, spread=0.0):
    unit = "TB/s" if phase == "decode" else "TFLOP/s"
    emit(row="peer", phase=phase, kernel=kernel, pattern=pattern, n_tok=n_tok, batch=batch, sustained_ms=round(sustained, 5),
         cool_ms=round(cool, 5), unit=unit, sustained=round(work / sustained * 1e-9, 3),
         cool=round(work / cool * 1e-9, 3), spread=round(spread, 4))
    show(rows[-1])


def show(row):
    say(f"{row['phase']:9} {row['pattern']:14} {row['n_tok']:8} {row['kernel']:18} {row['sustained_ms']:10.4f} ms "
        f"{row['sustained']:9.2f} | cool {row['cool_ms']:10.4f} ms {row['cool']:9.2f} {row['unit']}")


def ours_decode(pattern, n_tok, batch):
    """bench_decode replays graphs over rotating caches; strict: nothing is fetched before the launch before ended."""
    run = subprocess.run([OPTIONS["bench"].replace("bench_gpu", "bench_decode"), f"--only={pattern}", f"--tok={n_tok}",
                          f"--batch={batch}"], capture_output=True, text=True, check=False)
    for line in run.stdout.splitlines():
        row = json.loads(line)
        if row["row"] == "decode" and row["q_tok"] == 1 and (pattern != "dense" or row["kv_heads"] == 8):
            work = row["kv_mb"] * 1e6
            row.update(row="ours", phase="decode", bytes=work, unit="TB/s", sustained_ms=row["us"] * 1e-3,
                       cool_ms=row["strict_us"] * 1e-3, sustained=work / row["us"] * 1e-6, cool=work / row["strict_us"] * 1e-6)
            emit(**row)
            show(rows[-1])
            return row
    return None


def ours(phase, pattern, n_tok, batch):
    if phase == "decode":
        return ours_decode(pattern, n_tok, batch)
    kernels = "best,sm90_bwd_fused" if phase == "backward" else "best,sm80" if (pattern, n_tok) == PORTABLE else "best"
    found = None
    run = subprocess.run([OPTIONS["bench"], f"--only={pattern}", f"--tok={n_tok}", f"--phase={phase}", f"--kernel={kernels}",
                          "--json", "--no-check", "--no-ceilings", f"--window-ms={OPTIONS['window-ms']}"],
                         capture_output=True, text=True, check=False)
    for line in run.stdout.splitlines():
        row = json.loads(line)
        if row["row"] == phase:
            row.update(row="ours", phase=phase)
            emit(**row)
            show(rows[-1])
            found = found or row
    return found


def peer(kernel, phase, pattern, n_tok, work, run, batch=1):
    try:
        result(kernel, phase, pattern, n_tok, batch, work, *measure(run))
    except Exception as error:  # a peer that cannot is a row, not the end of the table
        emit(row="peer", phase=phase, kernel=kernel, pattern=pattern, n_tok=n_tok, batch=batch, why=str(error)[:200])
        say(f"{phase:9} {pattern:14} {n_tok:8} {kernel:18} {str(error)[:100]}")


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def backward_of(attend, *leaves):
    """Gradients alone: the forward ran before and its graph is kept."""
    for leaf in leaves:
        leaf.requires_grad_()
    o = attend()
    gradient = torch.randn_like(o)
    return lambda: torch.autograd.grad(o, leaves, gradient, retain_graph=True)


def dense_peers(phase, name, batch, heads, kv_heads, dim, n_tok, work):
    n_q = 1 if phase == "decode" else n_tok
    q = random(batch, heads, n_q, dim)
    k, v = (random(batch, kv_heads, n_tok, dim) for _ in range(2))
    for kernel, backend in BACKENDS:
        def attend(backend=backend):
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=phase != "decode", enable_gqa=heads != kv_heads)
        if phase == "backward":
            try:
                peer(kernel, phase, name, n_tok, work, backward_of(attend, q, k, v))
            except Exception as error:
                emit(row="peer", phase=phase, kernel=kernel, pattern=name, n_tok=n_tok, why=str(error)[:200])
        else:
            peer(kernel if phase == "forward" else "dense " + kernel, phase, name, n_tok, work, attend, batch)


def block_mask(heads, kv_heads, n_tok, window, stride):
    """128 query tokens by 64 keys a tile; tiles whose every pair is read are full ones."""
    group = heads // kv_heads
    n_q, n_k = n_tok // 128, n_tok // BLOCK
    row = torch.arange(n_q, device="cuda")[:, None] * 2
    key = torch.arange(n_k, device="cuda")[None, :]
    kv_nums, kv_idx, full_nums, full_idx = [], [], [], []
    for head in range(heads):
        strided = (key + head // group) % stride == 0
        reads = [(key <= blk) & (((blk - key) < window) | strided) for blk in (row, row + 1)]
        some, all_ = reads[0] | reads[1], reads[0] & reads[1] & (key < row)
        for tiles, nums, idx in ((some & ~all_, kv_nums, kv_idx), (all_, full_nums, full_idx)):
            nums.append(tiles.sum(1).int())
            idx.append(torch.argsort(tiles.int(), dim=1, descending=True, stable=True).int())

    def reads(_, head, q_tok, k_tok):
        q_blk, k_blk = q_tok // BLOCK, k_tok // BLOCK
        return (q_tok >= k_tok) & ((q_blk - k_blk < window) | ((k_blk + head // group) % stride == 0))

    stack = [torch.stack(x)[None] for x in (kv_nums, kv_idx, full_nums, full_idx)]
    return BlockMask.from_kv_blocks(*stack, BLOCK_SIZE=(128, BLOCK), mask_mod=reads)


def flex_peer(phase, name, heads, kv_heads, dim, n_tok, work, window, stride):
    q = random(1, heads, n_tok, dim)
    k, v = (random(1, kv_heads, n_tok, dim) for _ in range(2))
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    try:
        mask = block_mask(heads, kv_heads, n_tok, window, stride)
    except Exception as error:
        emit(row="peer", phase=phase, kernel="FlexAttention", pattern=name, n_tok=n_tok, why=str(error)[:200])
        return
    peer("FlexAttention", phase, name, n_tok, work,
         lambda: compiled(q, k, v, block_mask=mask, enable_gqa=heads != kv_heads))


def dkernel_peer(phase, name, heads, kv_heads, dim, n_tok, work, window, stride):
    """[batch, token, head, d], KV repeated to the query heads, as its forward requires; layouts are not timed."""
    if dkernel is None or phase == "decode":
        return
    q = random(1, n_tok, heads, dim)
    k, v = (random(1, n_tok, kv_heads, dim).repeat_interleave(heads // kv_heads, 2) for _ in range(2))
    try:
        attend = dkernel.LocalStrideSparseAttention(heads, n_tok, BLOCK, window, stride, num_kv_heads=kv_heads, seq_dim=1)
        run = (lambda: attend(q, k, v)) if phase == "forward" else backward_of(lambda: attend(q, k, v), q, k, v)
    except Exception as error:
        emit(row="peer", phase=phase, kernel="DKernel", pattern=name, n_tok=n_tok, why=str(error)[:200])
        return
    peer("DKernel", phase, name, n_tok, work, run)


def row_group(phase, name, heads, kv_heads, dim, sparse, batch, n_tok):
    mine = ours(phase, name, n_tok, batch)
    causal_flop = 4.0 * dim * heads * batch * n_tok * (n_tok + 1) / 2 * (2.5 if phase == "backward" else 1)
    work = mine["bytes" if phase == "decode" else "flop"] if mine else causal_flop
    if phase == "decode":  # no sparse peer in torch: what a token is compared with is the dense cache
        dense_peers(phase, name, batch, heads, kv_heads, dim, n_tok, 4.0 * batch * kv_heads * n_tok * dim)
    elif sparse is None:
        dense_peers(phase, name, batch, heads, kv_heads, dim, n_tok, work)
    elif mine:
        flex = OPTIONS["flex"]
        if phase == "forward" and (flex == "all" or (flex == "few" and (name, n_tok) in FEW)):
            flex_peer(phase, name, heads, kv_heads, dim, n_tok, work, *sparse)
        dkernel_peer(phase, name, heads, kv_heads, dim, n_tok, work, *sparse)
    torch.cuda.empty_cache()


def find(kind, phase, pattern, n_tok, kernel=None):
    for row in rows:
        if (row["row"], row.get("phase"), row.get("pattern"), row.get("n_tok")) == (kind, phase, pattern, n_tok) and \
                (kernel is None or row["kernel"] == kernel) and "sustained_ms" in row:
            return row
    return None


def ratios():
    say("\nratio of times, peer over ours: sustained, cool")
    for mine in [row for row in rows if row["row"] == "ours"]:
        phase, pattern, n_tok = mine["phase"], mine["pattern"], mine["n_tok"]
        others = [(row["kernel"], row) for row in rows if row["row"] == "peer" and "sustained_ms" in row and
                  (row["phase"], row["pattern"], row["n_tok"]) == (phase, pattern, n_tok) and
                  row["batch"] == mine.get("batch", 1)]
        if pattern != "dense" and mine.get("head_dim") == 128 and phase != "decode":
            others += [("dense " + kernel, find("peer", phase, "dense", n_tok, kernel)) for kernel, _ in BACKENDS]
        for kernel, other in others:
            if other is None:
                continue
            sustained, cool = (other[key] / mine[key] for key in ("sustained_ms", "cool_ms"))
            emit(row="ratio", phase=phase, pattern=pattern, n_tok=n_tok, batch=mine.get("batch", 1), of=kernel, over=mine["kernel"],
                 sustained=round(sustained, 3), cool=round(cool, 3))
            say(f"{phase:9} {pattern:14} {n_tok:8} {kernel:24} over {mine['kernel']:14} {sustained:7.2f}x {cool:7.2f}x")


def main():
    global out
    for arg in sys.argv[1:]:
        name, _, value = arg.lstrip("-").partition("=")
        value = value or "yes"
        if name not in OPTIONS:
            print(__doc__, file=sys.stderr)
            sys.exit(2)
        OPTIONS[name] = value
    out = sys.stdout if OPTIONS["json"] else open(OPTIONS["rows"], "w", encoding="utf-8") if OPTIONS["rows"] else None
    emit(row="device", name=torch.cuda.get_device_name(), uuid="GPU-" + str(torch.cuda.get_device_properties(0).uuid),
         commit=OPTIONS["commit"], driver=OPTIONS["driver"], torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(),
         dkernel=getattr(dkernel, "__version__", "present") if dkernel else None)
    say(" ".join(str(value) for value in rows[-1].values()))
    if dkernel is None:
        say("DKernel: python3 has no module dkernel here; skipped")
    ceilings()
    for phase, name, heads, kv_heads, dim, sparse, batch, lengths in TABLE:
        for n_tok in lengths:
            if phase in OPTIONS["phase"].split(",") and (not OPTIONS["only"] or name in OPTIONS["only"].split(",")) and \
                    (not OPTIONS["tok"] or str(n_tok) in OPTIONS["tok"].split(",")) and \
                    (not OPTIONS["headline"] or n_tok in HEADLINE[phase].get(name, ())):
                row_group(phase, name, heads, kv_heads, dim, sparse, batch, n_tok)
    ceilings()
    ratios()


if __name__ == "__main__":
    main()
