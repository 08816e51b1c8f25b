"""The rows of peers.py."""

LENGTHS = (8192, 32768, 131072)
# phase, row of bench_gpu, heads, KV heads, head dim, sparse, batch, lengths. One line a row group; a name that bench_gpu
# does not know is run through the peers alone. `sparse` is (window, stride) in blocks of 64, a window in tokens, or None for dense.
TABLE = [
    ("forward", "dense", 32, 32, 128, None, 1, LENGTHS),
    ("forward", "dense_d64", 32, 32, 64, None, 1, LENGTHS),
    ("forward", "dense_d256", 16, 16, 256, None, 1, LENGTHS),
    ("forward", "L8V16", 32, 32, 128, (8, 16), 1, LENGTHS),
    ("forward", "phi3", 32, 8, 128, (16, 8), 1, LENGTHS),
    ("forward", "L16V32", 32, 32, 128, (16, 32), 1, LENGTHS),
    ("forward", "window", 32, 8, 128, 1024, 1, (8192, 32768)),
    ("backward", "dense", 32, 32, 128, None, 1, LENGTHS),
    ("backward", "dense_d64", 32, 32, 64, None, 1, (8192, 32768)),
    ("backward", "dense_d256", 16, 16, 256, None, 1, (8192, 32768)),
    ("backward", "L8V16", 32, 32, 128, (8, 16), 1, LENGTHS),
    ("backward", "phi3", 32, 8, 128, (16, 8), 1, LENGTHS),
    ("backward", "L16V32", 32, 32, 128, (16, 32), 1, LENGTHS),
    ("backward", "window", 32, 8, 128, 1024, 1, (8192, 32768)),
    ("decode", "dense", 32, 8, 128, None, 1, (32768, 131072)),
    ("decode", "L8V16", 32, 32, 128, (8, 16), 1, (32768, 131072)),
    ("decode", "L8V16", 32, 32, 128, (8, 16), 16, (32768,)),
    ("decode", "phi3", 32, 8, 128, (16, 8), 1, (32768, 131072)),
    ("decode", "phi3", 32, 8, 128, (16, 8), 16, (32768,)),
    ("decode", "phi3", 32, 8, 128, (16, 8), 128, (32768,)),  # a dense cache of eight such layers fills the card
]
# FlexAttention compiles for every shape; these are what `--flex=few` runs.
FEW = {("L8V16", 8192), ("L8V16", 131072), ("phi3", 32768), ("L16V32", 131072)}
# The one goal of the portable kernel is against dense FlashAttention-2 at this length.
PORTABLE = ("L8V16", 32768)
# What --headline runs: pattern and lengths, by phase.
HEADLINE = {"forward": {"dense": LENGTHS, "dense_d64": (8192, 32768), "dense_d256": (8192, 32768), "L8V16": LENGTHS,
                        "phi3": (8192, 131072), "L16V32": (131072,), "window": (8192, 32768)},
            "backward": {"dense": LENGTHS, "window": (8192, 32768), "L8V16": LENGTHS},
            "decode": {"dense": (32768,), "phi3": (32768, 131072), "L8V16": (32768,)}}
