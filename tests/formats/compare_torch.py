#!/usr/bin/env python3
"""On a machine with torch (2.5 or later, CPU is enough): what s2 exports against a dense reference, by outputs.

For each pattern the exported FlexAttention module and arrays are loaded as a user would, and three things are
compared with the token mask of `s2 mask`: the block mask that torch itself derives from the exported predicate, the
output of flex_attention with the exported BlockMask, and the output of scaled_dot_product_attention with the masks
of the csr, flashinfer and npy exports. The reference is plain softmax attention in float64.

usage: compare_torch.py S2_PROGRAM [cpu|cuda]        last line: N passed, N failed
"""
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

LEN, DIM, BLOCK = 512, 64, 64
PATTERNS = {
    "phi": "layers 2; heads 8; kv-heads 2; block 64; layers all: local 2 | stride 4 phase head+1; layers 1::2: dense",
    "rotation": "heads 8; kv-heads 4; block 64; layers all: local 2 | stride 4 phase kv+2",
    "streaming": "heads 4; kv-heads 2; block 64; layers all: sink 4t | local 100t; kv 1: dense",
    "shards": "heads 4; block 64; layers all: local 2 | stride 2 phase head when distance 2..5 | stride 4 phase head "
              "when distance 5..",
    "dilated": "heads 2; block 64; layers all: dilated 3 phase head | chunk 2",
    "encoder": "heads 2; block 64; causal no; layers all: local 2 | columns 0 | rows 0",
}


def s2(program, *args):
    done = subprocess.run([program] + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in (0, 1):
        raise SystemExit("%s: exit %d\n%s" % (" ".join(args), done.returncode, done.stderr.decode()))
    return done.returncode == 0


def reference(q, k, v, mask):
    """Softmax attention in float64; mask[h][q][k]; a row that reads nothing gives 0."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.double().repeat_interleave(group, dim=1) for t in (k, v))
    scores = (q.double() @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    empty = ~mask.any(dim=-1, keepdim=True)
    shares = torch.softmax(scores.masked_fill(~mask & ~empty, -math.inf), dim=-1)
    return shares.masked_fill(empty, 0.0) @ v


class Comparison:
    def __init__(self, program, device):
        self.s2, self.device, self.dir = program, device, tempfile.mkdtemp(prefix="s2-torch-")
        self.passed = self.failed = 0

    def judge(self, label, ok):
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        print("%-4s %s" % ("ok" if ok else "FAIL", label))

    def token_mask(self, name, layer):
        path = os.path.join(self.dir, "mask.npy")
        s2(self.s2, "mask", PATTERNS[name], "--len", str(LEN), "--layer", str(layer), "--tokens", "--format", "npy",
           "-o", path)
        return torch.from_numpy(numpy.load(path)).to(self.device)

    def export(self, name, to, *options):
        out = os.path.join(self.dir, "%s-%s" % (name, to))
        os.makedirs(out, exist_ok=True)
        good = s2(self.s2, "export", "--no-db", PATTERNS[name], "--to", to, "--len", str(LEN), "--force", "-o", out,
                  *options)
        return out if good else None

    def tensors(self, heads, kv_heads):
        torch.manual_seed(heads * 100 + kv_heads)
        shape = lambda n: (1, n, LEN, DIM)
        return [torch.randn(shape(n), device=self.device) for n in (heads, kv_heads, kv_heads)]

    def close(self, label, got, want):
        worst = (got.double() - want).abs().max().item()
        self.judge("%s: largest difference %.2g" % (label, worst), bool(worst <= 2e-5))

    def flex(self, name):
        out = self.export(name, "flex", "--set", "block=%d" % BLOCK)
        spec = importlib.util.spec_from_file_location("flex_" + name.replace("-", "_"), os.path.join(out, "flex_mask.py"))
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # torch finds globals of a predicate through the module's name
        spec.loader.exec_module(module)
        for layer in range(module.N_LAYERS):
            label, mask = "%s layer %d" % (name, layer), self.token_mask(name, layer)
            mod = module.make_mask_mod(layer, self.device)
            own = create_block_mask(mod, 1, module.N_HEADS, LEN, LEN, device=self.device, BLOCK_SIZE=BLOCK)
            ours = module.block_mask(layer, self.device)
            self.judge("%s: torch's own block mask from the predicate is ours" % label,
                       torch.equal(own.to_dense(), ours.to_dense()))
            q, k, v = self.tensors(module.N_HEADS, module.N_KV_HEADS)
            grouped, want = module.N_HEADS != module.N_KV_HEADS, reference(q, k, v, mask)
            got = flex_attention(q, k, v, block_mask=ours, enable_gqa=grouped)
            self.close("%s: flex_attention" % label, got, want)
            # without a compiler torch evaluates the predicate alone; the compiled kernel walks the block lists
            options = module.KERNEL_OPTIONS if self.device == "cuda" else None
            compiled = torch.compile(flex_attention)
            with torch.no_grad():
                got = compiled(q, k, v, block_mask=ours, enable_gqa=grouped, kernel_options=options)
            self.close("%s: flex_attention, compiled" % label, got, want)
            if self.device == "cuda":
                self.gradients(label, lambda *of: compiled(*of, block_mask=ours, enable_gqa=grouped, kernel_options=options),
                               lambda *of: reference(*of, mask), (q, k, v))

    def gradients(self, label, attend, exact, tensors):
        """dQ, dK and dV of the compiled kernel, each over the largest of the exact ones."""
        of, weights = [], torch.randn_like(tensors[0])
        for function in (attend, exact):
            leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
            out = function(*leaves)
            of.append(torch.autograd.grad(out, leaves, weights.to(out.dtype)))
        worst = max(((got - want).abs().max() / want.abs().max()).item() for got, want in zip(*of))
        self.judge("%s: gradients of flex_attention, compiled: largest relative difference %.2g" % (label, worst), worst <= 1e-3)

    def arrays(self, name):
        """Masks of explicit block lists, which are exact here, through scaled_dot_product_attention."""
        for to, manifest_name in (("csr", "layout.json"), ("flashinfer", "flashinfer.json")):
            out = self.export(name, to)
            if out is None:
                continue
            manifest = json.load(open(os.path.join(out, manifest_name)))
            size = manifest["block_size"]
            load = lambda file: numpy.load(os.path.join(out, file))
            for c, layout in enumerate(manifest["layouts"]):
                heads, n = manifest["num_attention_heads"], LEN // size
                blocks = numpy.zeros((heads, n, n), dtype=bool)
                for h in range(heads):
                    if to == "csr":
                        begin, column = load(layout["crow"])[h], load(layout["col"])[h]
                    else:
                        plan = next(p for p in manifest["plans"] if [c, h] in p["heads"])
                        begin, column = load(plan["indptr"]), load(plan["indices"])
                    for row in range(n):
                        blocks[h, row, column[begin[row]:begin[row + 1]]] = True
                mask = torch.from_numpy(blocks.repeat(size, 1).repeat(size, 2)).to(self.device)
                if manifest["causal"]:
                    mask &= torch.ones(LEN, LEN, dtype=torch.bool, device=self.device).tril()
                layer = layout["layers"][0]
                exact = "t " not in PATTERNS[name] + " "
                want_mask = self.token_mask(name, layer) if exact else mask
                q, k, v = self.tensors(heads, manifest["num_key_value_heads"])
                group = q.shape[1] // k.shape[1]
                got = torch.nn.functional.scaled_dot_product_attention(
                    q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), attn_mask=mask)
                self.close("%s layer %d: %s through scaled_dot_product_attention" % (name, layer, to), got,
                           reference(q, k, v, want_mask))


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/current/s2"
    comparison = Comparison(program, sys.argv[2] if len(sys.argv) > 2 else "cpu")
    print("torch %s on %s" % (torch.__version__, comparison.device))
    for name in PATTERNS:
        comparison.flex(name)
        comparison.arrays(name)
    print("%d passed, %d failed" % (comparison.passed, comparison.failed))
    return 1 if comparison.failed or not comparison.passed else 0


if __name__ == "__main__":
    sys.exit(main())
