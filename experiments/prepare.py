"""Patterns into masks, by the same s2 that judges them.

    python3 experiments/prepare.py --s2 build/release/s2 --out DIR [PATTERNS.txt ...]

writes DIR/masks.npz: for each pattern its bits [layers, heads, T, T / 8], and DIR/patterns.json: names, families, texts.
`--text FILE ...` writes DIR/text.gz from text files: what the language model learns.
"""
import argparse
import concurrent.futures
import gzip
import io
import json
import pathlib
import subprocess

import numpy

from shape import CONTEXT, LAYERS, read_patterns


def masks(s2, text, layers):
    planes = []
    for layer in range(layers):
        command = [s2, "mask", "--len", str(CONTEXT), "--layer", str(layer), "--tokens", "--format", "npy", text]
        planes.append(numpy.load(io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout)))
    return numpy.packbits(numpy.stack(planes), axis=-1)


def pack_text(paths, out, limit):
    parts, size = [], 0
    for path in sorted(paths):
        data = pathlib.Path(path).read_bytes()
        data = gzip.decompress(data) if path.endswith(".gz") else data
        parts.append(bytes(b for b in data if b in b"\n\t" or 32 <= b < 127))
        size += len(parts[-1])
        if size >= limit:
            break
    out.write_bytes(gzip.compress(b"".join(parts)[:limit], mtime=0))


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--s2", default="build/release/s2")
    parse.add_argument("--out", type=pathlib.Path, required=True)
    parse.add_argument("--text", nargs="*", default=[])
    parse.add_argument("--limit", type=int, default=12_000_000, help="bytes of text")
    parse.add_argument("--layers", type=int, default=LAYERS)
    parse.add_argument("patterns", nargs="*")
    options = parse.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.text:
        pack_text(options.text, options.out / "text.gz", options.limit)
    patterns = [pattern for path in options.patterns for pattern in read_patterns(path, options.layers)]
    if patterns:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            bits = list(pool.map(lambda pattern: masks(options.s2, pattern["text"], options.layers), patterns))
        numpy.savez_compressed(options.out / "masks.npz", **{p["name"]: b for p, b in zip(patterns, bits)})
        (options.out / "patterns.json").write_text(json.dumps(patterns, indent=0))


if __name__ == "__main__":
    main()
