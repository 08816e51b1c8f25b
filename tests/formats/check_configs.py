#!/usr/bin/env python3
"""Twelve configurations that a newcomer tries first, each from the numbers that its authors publish, through
`s2 import`, `s2 check`, `s2 mask` and `s2 sim`. Every figure is one line; docs/formats.md lists them and says where
ours differs from the published one and why.

usage: check_configs.py S2_PROGRAM        last line: N passed, N failed
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

GIB = 1 << 30


class Configs:
    def __init__(self, s2):
        self.s2, self.passed, self.failed, self.dir = s2, 0, 0, tempfile.mkdtemp(prefix="s2-configs-")

    def run(self, *args):
        done = subprocess.run([self.s2] + [str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode not in (0, 1):
            raise SystemExit("%s: exit %d\n%s" % (" ".join(map(str, args)), done.returncode, done.stderr.decode()))
        return done.stdout.decode()

    def load(self, name, text, *settings):
        """Import a foreign text; the path of the pattern."""
        source, pattern = os.path.join(self.dir, name), os.path.join(self.dir, name + ".s2")
        with open(source, "w") as out:
            out.write(text if isinstance(text, str) else json.dumps(text))
        options = [x for setting in settings for x in ("--set", setting)]
        self.run("import", "--no-db", source, "-o", pattern, *options)
        return pattern

    def sim(self, pattern, length, *options):
        return json.loads(self.run("sim", "--no-db", pattern, "--len", length, "--json", *options))

    def verdict(self, pattern, name):
        found = json.loads(self.run("check", "--no-db", pattern, "--json"))
        return next(p for p in found["properties"] if p["name"] == name)

    def last_row(self, pattern, length, block, head):
        """Key blocks that the last query block of one head (or kv:G) of layer 0 reads."""
        path = os.path.join(self.dir, "mask.npy")
        self.run("mask", pattern, "--len", length, "--head", head, "--format", "npy", "-o", path)
        data = open(path, "rb").read()
        cells = data[10 + struct.unpack("<H", data[8:10])[0]:]
        n = length // block
        return [k for k in range(n) if cells[(n - 1) * n + k]]

    def figure(self, number, what, got, expected, tolerance=0.0):
        ok = abs(got - expected) <= tolerance if not isinstance(expected, str) else got == expected
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        shown = ("%.6g" % got) if not isinstance(got, str) else got
        print("%-4s %2d %s: %s%s" % ("ok" if ok else "FAIL", number, what, shown,
                                     "" if ok else ", expected %s" % expected))


def stride_args(**more):
    args = dict(num_heads=32, max_seq_len=8192, block_size=64, local_blocks=32, vert_stride=8)
    args.update(more)
    return args


def phi3(c):
    config = {"model_type": "phi3small", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
              "hidden_size": 4096, "blocksparse_block_size": 64, "blocksparse_num_local_blocks": 16,
              "blocksparse_vert_stride": 8, "blocksparse_homo_head_pattern": False,
              "dense_attention_every_n_layers": 2}
    p = c.load("phi-3-small.json", config)
    short, long = c.sim(p, 8192), c.sim(p, 131072)
    c.figure(1, "Phi-3-small density at 8k", short["density"], .32934, 5e-6)
    c.figure(1, "blocks of a query head in the last row", len(c.last_row(p, 8192, 64, "0")), 30)
    c.figure(1, "blocks of a KV head in the last row", len(c.last_row(p, 8192, 64, "kv:0")), 72)
    c.figure(1, "dense KV cache, GiB", short["kv"]["dense"] / GIB, 1.0)
    c.figure(1, "KV cache by KV head, GiB", short["kv"]["head_pages"] / GIB, .7812, 5e-5)
    c.figure(1, "shared pages free nothing, GiB", short["kv"]["shared_pages"] / GIB, 1.0)
    c.figure(1, "blocks of a query head at 128k", len(c.last_row(p, 131072, 64, "0")), 270)
    c.figure(1, "KV cache by KV head at 128k, GiB", long["kv"]["head_pages"] / GIB, 12.03, 5e-3)
    c.figure(1, "union", c.verdict(p, "union")["verdict"], "holds")
    # the same window and stride with the phases over KV heads, as DKernel rotates them
    kv = ("heads 32; kv-heads 8; layers 32; layers all: local 16 | stride 8 phase kv+1; layers 1::2: dense")
    c.figure(1, "KV cache with phases by KV head, GiB", c.sim(kv, 8192)["kv"]["head_pages"] / GIB, .6172, 5e-5)
    c.figure(1, "the same at 128k, GiB", c.sim(kv, 131072)["kv"]["head_pages"] / GIB, 9.05, 5e-3)


def dkernel(c):
    p = c.load("dkernel.json", stride_args())
    c.figure(2, "DKernel README density", c.sim(p, 8192)["density"], .50654, 5e-6)
    c.figure(2, "blocks in the last row", len(c.last_row(p, 8192, 64, "0")), 44)
    p = c.load("dkernel-kv4.json", stride_args(num_kv_heads=4))
    c.figure(2, "union with num_kv_heads 4", c.verdict(p, "union")["verdict"], "violated")
    rows = set(k for g in range(4) for k in c.last_row(p, 8192, 64, "kv:%d" % g))
    unseen = sorted(set(k % 8 for k in range(96) if k not in rows))
    c.figure(2, "columns mod 8 that no head reads", str(unseen), "[1, 2, 3, 4]")


def table(n_layers, n_kv, values):
    return "".join("\t".join("%.6f" % v for v in values[r * n_kv:(r + 1) * n_kv]) + "\n" for r in range(n_layers))


def duo(c):
    # 127 scores above the median, 3 on it, 126 below: what the published table of the 1048k model has
    scores = [1.0] * 127 + [.5] * 3 + [0.0] * 126
    shape = ("heads=32", "sparsity=0.5")
    p = c.load("gradient.tsv", table(32, 8, scores), "tie=all", *shape)
    c.figure(3, "Duo 1048k, 130 full heads: dense KV at 1M, GiB", c.sim(p, 1 << 20)["kv"]["dense"] / GIB, 128)
    c.figure(3, "its KV cache, GiB", c.sim(p, 1 << 20)["kv"]["used"] / GIB, 65.02, 5e-3)
    p = c.load("gradient128.tsv", table(32, 8, scores), *shape)
    c.figure(3, "with 128 full heads, GiB", c.sim(p, 1 << 20)["kv"]["used"] / GIB, 64.02, 5e-3)
    scores = [1.0] * 258 + [0.0] * 766
    p = c.load("llama2.tsv", table(32, 32, scores), "heads=32", "sparsity=0.75", "tie=all")
    kv = c.sim(p, 32768)["kv"]
    c.figure(4, "Duo Llama-2-7B, 258 full heads: dense KV at 32k, GiB", kv["dense"] / GIB, 16)
    c.figure(4, "its KV cache, GiB", kv["used"] / GIB, 4.15, 5e-3)
    p = c.load("llama2-ties.tsv", table(32, 32, scores), "heads=32", "sparsity=0.25", "tie=all")
    c.figure(4, "at sparsity .25 all tie and all are full", c.sim(p, 32768)["density"], 1)


def lserve(c):
    p = c.load("lserve.txt", "--sparse-context-mode --sparse-decode-mode 1 --static-sparsity 0.5 --static-sparse-attn-load-dir patterns --ctx-sink-token 128 --ctx-local-token 8192 --dec-sink-token 128 --dec-local-token 256 "
               "--dynamic-sparse-token-budget 4096")
    n = 131072
    prefill, decode = c.sim(p, n), c.sim(p, n, "-p", "decode", "--dtype", "fp8")
    # half of the KV heads stream, the others are dense in prefill
    c.figure(5, "LServe prefill density of a streaming head", 2 * prefill["token_density"] - 1, .12292, 2e-5)
    streaming = 7 * 64 / n  # 2 sink pages and 5 local ones
    c.figure(5, "decode, KV read by a retrieval head", 2 * decode["token_density"] - streaming, .0312, 6e-5)
    retrieval_kv = 128 * n * 2 * 128
    streaming_read, retrieval_read, q = 128 * 7 * 64 * 256, 128 * 4096 * 256, 32 * 32 * 128
    selection = decode["bytes"]["hbm_read"] - streaming_read - retrieval_read - q
    c.figure(5, "decode, page summaries read", selection / retrieval_kv, .0156, 5e-5)
    summaries = 128 * (n // 64) * 2 * 128
    c.figure(5, "KV at 8 bits without summaries, GiB", (decode["kv"]["used"] - summaries) / GIB, 4.01, 5e-3)


def minference(c):
    p = c.load("v2.json", [{str(h): ["vertical_and_slash", 512, 2048, 1] for h in range(32)} for _ in range(32)],
               "kv-heads=8")
    kv = c.sim(p, 131072)["kv"]
    c.figure(6, "MInference v2: KV kept", kv["used"] / kv["dense"], 1, .02)
    p = c.load("a-shape.json", [{"0": ["a_shape", 128, 3968, 1]}])
    c.figure(6, "a_shape density at 128k", c.sim(p, 131072)["token_density"], .06152, 6e-6)
    kv = c.sim(p, 131072)["kv"]
    c.figure(6, "a_shape: decode is dense, KV kept", kv["used"] / kv["dense"], 1)


def moa(c):
    rules = {(0, .125): 279, (0, .625): 183, (0, .75): 171, (0, .25): 122, (0, .875): 102, (-1024, 1): 75, (0, .5): 64,
             (0, .375): 17, (1024, .125): 11}
    heads = [rule for rule, n in rules.items() for _ in range(n)]
    file = {"alphas": [[heads[l * 32 + h][0] for h in range(32)] for l in range(32)],
            "betas": [[heads[l * 32 + h][1] for h in range(32)] for l in range(32)]}
    for n, mean in ((4096, .4844), (8192, .4922), (16384, .4961)):
        kv = c.sim(c.load("moa-%d.json" % n, file, "len=%d" % n), n)["kv"]
        c.figure(7, "MoA vicuna-7b, mean cache at %d" % n, kv["used"] / kv["dense"], mean, 6e-5)


def deepspeed(c):
    p = c.load("deepspeed.json", {"sparse_attention": {
        "mode": "fixed", "block": 16, "different_layout_per_head": True, "num_local_blocks": 8, "num_global_blocks": 1,
        "attention": "unidirectional", "num_different_global_patterns": 8}}, "heads=8")
    c.figure(8, "DeepSpeed fixed density at 2048", c.sim(p, 2048)["density"], .18605, 5e-6)
    c.figure(8, "blocks in the last row", len(c.last_row(p, 2048, 16, "0")), 23)
    c.figure(8, "union", c.verdict(p, "union")["verdict"], "holds")


def streaming(c):
    p = c.load("streaming.txt", "--start_size 4 --recent_size 2000")
    found = c.sim(p, 32768)
    c.figure(9, "StreamingLLM KV kept at 32k", found["kv"]["used"] / found["kv"]["dense"], .06116, 5e-6)
    c.figure(9, "token density", found["token_density"], .11857, 5e-6)
    c.figure(9, "union", c.verdict(p, "union")["verdict"], "violated")


def gpt_oss(c):
    layers = ["sliding_attention", "full_attention"] * 12
    p = c.load("gpt-oss.json", {"num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
                                "head_dim": 64, "sliding_window": 128, "layer_types": layers})
    found = c.sim(p, 131072)
    c.figure(10, "gpt-oss-20b dense KV at 128k, GiB", found["kv"]["dense"] / GIB, 6)
    c.figure(10, "its KV cache, GiB", found["kv"]["used"] / GIB, 3.003, 5e-4)
    c.figure(10, "density of a window layer", 2 * found["token_density"] - 1, .00195, 5e-6)


def quest(c):
    for budget, share in ((1024, .0938), (2048, .1250)):
        p = c.load("quest-%d.txt" % budget, "--token_budget %d --chunk_size 16" % budget, "kv-heads=32")
        found = c.sim(p, 32768, "-p", "decode")
        dense, q = found["kv"]["dense"], 32 * 32 * 128 * 2
        sparse = ((found["bytes"]["hbm_read"] - q) / dense * 32 - 2) / 30
        c.figure(11, "Quest %d, KV read by a sparse layer" % budget, sparse, share, 5e-5)
        c.figure(11, "resident of a sparse layer", (found["kv"]["used"] / dense * 32 - 2) / 30, 1.0625, 1e-6)


def dsa(c):
    p = c.load("v3.2.json", {"num_hidden_layers": 61, "num_attention_heads": 128, "index_topk": 2048,
                             "kv_lora_rank": 512, "qk_rope_head_dim": 64})
    found, q = c.sim(p, 131072, "-p", "decode"), 128 * 288 * 2
    c.figure(12, "DSA V3.2 KV at 128k with index keys, GiB", found["kv"]["used"] / GIB, 9.56, 5e-3)
    c.figure(12, "read per layer, MB", (found["bytes"]["hbm_read"] / 61 - q) / 1e6, 19.66, 5e-3)
    c.figure(12, "dense read per layer, MB", found["kv"]["dense"] / 61 / 1e6, 150.99, 5e-3)


def run(s2):
    configs = Configs(s2)
    for check in (phi3, dkernel, duo, lserve, minference, moa, deepspeed, streaming, gpt_oss, quest, dsa):
        check(configs)
    return configs


def main():
    configs = run(sys.argv[1] if len(sys.argv) > 1 else "build/current/s2")
    print("%d passed, %d failed" % (configs.passed, configs.failed))
    return 1 if configs.failed or not configs.passed else 0


if __name__ == "__main__":
    sys.exit(main())
