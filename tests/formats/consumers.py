#!/usr/bin/env python3
"""What is exported, read by the code of those who consume it.

Random patterns that a format can say are exported; the consumer's own code then says which keys each query reads, and
every (layer, head, query, key) is compared with `s2 mask`. Nothing of that code is here: packages come from pip,
sources from the folder that fetch.sh filled. Where a consumer needs a GPU to be imported, its host code is loaded
without its kernels: what is missing becomes an empty stand-in, and the call into the kernel is recorded.

usage: consumers.py S2_PROGRAM [--sources DIR] [--formats A,B] [--patterns N] [--seed N]
A line for each consumer: how many patterns were equal, refused by s2, rejected or read otherwise. Exit 1 when a consumer
rejects an export or reads other pairs, or when fewer than N patterns could be said. A consumer that is not here is skipped.
"""
import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import types
import unittest.mock
import warnings

warnings.filterwarnings("ignore")

try:
    import numpy
    import torch
except ImportError as missing:
    print("skipped: numpy and torch are needed (%s)" % missing)
    sys.exit(77)


class Missing(Exception):
    """The consumer is not here; the text says what to install."""


# ---- loading a consumer's host code without its kernels -------------------------------------------------------------

class StandIn(types.ModuleType):
    """A module that is not installed: whatever is asked of it is an empty object."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():  # a class, from which others may inherit
            return type(name, (), {"__init__": lambda self, *args, **keys: None})
        return unittest.mock.MagicMock(name=name)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of these names are stand-ins; without names, whatever is not found elsewhere."""

    def __init__(self, prefixes=None):
        self.prefixes = prefixes

    def find_spec(self, name, path=None, target=None):
        if self.prefixes is None or any(name == prefix or name.startswith(prefix + ".") for prefix in self.prefixes):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


@contextlib.contextmanager
def without(*prefixes):
    """Within, these modules are stand-ins, whether they are installed or not, and so is what is not installed."""
    named, absent = StandIns(prefixes), StandIns()
    sys.meta_path.insert(0, named)
    sys.meta_path.append(absent)
    try:
        yield
    finally:
        sys.meta_path.remove(named)
        sys.meta_path.remove(absent)


def package(name, *folders):
    """A package whose __init__ is not run, found in one of the folders or among what is installed."""
    places = [os.path.join(folder, name) for folder in folders if folder] + [os.path.join(p, name) for p in sys.path]
    place = next((p for p in places if os.path.isdir(p)), None)
    if place is None:
        raise Missing("%s is not installed or fetched" % name)
    module = types.ModuleType(name)
    module.__path__ = [place]
    sys.modules[name] = module
    return place


# ---- random patterns that a format can say --------------------------------------------------------------------------

def shape(rng, block, layers=1, heads=(2, 4, 8), grouped=True, causal=True):
    n = rng.choice(heads)
    kv = rng.choice([g for g in (1, 2, 4, 8) if n % g == 0]) if grouped else n
    return n, kv, "layers %d; heads %d; kv-heads %d; block %d; %s" % (
        layers, n, kv, block, "" if causal else "causal no; ")


def strided(rng, phase, block=None, homogeneous=0.2, every=True):
    """The family of Phi-3-small and DKernel: a window and a stride whose phase steps over heads."""
    layers = rng.choice((1, 2, 4)) if every else 1
    n, kv, text = shape(rng, block or rng.choice((16, 32, 64)), layers)
    stride = rng.randint(2, 12)
    step = 0 if rng.random() < homogeneous else max(1, stride // n)
    text += "layers all: local %d | stride %d phase %s" % (rng.randint(1, 4), stride, phase(step, stride, kv < n))
    if layers > 1 and rng.random() < 0.5:
        every = rng.choice([e for e in (2, 4) if layers % e == 0])
        text += "; layers %d::%d: dense" % (every - 1, every)
    return text


def query_phase(step, stride, grouped):
    return "head*%d+1" % step if step else "1"


def dkernel_phase(rng):
    def phase(step, stride, grouped):
        offset = rng.randrange(stride)
        return "%s*%d+%d" % ("kv" if grouped else "head", step, offset) if step else "%d" % offset
    return phase


def with_dense_heads(rng, text):
    kv = int(re.search(r"kv-heads (\d+)", text).group(1))
    if kv > 1 and rng.random() < 0.3 and "phase kv*" in text:
        text += "; kv %d: dense" % (kv - 1)
    return text


def term(rng, tokens, diagonal):
    """One static term, in whole blocks unless tokens are wanted too."""
    n = lambda most: "%d" % rng.randint(1, most) if not tokens or rng.random() < 0.5 else "%dt" % rng.randint(1, 90)
    kind = rng.choice(("local", "sink", "stride", "columns", "rows", "chunk", "dilated"))
    stride = rng.randint(2, 5)
    return {"local": "local " + n(3), "sink": "sink " + n(2), "chunk": "chunk " + n(4),
            "columns": "columns %d" % rng.randrange(6), "rows": "rows %d::3" % rng.randrange(6),
            "stride": "stride %d phase %s" % (stride, rng.choice(("0", "head", "head+1", "layer"))),
            "dilated": "dilated %d phase %s" % (stride, rng.choice(("0", "head")))}[kind]


def free(rng, block, tokens=False, diagonal=False, layers=2, grouped=True, causal=True):
    """Terms of all kinds, other ones for some heads and layers; diagonal: every row reads its own block."""
    n, _, text = shape(rng, block, rng.randint(1, layers), grouped=grouped, causal=causal)
    n_layers = int(re.search(r"layers (\d+)", text).group(1))

    def body():
        own = ["local 1"] if diagonal else []
        return " | ".join(own + [term(rng, tokens, diagonal) for _ in range(rng.randint(1, 3))])
    text += "layers all: " + body()
    if rng.random() < 0.6:
        text += "; heads %d: %s" % (rng.randrange(n), rng.choice((body(), "dense")))
    if n_layers > 1 and rng.random() < 0.5:
        text += "; layers %d: %s" % (n_layers - 1, body())
    return text


def streaming(rng):
    """DuoAttention: KV heads that are dense, or keep the same sinks and recent tokens."""
    layers = rng.randint(1, 3)
    n, kv, text = shape(rng, 64, layers)
    text += "layers all: sink %dt | local %dt" % (rng.choice((4, 16, 64)), rng.choice((32, 100, 256)))
    for layer in range(layers):
        for g in range(kv):
            if rng.random() < 0.5:
                text += "; layers %d kv %d: dense" % (layer, g)
    return text


def deepspeed_fixed(rng):
    n, _, text = shape(rng, rng.choice((16, 32)), grouped=False)
    local = rng.choice((2, 4, 8))
    width = rng.choice([w for w in (1, 2, 4) if local % w == 0 and w < local] or [1])
    kinds = rng.choice([k for k in (1, 2, 4) if k <= local // width and n % k == 0])
    if rng.random() < 0.2:
        return text + "layers all: chunk %d" % local
    phase = "head*%d+%d" % (width, width) if kinds > 1 else "%d" % width
    return text + "layers all: chunk %d | stride %d%s phase %s" % (
        local, local, " width %d" % width if width > 1 else "", phase)


# ---- consumers ------------------------------------------------------------------------------------------------------

class Consumer:
    """One format and one reader of it. load() imports the reader, reads() runs it on an export."""
    format, length, options = None, 256, ()
    lossy = False

    def load(self, sources):
        raise NotImplementedError

    def pattern(self, rng):
        raise NotImplementedError

    def reads(self, out, facts):
        """layer -> bool array of heads, queries, keys."""
        raise NotImplementedError


def manifest(out, name):
    with open(os.path.join(out, name)) as f:
        return json.load(f)


def by_layer(found):
    return {layer: layout for layout in found["layouts"] for layer in layout["layers"]}


def array(out, name):
    return torch.from_numpy(numpy.load(os.path.join(out, name)))


def in_tokens(blocks, block, causal):
    """Blocks as pairs of tokens: what a kernel that walks lists of blocks reads."""
    mask = numpy.kron(numpy.asarray(blocks, dtype=bool), numpy.ones((block, block), dtype=bool))
    return numpy.tril(mask) if causal else mask


def own_module(out, name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(out, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class VllmParams(Consumer):
    """vLLM's reference mask of BlocksparseParams (vllm.attention.ops.blocksparse_attention.utils)."""
    format, who = "vllm", "vLLM, blocksparse_attention/utils.py"

    def load(self, sources):
        place = package("vllm", os.path.join(sources, "vllm"))
        path = os.path.join(place, "attention/ops/blocksparse_attention/utils.py")
        if not os.path.exists(path):
            raise Missing("this vLLM has no block-sparse attention; 0.6.3 has")
        with without("vllm"):
            import triton
            sys.modules["vllm.triton_utils"] = types.SimpleNamespace(triton=triton)
            spec = importlib.util.spec_from_file_location("s2_vllm_blocksparse", path)
            self.code = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self.code)

    def pattern(self, rng):
        return strided(rng, query_phase)

    def masks(self, args, n_layers, every):
        mask = self.code.get_sparse_attn_mask(
            args["num_heads"], self.length, self.length, torch.float32, "cpu", args["block_size"],
            args["local_blocks"], args["vert_stride"], args["homo_head"], True)[2].bool().numpy()
        dense = numpy.broadcast_to(numpy.tri(self.length, dtype=bool), mask.shape)
        return {layer: dense if every and (layer + 1) % every == 0 else mask for layer in range(n_layers)}

    def reads(self, out, facts):
        found = manifest(out, "blocksparse_params.json")
        model = found["model"]
        return self.masks(found["blocksparse_params"], model["num_hidden_layers"],
                          model["dense_attention_every_n_layers"])


class Phi3Small(VllmParams):
    """vLLM's model of Phi-3-small: its attention layers take the config, and say what they give the kernel."""
    format, who = "hf", "vLLM, models/phi3_small.py"

    def load(self, sources):
        super().load(sources)
        importlib.import_module("transformers")
        path = os.path.join(sys.modules["vllm"].__path__[0], "model_executor/models/phi3_small.py")
        with without("vllm"):
            for name in [m for m in sys.modules if m.startswith("vllm")]:
                del sys.modules[name]
            spec = importlib.util.spec_from_file_location("vllm.model_executor.models.phi3_small", path)
            self.model = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self.model)
        self.model.get_tensor_model_parallel_world_size = lambda: 1
        self.model.get_rope = lambda *a, **k: None
        for name in ("QKVParallelLinear", "RowParallelLinear"):
            setattr(self.model, name, lambda *a, **k: torch.nn.Identity())

    def reads(self, out, facts):
        config = types.SimpleNamespace(**{
            "rope_embedding_base": 10000.0, "rope_position_scale": 1.0, "rope_scaling": None, "mup_attn_multiplier": 1.0,
            "mup_use_scaling": False, "max_position_embeddings": self.length, **manifest(out, "config.json")})
        config.hidden_size = config.num_attention_heads * config.head_dim  # the model's own, which no export states
        found = {}
        for layer in range(config.num_hidden_layers):
            given = {}
            self.model.Attention = lambda *a, **k: given.update(k) or torch.nn.Identity()
            self.model.Phi3SmallSelfAttention(config, layer)
            args = given.get("blocksparse_params")
            if args is None:
                found[layer] = numpy.broadcast_to(numpy.tri(self.length, dtype=bool),
                                                  (config.num_attention_heads, self.length, self.length))
            else:
                found[layer] = self.masks(args, 1, None)[0]
        return found


class TensorRt(Consumer):
    """TensorRT-LLM's own computeMask, cut out of gptKernels.h and compiled for the host."""
    format, who = "trtllm", "TensorRT-LLM, kernels/gptKernels.h"

    def load(self, sources):
        path = os.path.join(sources, "TensorRT-LLM/cpp/tensorrt_llm/kernels/gptKernels.h")
        if not os.path.exists(path):
            raise Missing("TensorRT-LLM's sources are not fetched")
        with open(path) as f:
            body = re.search(r"^struct BlockSparseParams\n\{.*?^\};", f.read(), re.S | re.M).group(0)
        self.dir = tempfile.mkdtemp(prefix="s2-consumers-")
        self.program = os.path.join(self.dir, "mask")
        with open(self.program + ".cpp", "w") as f:
            f.write("#include <algorithm>\n#include <cstdio>\n#include <cstdlib>\n#include <tuple>\n#define __device__\n"
                    + body + """
int main(int, char **argv)
{
    BlockSparseParams params;
    params.block_size = atoi(argv[1]), params.homo_head_pattern = atoi(argv[2]);
    params.num_local_blocks = atoi(argv[3]), params.vertical_stride = atoi(argv[4]);
    const int heads = atoi(argv[5]), n = atoi(argv[6]);
    for (int h = 0; h < heads; h++)
        for (int q = 0; q < n; q++)
            for (int k = 0; k < n; k++)
                putchar(params.computeMask(q, k, n, heads, h));
}
""")
        subprocess.run(["c++", "-std=c++17", "-O1", "-o", self.program, self.program + ".cpp"], check=True)

    def pattern(self, rng):
        return strided(rng, query_phase)

    def reads(self, out, facts):
        found = manifest(out, "block_sparse_params.json")
        args, model = found["block_sparse_params"], found["model"]
        heads, every = model["num_attention_heads"], model["dense_attention_every_n_layers"]
        data = subprocess.run([self.program] + [str(int(args[key])) for key in (
            "block_size", "homo_head_pattern", "num_local_blocks", "vertical_stride")] + [str(heads), str(self.length)],
            stdout=subprocess.PIPE, check=True).stdout
        mask = numpy.frombuffer(data, dtype=numpy.uint8).reshape(heads, self.length, self.length).astype(bool)
        dense = numpy.broadcast_to(numpy.tri(self.length, dtype=bool), mask.shape)
        return {layer: dense if every and (layer + 1) % every == 0 else mask
                for layer in range(model["num_hidden_layers"])}


class DKernel(Consumer):
    """DKernel's LocalStrideSparseAttention: the layout it builds from its arguments."""
    format, who = "dkernel", "DKernel, interface.py"

    def load(self, sources):
        package("dkernel", os.path.join(sources, "dkernel"))
        with without("dkernel.ops"):
            self.code = importlib.import_module("dkernel.interface")
        self.utils = sys.modules["dkernel.utils"]

    def pattern(self, rng):
        return with_dense_heads(rng, strided(rng, dkernel_phase(rng)))

    def layout(self, pattern, block):
        """The blocks that a layer of theirs hands its kernels, in tokens."""
        layer = self.code.SparseAttention(block, pattern, block_m=block, block_n=block)
        heads, blocks = layer.layout_csr_crow.shape[0], layer.layout_csr_crow.shape[1] - 1
        dense = torch.zeros(heads, blocks, blocks, dtype=torch.int32)
        read = self.utils.crow_col_to_dense(layer.layout_csr_crow, layer.layout_csr_col)
        dense[:, :, :read.shape[2]] = read
        return in_tokens(dense, block, True)

    def stride_masks(self, args, model, every):
        heads, block = args["num_heads"], args["block_size"]
        theirs = self.code.LocalStrideSparseAttention(**args, block_m=block, block_n=block)
        read = self.utils.crow_col_to_dense(theirs.layout_csr_crow, theirs.layout_csr_col)
        mask = in_tokens(read, block, True)
        mask = numpy.broadcast_to(mask, (heads,) + mask.shape[1:])[:, :self.length, :self.length]
        dense = numpy.broadcast_to(numpy.tri(self.length, dtype=bool), mask.shape)
        return {layer: dense if every and (layer + 1) % every == 0 else mask for layer in range(model)}

    def reads(self, out, facts):
        found = manifest(out, "dkernel.json")
        return self.stride_masks(found["LocalStrideSparseAttention"], found["model"]["num_hidden_layers"],
                                 found["model"]["dense_attention_every_n_layers"])


class Megatron(DKernel):
    """The same class with the arguments that its Megatron hook takes from the command line."""
    format, who = "megatron", "DKernel, interface.py, called as its Megatron hook calls it"

    def pattern(self, rng):
        return with_dense_heads(rng, strided(rng, dkernel_phase(rng), every=False))

    def reads(self, out, facts):
        with open(os.path.join(out, "megatron-args.txt")) as f:
            words = f.read().split()
        parser = argparse.ArgumentParser()
        for name in ("num-layers", "num-attention-heads", "num-query-groups", "kv-channels", "seq-length",
                     "sparse-block-size", "sparse-local-blocks", "sparse-vertical-stride", "sparse-num-dense-heads",
                     "sparse-head-sliding-offset"):
            parser.add_argument("--" + name, type=int, required=True)
        parser.add_argument("--sparse-homo-head", action="store_true")
        given = parser.parse_args(words)
        return self.stride_masks(dict(
            num_heads=given.num_attention_heads, max_seq_len=given.seq_length, block_size=given.sparse_block_size,
            local_blocks=given.sparse_local_blocks, vert_stride=given.sparse_vertical_stride,
            homo_head=given.sparse_homo_head, num_dense_heads=given.sparse_num_dense_heads,
            num_kv_heads=None if given.sparse_homo_head else given.num_query_groups,
            head_sliding_offset=given.sparse_head_sliding_offset), given.num_layers, None)


class Csr(DKernel):
    """DKernel's reader of crow and col, and its SparseAttention on what it reads."""
    format, who = "csr", "DKernel, utils.py and interface.py"

    def pattern(self, rng):
        return free(rng, rng.choice((16, 32)), diagonal=True)

    def reads(self, out, facts):
        found = manifest(out, "layout.json")
        masks = {}
        for layer, layout in by_layer(found).items():
            read = self.utils.crow_col_to_dense(array(out, layout["crow"]), array(out, layout["col"]))
            masks[layer] = self.layout(read, found["block_size"])
        return masks


class Npy(DKernel):
    """An array of blocks is what DKernel's SparseAttention takes."""
    format, who, length = "npy", "numpy.load and DKernel, interface.py", 512

    def pattern(self, rng):
        return free(rng, 64, diagonal=True, layers=1, grouped=False)

    def reads(self, out, facts):
        name = next(n for n in os.listdir(out) if n.endswith(".npy"))
        return {0: self.layout(array(out, name), facts["block"])}


class Flex(Consumer):
    """torch's BlockMask, from the module that was written: its blocks, and its mask_mod in the partial ones."""
    format, who, options = "flex", "torch.nn.attention.flex_attention", ("--set", "block=32")

    def load(self, sources):
        self.code = importlib.import_module("torch.nn.attention.flex_attention")

    def pattern(self, rng):
        return free(rng, rng.choice((16, 32)), tokens=True, causal=rng.random() < 0.8)

    def reads(self, out, facts):
        module, masks = own_module(out, "flex_mask"), {}
        for layer in range(module.N_LAYERS):
            theirs = module.block_mask(layer, device="cpu")
            mod = self.code.create_mask(theirs.mask_mod, 1, module.N_HEADS, module.LEN, module.LEN, device="cpu")[0].numpy()
            whole = self.code.BlockMask.from_kv_blocks(
                theirs.full_kv_num_blocks, theirs.full_kv_indices, BLOCK_SIZE=module.BLOCK).to_dense()[0]
            listed = theirs.to_dense()[0]
            masks[layer] = (in_tokens(whole, module.BLOCK, False) |
                            (in_tokens(listed, module.BLOCK, False) & mod))[:, :module.LEN, :module.LEN]
        return masks


class OnCard(torch.Tensor):
    """A tensor of the host that says it lies on the card, for checks that ask."""
    is_cuda = property(lambda self: True)


class Cute(Consumer):
    """FlashAttention CuTe: its checks of the tensors, and its own reading of count and index."""
    format, who, length, options = "cute", "flash-attn-4, cute/block_sparsity.py", 512, ("--set", "block=128")

    def load(self, sources):
        place = package("flash_attn", sources)
        sys.modules["flash_attn.cute"] = types.ModuleType("flash_attn.cute")
        sys.modules["flash_attn.cute"].__path__ = [os.path.join(place, "cute")]
        with without("cutlass", "cuda", "quack", "flash_attn.cute.cute_dsl_utils"):
            self.code = importlib.import_module("flash_attn.cute.block_sparsity")
        self.code.get_broadcast_dims = lambda tensor: ()

    def pattern(self, rng):
        return free(rng, rng.choice((32, 64)), tokens=True, causal=rng.random() < 0.8)

    def reads(self, out, facts):
        found, module, masks = manifest(out, "cute.json"), own_module(out, "cute_mask"), {}
        heads, size, n = found["num_attention_heads"], found["block_size"], self.length
        q, k = numpy.arange(n)[:, None], numpy.arange(n)[None]
        for layer, layout in by_layer(found).items():
            names = ("mask_block_cnt", "mask_block_idx", "full_block_cnt", "full_block_idx")
            given = self.code.BlockSparseTensorsTorch(
                **{name: array(out, layout[name]).as_subclass(OnCard) for name in names}, block_size=(size, size))
            theirs = self.code.normalize_block_sparse_config(
                given, batch_size=1, num_head=heads, seqlen_q=n, seqlen_k=n, block_size=(size, size), q_stage=1).tensors
            mod = module.make_mask_mod(layer)
            masks[layer] = numpy.stack([
                in_tokens(self.dense(theirs.full_block_cnt, theirs.full_block_idx, h), size, False) |
                (in_tokens(self.dense(theirs.mask_block_cnt, theirs.mask_block_idx, h), size, False) & mod(0, h, q, k))
                for h in range(heads)])
        return masks

    def dense(self, count, index, head):
        count, index = count.as_subclass(torch.Tensor)[0, head], index.as_subclass(torch.Tensor)[0, head]
        n = self.length // 128
        mask = numpy.zeros((n, n), dtype=bool)
        for row in range(n):
            mask[row, index[row, :count[row]].numpy()] = True
        return mask


class BlockSparseAttention(Consumer):
    """Block-Sparse-Attention's wrapper: it numbers the heads and lists the blocks that its kernel gets."""
    format, who, length = "bsa", "Block-Sparse-Attention, block_sparse_attn_interface.py", 1024

    def load(self, sources):
        package("block_sparse_attn", os.path.join(sources, "Block-Sparse-Attention"))
        with without("block_sparse_attn_cuda"):
            self.code = importlib.import_module("block_sparse_attn.block_sparse_attn_interface")
        self.code._wrapped_block_sparse_attn_forward = self.kernel

    def kernel(self, q, k, v, cu_q, cu_k, m, n, types_of, streaming, lists, *rest, **more):
        self.given = types_of, lists
        return q, None, None, None

    def pattern(self, rng):
        return free(rng, 128, diagonal=rng.random() < 0.5)

    def reads(self, out, facts):
        found, n, masks = manifest(out, "block-sparse-attention.json"), self.length, {}
        heads, ends = found["num_attention_heads"], torch.tensor([0, n], dtype=torch.int32)
        zeros = torch.zeros(n, heads, 8)
        for layer, layout in by_layer(found).items():
            self.code.block_sparse_attn_func(
                zeros, zeros, zeros, ends, ends, array(out, layout["head_mask_type"]), array(out, layout["streaming_info"]),
                array(out, layout["base_blockmask"]), n, n, 0.0, is_causal=found["causal"])
            kinds, lists = self.given
            blocks = numpy.ones((heads, n // 128, n // 128), dtype=bool)
            for h in range(heads):
                for row in range(n // 128) if kinds[h] > 0 else ():
                    keys = lists[0, kinds[h] - 1, row].numpy()
                    blocks[h, row] = numpy.isin(numpy.arange(n // 128), keys[keys >= 0])
            masks[layer] = in_tokens(blocks, 128, found["causal"])
        return masks


class FlashInfer(Consumer):
    """FlashInfer's wrapper: what it plans. Its kernel counts causality among the listed keys of a row, restated here."""
    format, who = "flashinfer", "flashinfer-python, sparse.py (its kernel's causal edge is restated)"

    def load(self, sources):
        package("flashinfer", sources)
        with without("cutlass", "cuda", "flashinfer.jit", "flashinfer.decode", "flashinfer.prefill", "flashinfer.trace",
                     "flashinfer.cute_dsl", "flashinfer.quantization", "flashinfer.cutile", "flashinfer.page"):
            sys.modules["flashinfer.api_logging"] = StandIn("flashinfer.api_logging")
            sys.modules["flashinfer.api_logging"].flashinfer_api = lambda *a, **k: a[0] if a and callable(a[0]) else (
                lambda function: function)
            self.code = importlib.import_module("flashinfer.sparse")
        recorder = types.SimpleNamespace(plan=self.kernel)
        self.code.get_batch_prefill_module = self.code.get_batch_decode_module = lambda *a: recorder

    def kernel(self, *args):
        self.planned = args

    def pattern(self, rng):
        return free(rng, rng.choice((16, 32)), diagonal=True, causal=rng.random() < 0.8)

    def reads(self, out, facts):
        found = manifest(out, "flashinfer.json")
        heads, size, n = found["num_attention_heads"], found["R"], self.length
        layers = by_layer(found)
        classes = {c: layout["layers"] for c, layout in enumerate(found["layouts"])}
        masks = {layer: numpy.zeros((heads, n, n), dtype=bool) for layer in layers}
        for plan in found["plans"]:
            mask = self.planned_mask(array(out, plan["indptr"]), array(out, plan["indices"]), size, n, found["causal"])
            for c, h in plan["heads"]:
                for layer in classes[c]:
                    masks[layer][h] = mask
        return masks

    def planned_mask(self, indptr, indices, size, n, causal):
        wrapper = self.code.BlockSparseAttentionWrapper.__new__(self.code.BlockSparseAttentionWrapper)
        with unittest.mock.patch.object(torch, "empty", lambda *a, **k: torch.zeros(*a, **{
                key: value for key, value in k.items() if key != "pin_memory"})):
            wrapper.__init__(torch.zeros(1024, dtype=torch.uint8), backend="fa2")
        wrapper.plan(indptr, indices, n, n, size, size, 8, 8, 64, causal=causal)
        begin, keys = wrapper._paged_kv_indptr_buf.tolist(), wrapper._paged_kv_indices_buf.tolist()
        is_causal = wrapper._mask_mode == self.code.MaskMode.CAUSAL.value
        mask = numpy.zeros((n, n), dtype=bool)
        for row in range(n // size):
            listed = keys[begin[row]:begin[row + 1]]
            tokens = [block * size + t for block in listed for t in range(size)]
            for q in range(size):
                last = len(tokens) - size + q if is_causal else len(tokens) - 1
                mask[row * size + q, tokens[:last + 1]] = True
        return mask


class DuoAttention(Consumer):
    """DuoAttention's loader, its choice of heads with its noise, and its reference mask of a streaming head."""
    format, who = "duo", "DuoAttention, utils.py and patch/streaming_attn.py"

    def load(self, sources):
        package("duo_attn", os.path.join(sources, "duo-attention"))
        with without("accelerate", "matplotlib", "tensor_parallel", "xformers", "flash_attn", "flashinfer", "transformers",
                     "block_sparse_attn", "duo_attn.patch"):
            self.code = importlib.import_module("duo_attn.utils")
            path = os.path.join(sys.modules["duo_attn"].__path__[0], "patch/streaming_attn.py")
            spec = importlib.util.spec_from_file_location("s2_duo_streaming", path)
            self.mask = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self.mask)

    def pattern(self, rng):
        return streaming(rng)

    def reads(self, out, facts):
        config, n = manifest(out, "config.json"), self.length
        scores, sink, recent = self.code.load_attn_pattern(out)
        full, _ = self.code.sparsify_attention_heads(numpy.atleast_2d(scores).reshape(facts["layers"], -1),
                                                     sparsity=config["sparsity"])
        window = self.mask.generate_streaming_mask(n, sink, recent, "cpu")[0, 0].numpy()
        group = facts["heads"] // full.shape[1]
        return {layer: numpy.stack([numpy.tri(n, dtype=bool) if full[layer, h // group] else window
                                    for h in range(facts["heads"])]) for layer in range(facts["layers"])}


class DeepSpeed(Consumer):
    """DeepSpeed's SparsityConfig classes: their layout. Causality inside a block is the caller's mask there."""
    format, who = "deepspeed", "deepspeed, ops/sparse_attention/sparsity_config.py"

    def load(self, sources):
        place = package("deepspeed", os.path.join(sources, "deepspeed"))
        path = os.path.join(place, "ops/sparse_attention/sparsity_config.py")
        if not os.path.exists(path):
            raise Missing("this deepspeed has no sparse attention; 0.14.5 has")
        spec = importlib.util.spec_from_file_location("s2_deepspeed_sparsity", path)
        self.code = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.code)

    def pattern(self, rng):
        return deepspeed_fixed(rng)

    def reads(self, out, facts):
        args = dict(manifest(out, "deepspeed.json")["sparse_attention"])
        kind = {"fixed": "FixedSparsityConfig", "variable": "VariableSparsityConfig"}[args.pop("mode")]
        layout = getattr(self.code, kind)(num_heads=facts["heads"], **args).make_layout(self.length)
        mask = in_tokens(layout, args["block"], args["attention"] == "unidirectional")
        return {layer: mask for layer in range(facts["layers"])}


class Header(Consumer):
    """The C compiler and docs/examples/count_pairs.c: pairs are counted, not listed."""
    format, who = "c", "the C compiler and docs/examples/count_pairs.c"
    counts = True

    def load(self, sources):
        self.example = os.path.join(os.path.dirname(__file__), "../../docs/examples/count_pairs.c")

    def pattern(self, rng):
        return free(rng, rng.choice((16, 32)), tokens=True)

    def reads(self, out, facts):
        program = os.path.join(out, "count")
        subprocess.run(["cc", "-O1", "-I", out, "-o", program, self.example], check=True)
        done = subprocess.run([program], stdout=subprocess.PIPE)
        assert done.returncode == 0, "count_pairs: exit %d" % done.returncode
        pairs = dict(re.findall(r"^plan (\d+): .* (\d+) pairs", done.stdout.decode(), re.M))
        with open(os.path.join(out, "pattern.h")) as f:
            plan_of = re.search(r"s2_plan_of\[\d+\] = \{([^}]*)\}", f.read()).group(1)
        return {layer: int(pairs[plan.strip()]) for layer, plan in enumerate(plan_of.split(",")) if plan.strip()}


class Layers(Consumer):
    """Models of transformers, built tiny from the config that was written (truth.py)."""
    format, who, length = "layers", "transformers", 24
    TYPES = ("gemma2", "gemma3_text", "gpt_oss", "qwen2", "qwen3", "olmo3", "smollm3", "cohere2", "exaone4", "llama4_text",
             "mistral", "llama", "granite")

    def load(self, sources):
        try:
            self.truth = importlib.import_module("truth")
        except SystemExit:
            raise Missing("transformers is not installed")

    def pattern(self, rng):
        kind, layers = rng.choice(self.TYPES), rng.choice((2, 4, 6))
        self.options = ("--set", "model=" + kind)
        window = "local %dt" % rng.randint(2, 12) if kind != "llama4_text" else "chunk 8t"
        text = "layers %d; heads 4; kv-heads %d; head-dim 8; block 1; " % (layers, rng.choice((1, 2, 4)))
        if kind in ("llama", "granite"):
            return text + "layers all: dense"
        if kind == "mistral":
            return text + "layers all: " + rng.choice(("dense", window))
        return text + "layers all: dense; " + "".join(
            "layers %d: %s; " % (layer, window) for layer in range(layers) if rng.random() < 0.6)

    def reads(self, out, facts):
        truth, written = self.truth, manifest(out, "config.json")
        kind = written["model_type"]
        base = truth.shrink(truth.AutoConfig.for_model(kind).to_dict(), facts["layers"])
        base = truth.set_deep(base, **truth.REPAIRS.get(kind, {}))
        base.pop("layer_types", None)
        base.update({k: v for k, v in written.items() if k != "s2"}, hidden_size=facts["heads"] * 8)
        records, why = truth.run_model(truth.build(base, kind))
        assert records, why
        return {layer: record[0].astype(bool) for layer, record in records.items()}


CONSUMERS = (Phi3Small, VllmParams, TensorRt, DKernel, Megatron, Csr, Npy, Flex, Cute, BlockSparseAttention, FlashInfer,
             DuoAttention, DeepSpeed, Header, Layers)
NOT_RUN = {"minference": "its patterns become masks inside GPU kernels only"}


# ---- the comparison -------------------------------------------------------------------------------------------------

class Bench:
    def __init__(self, program):
        self.program, self.dir = program, tempfile.mkdtemp(prefix="s2-consumers-")

    def export(self, text, consumer, n):
        out = os.path.join(self.dir, "%s-%d" % (consumer.format, n))
        os.makedirs(out)
        target = os.path.join(out, "mask.npy") if consumer.format == "npy" else out
        target = os.path.join(out, "pattern.h") if consumer.format == "c" else target
        done = subprocess.run([self.program, "export", text, "--no-db", "--to", consumer.format, "--len",
                               str(consumer.length), "--force", "-o", target] + list(consumer.options),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode not in (0, 1):
            raise AssertionError("s2 export: exit %d: %s" % (done.returncode, done.stderr.decode()[:200]))
        return out if done.returncode == 0 else None

    def mask(self, text, layer, length):
        out = os.path.join(self.dir, "mask.npy")
        subprocess.run([self.program, "mask", text, "--len", str(length), "--layer", str(layer), "--tokens", "--format",
                        "npy", "-o", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return numpy.load(out)


def facts_of(text):
    return {word.replace("-", "_"): int(re.search(r"(?:^|[; ])%s (\d+)" % word, text).group(1))
            for word in ("layers", "heads", "block")}


def judge(bench, consumer, text, n):
    """('equal' | 'refused' | 'rejected' | 'different', what)"""
    out = bench.export(text, consumer, n)
    if out is None:
        return "refused", ""
    facts = facts_of(text)
    try:
        read = consumer.reads(out, facts)
    except Exception as why:  # an assertion of theirs, or whatever else their code does with our file
        return "rejected", "%s: %s" % (type(why).__name__, str(why).split("\n")[0][:160])
    for layer in range(facts["layers"]):
        want = bench.mask(text, layer, consumer.length)
        if getattr(consumer, "counts", False):
            if read[layer] != int(want.sum()):
                return "different", "layer %d: %d pairs, not %d" % (layer, read[layer], want.sum())
        elif read[layer].shape != want.shape or (read[layer] != want).any():
            return "different", first_difference(layer, read[layer], want)
    return "equal", ""


def first_difference(layer, got, want):
    if got.shape != want.shape:
        return "layer %d: %s, not %s" % (layer, got.shape, want.shape)
    h, q, k = [int(x[0]) for x in numpy.nonzero(got != want)]
    return "layer %d head %d query %d key %d is %s" % (layer, h, q, k, "read" if got[h, q, k] else "not read")


def run(bench, consumer, args):
    """True unless the consumer disagrees or too few patterns could be said."""
    rng, count, n = random.Random(args.seed), {"equal": 0, "refused": 0}, 0
    while count["equal"] < args.patterns and n < 12 * args.patterns:
        text = consumer.pattern(rng)
        outcome, what = judge(bench, consumer, text, n)
        n += 1
        if outcome in ("rejected", "different"):
            print("%-11s %s: %s: %s\n    s2 export '%s' --to %s --len %d %s" % (
                consumer.format, outcome, consumer.who, what, text, consumer.format, consumer.length,
                " ".join(consumer.options)))
            return False
        count[outcome] += 1
    print("%-11s %d equal, %d refused by s2: %s" % (consumer.format, count["equal"], count["refused"], consumer.who),
          flush=True)
    return count["equal"] >= args.patterns


SKIPPED = 77


def attend(consumer, args):
    try:
        consumer.load(args.sources)
    except (Missing, ImportError, OSError) as why:
        print("%-11s skipped: %s" % (consumer.format, why), flush=True)
        return SKIPPED
    return 0 if run(Bench(args.program), consumer, args) else 1


def in_child(work):
    """work() in a process of its own: what one consumer's code imports or replaces is not seen by the next."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = work()
        except Exception as why:
            print("%s: %s" % (type(why).__name__, why))
        sys.stdout.flush()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    args = argparse.ArgumentParser()
    args.add_argument("program")
    args.add_argument("--sources", default="")
    args.add_argument("--formats")
    args.add_argument("--patterns", type=int, default=50)
    args.add_argument("--seed", type=int, default=1)
    args = args.parse_args()
    torch.set_num_threads(1)
    count = {0: 0, 1: 0, SKIPPED: 0}
    for kind in CONSUMERS:
        if not args.formats or kind.format in args.formats.split(","):
            count[in_child(lambda: attend(kind(), args))] += 1
    for name, why in NOT_RUN.items():
        print("%-11s not run: %s" % (name, why))
    print("%d consumers agree, %d do not, %d skipped" % (count[0], count[1], count[SKIPPED]))
    return 1 if count[1] else 0


if __name__ == "__main__":
    sys.exit(main())
