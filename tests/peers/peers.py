#!/usr/bin/env python3
"""The shapes of `make bench-gpu` through torch's kernels, interleaved with ours, on one GPU.

usage: peers.py [--bench=PATH] [--rows=FILE] [--phase=forward,backward,decode] [--only=NAME,...] [--tok=N,...]
                [--peers=flash2,cudnn,flex,dkernel,cute] [--flex=all|few] [--window-ms=N] [--headline] [--json]
                [--commit=TEXT] [--driver=TEXT]

For each pattern and length: ours (bench_gpu in the same minute on the same card), then the peers. Dense: torch's SDPA
with the FLASH_ATTENTION and the CUDNN_ATTENTION backend, each named explicitly. Sparse: FlexAttention, compiled, with a
BlockMask of the same pattern, and DKernel where python3 has it. Both: FlashAttention CuTe where python3 has it
(flash_cute.py says how), dense, windowed, and by block lists of the same pattern. Each as bench_gpu measures: sustained
(back to back) and cool (single launches after idling, each behind an untimed one). The matrix product and the copy of torch
stand at both ends of the run. --headline leaves out what has no peer and no row among the project's goals; --peers runs some of
them alone. A table on standard output, ratios at its end; one JSON object a line in FILE, or with --json on standard output
instead of the table. Without torch or a GPU it says so and exits with 77.
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

from shapes import FEW, HEADLINE, PORTABLE, TABLE

try:
    import dkernel
except ImportError:
    dkernel = None
try:
    import flash_cute
except ImportError as error:
    flash_cute, no_flash_cute = None, str(error)

OPTIONS = {"bench": "build/current/bench_gpu", "rows": "", "phase": "forward,backward,decode", "only": "", "tok": "",
           "peers": "flash2,cudnn,flex,dkernel,cute", "flex": "few", "window-ms": "90", "headline": "", "json": "", "commit": "unknown", "driver": ""}
BLOCK = 64
BACKENDS = (("flash2", "FlashAttention-2", SDPBackend.FLASH_ATTENTION), ("cudnn", "cuDNN", SDPBackend.CUDNN_ATTENTION))
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


def peer(kernel, phase, pattern, n_tok, work, prepare, batch=1):
    """prepare() gives what is timed."""
    try:
        result(kernel, phase, pattern, n_tok, batch, work, *measure(prepare()))
    except Exception as error:  # a peer that cannot is a row, not the end of the table
        emit(row="peer", phase=phase, kernel=kernel, pattern=pattern, n_tok=n_tok, batch=batch, why=str(error)[:200])
        say(f"{phase:9} {pattern:14} {n_tok:8} {kernel:18} {str(error)[:100]}")


def asked(word):
    return word in OPTIONS["peers"].split(",")


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def backward_of(attend, *leaves, gradient=None):
    """Gradients alone: the forward ran before and its graph is kept."""
    for leaf in leaves:
        leaf.requires_grad_()
    o = attend()
    gradient = torch.randn_like(o) if gradient is None else gradient
    return lambda: torch.autograd.grad(o, leaves, gradient, retain_graph=True)


def dense_peers(phase, name, batch, heads, kv_heads, dim, n_tok, work):
    n_q = 1 if phase == "decode" else n_tok
    q = random(batch, heads, n_q, dim)
    k, v = (random(batch, kv_heads, n_tok, dim) for _ in range(2))
    for word, kernel, backend in BACKENDS:
        if not asked(word):
            continue

        def attend(backend=backend):
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=phase != "decode", enable_gqa=heads != kv_heads)
        if phase == "backward":
            peer(kernel, phase, name, n_tok, work, lambda: backward_of(attend, q, k, v))
        else:
            peer(kernel if phase == "forward" else "dense " + kernel, phase, name, n_tok, work, lambda: attend, batch)


def reads_of(group, sparse):
    """Which pairs the pattern reads: a function of heads, query and key tokens that broadcasts."""
    def reads(head, query, key):
        if not isinstance(sparse, tuple):
            return (key <= query) & (query - key < (sparse or 1 << 30))
        window, stride = sparse
        q_blk, k_blk = query // BLOCK, key // BLOCK
        return (key <= query) & ((q_blk - k_blk < window) | ((k_blk + head // group) % stride == 0))
    return reads


def tiles_of(heads, kv_heads, n_tok, window, stride, tile):
    """For each head [row, column] of tiles of query tokens by keys: which are read in part, and which whole."""
    reads = reads_of(heads // kv_heads, (window, stride))
    blk = torch.arange(0, n_tok, BLOCK, device="cuda")
    rows, columns = (size // BLOCK for size in tile)
    some, whole = [], []
    for head in range(heads):
        read = reads(head, blk[:, None], blk[None, :])
        read, below = (blocks.view(len(blk) // rows, rows, len(blk) // columns, columns)
                       for blocks in (read, read & (blk[None, :] < blk[:, None])))
        whole.append(below.all(3).all(1))
        some.append(read.any(3).any(1) & ~whole[-1])
    return some, whole


def block_mask(heads, kv_heads, n_tok, window, stride):
    """128 query tokens by 64 keys a tile; tiles whose every pair is read are full ones."""
    stack = []
    for tiles in tiles_of(heads, kv_heads, n_tok, window, stride, (128, BLOCK)):
        stack.append(torch.stack([one.sum(1).int() for one in tiles])[None])
        stack.append(torch.stack([torch.argsort(one.int(), dim=1, descending=True, stable=True).int() for one in tiles])[None])

    reads = reads_of(heads // kv_heads, (window, stride))
    return BlockMask.from_kv_blocks(*stack, BLOCK_SIZE=(128, BLOCK), mask_mod=lambda _, head, query, key: reads(head, query, key))


def flex_peer(phase, name, heads, kv_heads, dim, n_tok, work, window, stride):
    q = random(1, heads, n_tok, dim)
    k, v = (random(1, kv_heads, n_tok, dim) for _ in range(2))
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)

    def prepare():
        mask = block_mask(heads, kv_heads, n_tok, window, stride)
        return lambda: compiled(q, k, v, block_mask=mask, enable_gqa=heads != kv_heads)

    peer("FlexAttention", phase, name, n_tok, work, prepare)


def dkernel_peer(phase, name, heads, kv_heads, dim, n_tok, work, window, stride):
    """[batch, token, head, d], KV repeated to the query heads, as its forward requires; layouts are not timed."""
    if dkernel is None or phase == "decode":
        return
    q = random(1, n_tok, heads, dim)
    k, v = (random(1, n_tok, kv_heads, dim).repeat_interleave(heads // kv_heads, 2) for _ in range(2))

    def prepare():
        attend = dkernel.LocalStrideSparseAttention(heads, n_tok, BLOCK, window, stride, num_kv_heads=kv_heads, seq_dim=1)
        return (lambda: attend(q, k, v)) if phase == "forward" else backward_of(lambda: attend(q, k, v), q, k, v)

    peer("DKernel", phase, name, n_tok, work, prepare)


def check_rows(q, k, v, sparse, o=None, gradient=None, dq=None):
    """Of some rows of the first and the last head: outputs, or gradients of queries, must be those of the pattern."""
    n_tok, heads, dim = q.shape[1:]
    group = heads // k.shape[2]
    rows = torch.linspace(0, n_tok - 1, 24, device="cuda").long()
    for head in (0, heads - 1):
        query = q[0, rows, head].detach().float().requires_grad_()
        keys, values = (x[0, :, head // group].detach().float() for x in (k, v))
        read = reads_of(group, sparse)(head, rows[:, None], torch.arange(n_tok, device="cuda")[None, :])
        want = (query @ keys.T * dim**-0.5).masked_fill(~read, float("-inf")).softmax(1) @ values
        got = (o if dq is None else dq)[0, rows, head].float()
        if dq is not None:
            want, = torch.autograd.grad(want, query, gradient[0, rows, head].float())
        error = float((got - want).norm() / want.norm())
        if not error < 0.02:
            raise ValueError(f"rows of head {head} are off by {error:.3f} of their norm")


def replayed(run):
    """A call and what it returns, from a graph: short rows take the GPU less time than a call of FlashAttention CuTe takes the host."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        o = run()
    return graph.replay, o


def cute_peer(phase, name, heads, kv_heads, dim, n_tok, work, sparse):
    """Gradients dense and windowed by both of its forms; of lists as it adds them first come, with either size of its tiles."""
    if flash_cute is None:
        return
    backward, listed = phase == "backward", isinstance(sparse, tuple)
    q, gradient = (random(1, n_tok, heads, dim) for _ in range(2))
    k, v = (random(1, n_tok, kv_heads, dim) for _ in range(2))

    def checked(attend):
        if not backward:
            check_rows(q, k, v, sparse, o=attend())
            run, o = replayed(attend)
            run()
            check_rows(q, k, v, sparse, o=o)
            return run
        run = backward_of(attend, q, k, v, gradient=gradient)
        check_rows(q, k, v, sparse, gradient=gradient, dq=run()[0])
        return run

    def dense(deterministic):
        return checked(lambda: flash_cute.attend_dense(q, k, v, sparse, deterministic))

    def by_lists(tile=None):
        def lists(tile, by_key):
            parts = tiles_of(heads, kv_heads, n_tok, *sparse, tile)
            return flash_cute.block_lists(*([one.T for one in tiles] if by_key else tiles for tiles in parts), tile)
        mask = flash_cute.pattern_mask(*sparse, heads // kv_heads, BLOCK)
        by_query, by_key = lists(flash_cute.FORWARD_TILE, False), lists(tile, True) if tile else None
        return checked(lambda: flash_cute.attend_lists(q, k, v, mask, by_query, by_key))

    if listed and backward:
        for tile in flash_cute.BACKWARD_TILES:
            peer(f"{flash_cute.NAME} {tile[0]}x{tile[1]}", phase, name, n_tok, work, lambda tile=tile: by_lists(tile))
    elif listed:
        peer(flash_cute.NAME, phase, name, n_tok, work, by_lists)
    else:
        peer(flash_cute.NAME, phase, name, n_tok, work, lambda: dense(False))
        if backward:
            peer(flash_cute.NAME + " deterministic", phase, name, n_tok, work, lambda: dense(True))


def pairs_of(n_tok, sparse):
    """Those of a causal head; of a pattern that ours did not time, as if it were dense."""
    window = min(n_tok, sparse) if isinstance(sparse, int) else n_tok
    return window * (window + 1) / 2 + (n_tok - window) * window


def row_group(phase, name, heads, kv_heads, dim, sparse, batch, n_tok):
    mine = ours(phase, name, n_tok, batch)
    flop = 4.0 * dim * heads * batch * pairs_of(n_tok, sparse) * (2.5 if phase == "backward" else 1)
    work = mine["bytes" if phase == "decode" else "flop"] if mine else flop
    shape = (phase, name, heads, kv_heads, dim, n_tok, work)
    if phase == "decode":  # no sparse peer in torch: what a token is compared with is the dense cache
        dense_peers(phase, name, batch, heads, kv_heads, dim, n_tok, 4.0 * batch * kv_heads * n_tok * dim)
    elif sparse is None:
        dense_peers(phase, name, batch, heads, kv_heads, dim, n_tok, work)
    elif isinstance(sparse, tuple) and mine:
        flex = OPTIONS["flex"]
        if asked("flex") and phase == "forward" and (flex == "all" or (flex == "few" and (name, n_tok) in FEW)):
            flex_peer(*shape, *sparse)
        if asked("dkernel"):
            dkernel_peer(*shape, *sparse)
    if asked("cute") and phase != "decode":
        cute_peer(*shape, sparse)
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
            others += [("dense " + kernel, find("peer", phase, "dense", n_tok, kernel)) for _, kernel, _ in BACKENDS]
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
         dkernel=getattr(dkernel, "__version__", "present") if dkernel else None,
         flash_cute=flash_cute.__version__ if flash_cute else None)
    say(" ".join(str(value) for value in rows[-1].values()))
    if dkernel is None:
        say("DKernel: python3 has no module dkernel here; skipped")
    if flash_cute is None:
        say(f"FlashAttention CuTe: skipped, {no_flash_cute}")
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
