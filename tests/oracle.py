#!/usr/bin/env python3
"""What `s2 sim` says of weights, memory, caches, links, ranks, stages, replicas, times around attention, hybrids, latent attention,
known methods and mixes of requests, worked out anew from docs/simulator.md for models, designs and machines drawn at random: a
config of a size of its own, a pattern, a GPU, options.
usage: tests/oracle.py DIR_OF_PROGRAMS   S2_SEED, S2_CASES   last line: N held, N did not"""
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from functools import lru_cache

from tally import end, hold

PROGRAMS = os.path.abspath(sys.argv[1])
SEED, CASES = int(os.environ.get("S2_SEED", "20261130")), int(os.environ.get("S2_CASES", "40"))
GPUS = ("h200", "h200", "h100-sxm", "a100-80gb", "b200", "l40s", "a6000", "rtx4090")
SHARES = 4096  # tokens whose logits the loss makes at a time


def run(*words):
    """What a command ends with, prints and says."""
    done = subprocess.run([os.path.join(PROGRAMS, "s2"), *map(str, words), "--no-db"], capture_output=True, text=True, cwd=folder, timeout=900)
    return done.returncode, done.stdout, done.stderr


def near(what, said, own, digits=5):
    """Is what is said what was worked out, to as many digits as JSON has?"""
    hold(said is not None and abs(said - own) <= abs(own) * 0.6 * 10.0 ** -digits + 1e-9, f"{what}: s2 says {said}, it is {own}")


class Gpu:
    """The facts of a GPU's file that a price rests on."""

    def __init__(self, name):
        self.name = name
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"../sim/gpus/{name}.txt"), encoding="utf-8") as file:
            facts = dict(line.split("#")[0].split(None, 1) for line in file if line.split("#")[0].strip())
        self.memory = float(facts["hbm_gb"]) * 1e9
        self.sms, self.launch_us = int(facts["sms"]), float(facts["launch_us"])
        self.flops = {"bf16": float(facts["bf16_tflops"]) * 1e12, "fp8": float(facts.get("fp8_tflops", facts["bf16_tflops"])) * 1e12}
        self.bytes_us = float(facts["hbm_gb_s"]) * 1e3
        self.nvlink = float(facts.get("nvlink_gb_s", 0)) > 0
        self.link_us = float(facts["nvlink_gb_s"]) * 1e3 / 2 if self.nvlink else float(facts["pcie_gb_s"]) * 1e3
        self.pcie_us = float(facts["pcie_gb_s"]) * 1e3
        self.network_us = float(facts["network_gb_s"]) * 1e3 if "network_gb_s" in facts else None


class Model:
    """A config of a size of its own, and its matrices."""

    def __init__(self, rng, nth, lopsided=False):
        self.kind = rng.choice(["llama", "llama", "qwen2", "mixtral", "qwen3_moe", "qwen2_moe"]) if not lopsided else "qwen3_moe"
        self.layers = rng.choice([1, 2, 3, 4, 5, 7, 8] if not lopsided else [3, 5])
        self.kv = rng.choice([1, 2, 4, 8])
        self.heads = self.kv * rng.choice([1, 2, 4])
        self.dim = rng.choice([64, 128, 80])
        self.hidden, self.inner, self.words = 64 * rng.randint(4, 40), 64 * rng.randint(4, 80), 8 * rng.randint(100, 6000)
        self.tied = rng.random() < 0.3
        self.experts, self.picks, self.expert, self.shared = 0, 0, 0, 0
        config = {"model_type": self.kind, "hidden_size": self.hidden, "intermediate_size": self.inner, "num_hidden_layers": self.layers,
                  "num_attention_heads": self.heads, "num_key_value_heads": self.kv, "head_dim": self.dim, "vocab_size": self.words,
                  "tie_word_embeddings": self.tied, "hidden_act": "silu"}
        self.moe = set()
        if self.kind in ("mixtral", "qwen3_moe", "qwen2_moe"):
            self.experts, self.moe = rng.choice([4, 8, 16, 60 if self.kind == "qwen2_moe" else 32]), set(range(self.layers))
            self.picks, self.expert = rng.choice([1, 2, 4]), self.inner
            config["num_experts_per_tok"] = self.picks
        if self.kind == "mixtral":
            config["num_local_experts"] = self.experts
        elif self.moe:
            self.expert = 64 * rng.randint(1, 12)
            config |= {"num_experts": self.experts, "moe_intermediate_size": self.expert, "norm_topk_prob": True}
            step = rng.choice([1, 1, 2])
            plain = sorted(rng.sample(range(self.layers), rng.choice([0, 0, 1]) if self.layers > 1 else 0))
            if lopsided:  # the first of two stages has fewer layers, and all experts
                self.expert, self.experts, self.inner, self.words, step, plain = 2048, 32, 128, 800, 1, list(range(self.layers // 2, self.layers))
                config |= {"num_experts": 32, "moe_intermediate_size": 2048, "intermediate_size": 128, "vocab_size": 800}
            config |= {"decoder_sparse_step": step, "mlp_only_layers": plain}
            self.moe = {at for at in range(self.layers) if (at + 1) % step == 0 and at not in plain}
        if self.kind == "qwen2_moe":
            self.shared = 64 * rng.randint(1, 12)
            config["shared_expert_intermediate_size"] = self.shared
        if not self.moe:
            self.experts = 0
        self.path = os.path.join(folder, f"model{nth}.json")
        with open(self.path, "w") as file:
            json.dump(config, file)

    def attention(self, tp):
        """Matrices of attention of one of `tp` GPUs: as many heads each, and a KV head of more GPUs than there are is on several."""
        return self.hidden * self.dim * (2 * self.heads // tp + 2 * max(1, self.kv // tp))

    def feed_forward(self, layer, tp, ep, picked=None):
        """The same of a feed-forward layer; `picked`: of so many experts."""
        if layer not in self.moe:
            return 3 * self.hidden * self.inner / tp
        return 3 * self.hidden * (self.expert * (self.experts / ep if picked is None else picked) + self.shared) / tp

    def words_weights(self, tp):
        return self.words * self.hidden / tp

    def stage_ends(self, pp, stage):
        """Whether a stage has the embedding, and the head."""
        return stage == 0, stage == pp - 1


def draw_body(rng, block):
    """Terms, each as text and as (kind, number, unit, offset by head, by KV head, fixed)."""
    if rng.random() < 0.15:
        return [("dense", ("dense",))]
    terms, n = [], rng.randint(1, 24)
    terms.append((f"local {n}", ("local", n, block)) if rng.random() < 0.8 else (f"local {n * 37}t", ("local", n * 37, 1)))
    if rng.random() < 0.4:
        n = rng.randint(1, 3)
        terms.append((f"sink {n}", ("sink", n, block)) if rng.random() < 0.6 else (f"sink {n * 5}t", ("sink", n * 5, 1)))
    if rng.random() < 0.8:
        every, by, times, more = rng.randint(2, 16), rng.choice(["head", "kv", ""]), rng.choice([1, 1, 3]), rng.randint(0, 3)
        phase = "+".join([f"{by}*{times}"] * bool(by) + [str(more)])
        terms.append((f"stride {every} phase {phase}", ("stride", every, block, by, times, more)))
    return terms


class Design:
    """A pattern in the shape of a model: which rule each head of each layer has."""

    def __init__(self, rng, model, alone=False):
        self.model, self.block = model, rng.choice([16, 32, 64, 64, 64, 128])
        self.layers = 1 if not alone and rng.random() < 0.2 else model.layers
        bodies = [("all", lambda layer, head: True, draw_body(rng, self.block))]
        if rng.random() < 0.4 and self.layers > 1:
            first = rng.randrange(self.layers)
            bodies.append((f"layers {first}::2", lambda layer, head: layer >= first and (layer - first) % 2 == 0, draw_body(rng, self.block)))
        if rng.random() < 0.3:
            kv = rng.randrange(model.kv)
            bodies.append((f"kv {kv}", lambda layer, head: head // (model.heads // model.kv) == kv, draw_body(rng, self.block)))
        self.bodies = bodies
        self.text = self.shape() + "; " + "; ".join(f"{where}: " + " | ".join(term[0] for term in terms) for where, _, terms in bodies)

    def shape(self):
        return f"layers {self.layers}; heads {self.model.heads}; kv-heads {self.model.kv}; head-dim {self.model.dim}; block {self.block}"

    def rule(self, layer, head):
        """What a head reads, as something that can be compared: its terms with their offsets filled in."""
        terms = [terms for _, test, terms in self.bodies if test(layer, head)][-1]
        group = self.model.heads // self.model.kv
        return tuple((t[0], t[1], t[2], {"head": head, "kv": head // group, "": 0}[t[3]] * t[4] + t[5]) if t[0] == "stride" else t
                     for _, t in terms)

    def text_of(self, layers):
        """The pattern of some of its layers, as one of its own."""
        out = [f"layers {len(layers)}; " + self.shape().split("; ", 1)[1]]
        for where, test, terms in self.bodies:
            own = [str(at - layers[0]) for at in layers if not where.startswith("layers") or test(at, 0)]
            if own:
                out.append((f"layers {','.join(own)}" if where.startswith("layers") else where) + ": " + " | ".join(term[0] for term in terms))
        return "; ".join(out)

    def layer_rules(self, layer):
        return [self.rule(layer if self.layers > 1 else 0, head) for head in range(self.model.heads)]


@lru_cache(maxsize=200000)
def stripes(block, every, offset, n):
    """Keys of every block whose number and offset are whole strides, as bits."""
    one, out = (1 << block) - 1, 0
    for j in range(-(-n // block)):
        if (j + offset) % every == 0:
            out |= one << j * block
    return out & (1 << n) - 1


@lru_cache(maxsize=200000)
def row(rule, block, q):
    """The keys that query q reads, as bits; for these terms also those that it or any later one reads of the keys up to q."""
    out, n = 0, q + 1
    for term in rule:
        if term[0] == "dense":
            out |= (1 << n) - 1
        elif term[0] == "local":
            first = max(0, (q // term[2] - term[1] + 1) * term[2])
            out |= (1 << n) - (1 << first)
        elif term[0] == "sink":
            out |= (1 << min(n, term[1] * term[2])) - 1
        else:
            out |= stripes(block, term[1], term[3], n)
    return out


@lru_cache(maxsize=200000)
def pages(keys, page, n):
    """How many pages of the tokens have one of these keys."""
    return sum(1 for at in range(0, n, page) if keys >> at & (1 << page) - 1)


class Machine:
    """How the GPUs of a price share its work."""

    def __init__(self, tp=1, pp=1, cp=1, ep=1, dp=1, micro=0, cut="contiguous", nodes=1):
        self.tp, self.pp, self.cp, self.ep, self.dp, self.micro, self.cut, self.nodes = tp, pp, cp, ep, dp, micro, cut, nodes

    def words(self):
        out = []
        for name, value in vars(self).items():
            out += [f"--{name}", value] if value not in ((0,) if name == "micro" else (1, "contiguous")) else []
        return out

    def kv_of(self, rank, model):
        """KV heads of a GPU, and its query heads."""
        heads = range(rank * model.heads // self.tp, (rank + 1) * model.heads // self.tp)
        group = model.heads // model.kv
        return {kv: [h for h in heads if h // group == kv] for kv in sorted({h // group for h in heads})}


def cache(design, machine, n, page, whole=1):
    """Bytes of one sequence, of elements of `whole` bytes: for each stage of layers and GPU, and in all: of dense pages, shared pages, head pages, used."""
    model, out = design.model, {}
    for layer in range(model.layers if design.layers > 1 else 1):
        rules = design.layer_rules(layer)
        for rank in range(machine.tp):
            kept = [0] * len(machine.kv_of(rank, model))
            for at, heads in enumerate(machine.kv_of(rank, model).values()):
                for head in heads:
                    kept[at] |= row(rules[head], design.block, n - 1)
            all_of = 0
            for keys in kept:
                all_of |= keys
            each = 2 * model.dim * whole
            out[layer, rank] = {"dense": -(-n // page) * page * len(kept) * each, "shared_pages": pages(all_of, page, n) * page * len(kept) * each,
                                "head_pages": sum(pages(keys, page, n) for keys in kept) * page * each, "used": sum(keys.bit_count() for keys in kept) * each}
    if design.layers == 1:
        out = {(layer, rank): out[0, rank] for layer in range(model.layers) for rank in range(machine.tp)}
    return out


@lru_cache(maxsize=None)
def largest(n, trials, chance):
    """The expected largest of n independent counts of so many trials, each of which succeeds by this chance."""
    if n == 1 or chance > 1 - 1e-9:
        return trials * chance
    mean, n_trials = trials * chance, int(trials)
    first = max(0, int(mean - 7 * math.sqrt(mean)))  # fewer come next to never
    own = math.exp(math.lgamma(n_trials + 1) - math.lgamma(first + 1) - math.lgamma(n_trials - first + 1)
                   + first * math.log(chance) + (n_trials - first) * math.log1p(-chance))
    below, out = own, first + 1 - own ** n
    for x in range(first + 1, n_trials + 1):
        own *= (n_trials - x + 1) / x * chance / (1 - chance)
        below += own
        out += 1 - min(below, 1) ** n
        if x > mean and own < 1e-12:
            break
    return out


class Case:
    """One question, s2's answer to it, and what both share."""

    def __init__(self, rng, nth, phase, lopsided=False):
        self.model, self.phase = Model(rng, nth, lopsided), phase
        self.design, self.gpu = Design(rng, self.model, lopsided), Gpu(rng.choice(GPUS))
        self.n, self.batch = rng.choice([1, 100, 1000, 2048, 4096, 5000]), rng.choice([1, 1, 2, 3, 4, 8, 16])
        self.dtype, self.weights, self.kv_type, self.fusion = rng.choice(["bf16", "bf16", "fp16", "fp8"]), "as-dtype", "as-dtype", rng.choice(["fused", "fused", "eager"])
        self.page = rng.choice([16, 16, 16, 32, 64, 256])
        self.util = rng.choice([1, 1, 1, 0.9])
        self.recompute, self.new, self.bounds = False, 0, self.n > 2048 or rng.random() < 0.7  # a bound is there at once
        self.draw_machine(rng)
        if lopsided:
            self.machine = Machine(pp=2)
        if phase == "train":
            self.recompute, self.util = rng.random() < 0.5, self.util
            self.weights = rng.choice(["as-dtype", "as-dtype", "fp8"])
        else:
            self.weights = rng.choice(["as-dtype", "as-dtype", "fp8", "int8", "int4", "mxfp4"])
            self.kv_type = rng.choice(["as-dtype", "as-dtype", "bf16", "e4m3", "int8"])
        if phase == "prefill" and self.machine.cp == 1 and self.n > 100 and rng.random() < 0.3:
            self.new = rng.randint(1, self.n)
        if phase == "decode" and self.n > 100 and rng.random() < 0.2:
            self.new = rng.choice([2, 4, 16])

    def draw_machine(self, rng):
        model = self.model
        tp = rng.choice([t for t in (1, 1, 2, 4, 8) if model.heads % t == 0 and (model.kv % t == 0 or t % model.kv == 0)])
        pp = rng.choice([p for p in (1, 1, 2, 3, 4) if p <= model.layers and self.design.layers > 1] or [1])
        ep = rng.choice([e for e in (1, 2, 4) if model.experts and model.experts % e == 0] or [1])
        cp = rng.choice([1, 1, 1, 2, 4]) if self.phase != "decode" and self.n >= 1000 else 1
        dp = rng.choice([1, 2, 8]) if self.phase == "train" else 1
        dp = dp * ep if self.phase == "train" else 1
        micro = rng.choice([0, 0, 1, 2]) if pp > 1 else 0
        self.machine = Machine(tp, pp, cp, ep, dp, min(micro, self.batch), rng.choice(["contiguous", "zigzag"]) if cp > 1 else "contiguous")
        nodes = [n for n in (2, 3, 4, 8) if self.gpus() % n == 0]
        if nodes and self.gpu.network_us and rng.random() < 0.4:
            self.machine.nodes = rng.choice(nodes)

    def words(self):
        out = [self.design.text, "--model", self.model.path, "--phase", self.phase, "--len", self.n, "--batch", self.batch, "--gpu", self.gpu.name]
        out += ["--dtype", self.dtype, "--weights", self.weights, "--fusion", self.fusion, *self.machine.words()]
        out += ["--kv-dtype", self.kv_type, "--page", self.page] if self.phase != "train" else []
        out += ["--recompute"] * self.recompute + ["--bounds"] * self.bounds + (["--new", self.new] if self.new else [])
        return out + (["--gpu-memory-utilization", self.util] if self.util != 1 else [])

    def ask(self):
        self.code, out, self.said = run("sim", *self.words(), "--json")
        self.answer = json.loads(out) if out.startswith("{") else None
        return self.answer

    def name(self):
        return " ".join(f"'{w}'" if " " in str(w) else str(w) for w in self.words())

    def near(self, what, said, own, digits=5):
        hold_text = f"{what}: s2 says {said}, it is {own}"
        good = said is not None and abs(said - own) <= abs(own) * 0.6 * 10.0 ** -digits + 1e-9
        hold(good, hold_text if good else f"{hold_text}\n  s2 sim {self.name()}")

    def true(self, what, good):
        hold(good, what if good else f"{what}\n  s2 sim {self.name()}")

    # what the options say

    def stage_layers(self, stage):
        """The layers of a stage of the pipeline."""
        n, pp = self.model.layers, self.machine.pp
        return range(stage * n // pp, (stage + 1) * n // pp)

    def element(self):
        return 1 if self.dtype == "fp8" else 2

    def kv_element(self):
        return {"as-dtype": self.element(), "bf16": 2, "e4m3": 1, "int8": 1}[self.kv_type]

    def weight_size(self, feed_forward):
        """Bytes of a weight of a layer."""
        return {"as-dtype": self.element(), "fp8": 1, "int8": 1, "int4": 4.5 / 8, "mxfp4": 4.25 / 8 if feed_forward else self.element()}[self.weights]

    def stage_weights(self, stage, layer_bytes=None):
        """Bytes of the weights of a GPU of a stage."""
        model, m = self.model, self.machine
        own = sum(model.attention(m.tp) * self.weight_size(False) + model.feed_forward(at, m.tp, m.ep) * self.weight_size(True) for at in self.stage_layers(stage))
        first, last = model.stage_ends(m.pp, stage)
        copies = 1 if first and last and model.tied else first + last
        return own + copies * model.words_weights(m.tp) * self.element()

    def check(self):
        answer = self.ask()
        if answer is None:
            return False
        {"prefill": self.check_inference, "decode": self.check_inference, "train": self.check_training}[self.phase]()
        self.check_links()
        self.check_times()
        if self.machine.pp > 1 and self.machine.cp == 1 and not (self.answer["tiers"] or {}).get("host") and not (self.answer["tiers"] or {}).get("host_dense"):
            self.check_pipeline()
        if self.machine.cp > 1 and self.phase == "prefill" and (self.bounds or self.dtype != "fp8"):
            self.check_context()
        if self.phase != "train":
            self.check_room()
        self.check_sums()
        return True

    def check_inference(self):
        answer, m, model = self.answer, self.machine, self.model
        fit, kv = answer["fit"], answer["kv"]
        self.near("weights of a GPU", fit["weight_bytes"], max(self.stage_weights(at) for at in range(m.pp)), 5)
        self.near("memory of a GPU", fit["memory_bytes"], self.gpu.memory * self.util)
        held = cache(self.design, m, self.n, self.page, self.kv_element())
        for layout in ("dense", "shared_pages", "head_pages", "used"):
            self.near("cache: " + layout, kv[layout], self.batch * sum(own[layout] for own in held.values()), 9)
        self.near("activations", fit["activation_bytes"], self.activations(), 5 if m.ep == 1 else 3)

    def new_tok(self):
        return self.new or (1 if self.phase == "decode" else self.n)

    def micro_seqs(self):
        """Sequences of a microbatch at most."""
        m = self.machine
        if m.pp == 1:
            return self.batch
        n = m.micro or (min(self.batch, m.pp) if self.phase == "decode" else self.batch)
        return -(-self.batch // n)

    def qkvo(self):
        model, m = self.model, self.machine
        return model.dim * (2 * model.heads // m.tp + 2 * max(1, model.kv // m.tp))

    def inner(self, layer, most=1):
        """Elements of a token that a feed-forward layer makes on a GPU: both halves and their product, of each expert."""
        model, m = self.model, self.machine
        if layer not in model.moe:
            return 3 * model.inner / m.tp
        return 3 * (model.expert * model.picks * most + model.shared) / m.tp

    def most_picks(self, tokens=None):
        """How many times the mean's picks the GPU has that has most of them."""
        tokens = self.pass_tokens() if tokens is None else tokens
        return largest(self.machine.ep, self.machine.ep * tokens * self.model.picks, 1 / self.machine.ep) / (tokens * self.model.picks) if self.model.moe else 1

    def pass_tokens(self):
        """Tokens of a microbatch on a GPU."""
        return self.micro_seqs() * -(-self.new_tok() // self.machine.cp)

    def kv_width(self):
        return 2 * self.model.dim * max(1, self.model.kv // self.machine.tp)

    def turned(self):
        """Elements of a token in Q and K, which eager operations have twice: before and after they are turned."""
        return self.model.dim * (self.model.heads // self.machine.tp + max(1, self.model.kv // self.machine.tp)) if self.fusion == "eager" else 0

    def held_of_others(self):
        """Elements of keys and values that a GPU holds beside its own while attention runs forward, for each token of its own."""
        c = self.machine.cp
        size = self.kv_width() * self.element() / 2  # counted as elements of 2 bytes
        return 0 if c == 1 else size * min(c - 1, 2) if self.machine.cut == "zigzag" else size * (1 + (c - 1) + 2 * c)

    def activations(self, stages=None):
        """The most that a pass of inference holds on a GPU of any stage, or of these."""
        model, m = self.model, self.machine
        seqs = self.micro_seqs()
        tokens = seqs * self.new_tok() / m.cp
        rows = model.heads // m.tp // max(1, model.kv // m.tp) * (self.new_tok() if self.phase == "decode" else 1)
        parts = 4 * self.gpu.sms * -(-rows // 8) * 8 * (model.dim + 2) * 4
        out = 0
        for stage in stages or range(m.pp):
            inner = max(self.inner(at, self.most_picks()) for at in self.stage_layers(stage))
            whole = 2 * model.hidden + inner if self.fusion == "fused" else 4 * model.hidden + self.qkvo() + self.turned() + inner
            logits = 4 * model.words / m.tp * seqs * (self.new_tok() if self.phase == "decode" else 1) if stage == m.pp - 1 else 0
            out = max(out, tokens * 2 * max(2 * model.hidden + self.qkvo() + self.turned() + self.held_of_others(), whole) + logits + parts)
        return out

    # a training step

    def layer_weights(self, at, ep):
        return self.model.attention(self.machine.tp) + self.model.feed_forward(at, self.machine.tp, ep)

    def kept(self, at):
        """Bytes of a token that a layer leaves for its backward pass."""
        model, m = self.model, self.machine
        others = (m.cp - 1) * self.kv_width() * self.element() / 2 if m.cut == "contiguous" else 0
        return 2 * (4 * model.hidden + self.qkvo() + self.turned() + self.inner(at, self.most_picks()) + others) + 4 * model.heads / m.tp

    def going_back(self, at):
        """The most bytes of a token while a layer goes back, what it kept included."""
        model, m = self.model, self.machine
        kv, c, inner = self.kv_width() * self.element() / 2, m.cp, self.inner(at, self.most_picks())
        queries = model.dim * model.heads / m.tp
        back = 0 if c == 1 else 2 * min(c - 1, 2) * kv if m.cut == "zigzag" else max((c - 1) * kv, 1.5 * c * kv - kv - 3 * queries)
        attention = self.qkvo() + back - inner - 2 * model.hidden  # the feed-forward is gone by then
        return max(self.kept(at) + 2 * (model.hidden + max(inner * 2 / 3, attention)), 2 * (2 * model.hidden + self.qkvo() + self.turned() + self.held_of_others()))

    def moments(self, stage):
        """Bytes on a GPU of a stage at each moment of a step that can be the fullest: (name, gradients, kept, working, logits)."""
        model, m = self.model, self.machine
        layers, tokens = self.stage_layers(stage), self.pass_tokens()
        first, last = model.stage_ends(m.pp, stage)
        micro = m.micro or self.batch if m.pp > 1 else 1
        words = model.words_weights(m.tp)
        weights = sum(self.layer_weights(at, 1) for at in layers) + words * (1 if first and last and model.tied else first + last)
        kept = {at: tokens * (2 * model.hidden if self.recompute else self.kept(at)) for at in layers}
        working = {at: tokens * self.going_back(at) - kept[at] for at in layers}
        gradient, flying = 2 / m.dp, min(micro, m.pp - stage)
        others, head = (flying - 1) * sum(kept.values()), words * gradient if last else 0
        loss = (3 * 2 * model.hidden * tokens, 12 * model.words / m.tp * min(tokens, SHARES)) if last else (0, 0)
        names = {at: "last layer" if at == layers[-1] else "first layer" if at == layers[0] else "layer" for at in layers}
        out = [("loss", head, others + sum(kept.values()), *loss)]
        for at in layers:
            out.append((names[at], head + gradient * sum(self.layer_weights(k, 1) for k in layers if k >= at), others + sum(kept[k] for k in layers if k <= at), working[at], 0))
        out.append(("update", weights * gradient, others, 2 * model.hidden * tokens, 0))
        if micro > 1:
            more = min(flying, micro - 1) * sum(kept.values())
            out.append(("loss", weights * gradient, more, *loss))
            out += [(names[at], weights * gradient, more - sum(kept[k] for k in layers if k > at), working[at], 0) for at in layers]
        gathered = max([self.layer_weights(at, m.ep) if m.dp > m.ep else self.layer_weights(at, 1) - self.experts_of(at) for at in layers] + [words * (first or last)])
        held = 14 * weights / m.dp + (4 * gathered if m.dp > 1 else 0)
        return held, 4 * gathered if m.dp > 1 else 0, out

    def experts_of(self, at):
        return self.model.feed_forward(at, self.machine.tp, 1) - self.model.feed_forward(at, self.machine.tp, 1, 0) if at in self.model.moe else 0

    def check_training(self):
        answer, m, model = self.answer, self.machine, self.model
        said = answer["training"]
        stages = [self.moments(stage) for stage in range(m.pp)]
        held, gathered, fullest = max(((held, gathered, moment) for held, gathered, moments in stages for moment in moments), key=lambda own: own[0] + sum(own[2][1:]))
        self.near(f"training: bytes at the {said['peak']}, the {fullest[0]}", said["bytes"], held + sum(fullest[1:]), 5 if m.ep == 1 else 3)
        self.near("training: what is gathered", said["gathered_bytes"], gathered)
        self.true("training: it fits or not", said["fits"] == (said["bytes"] <= self.gpu.memory * self.util))
        if said["peak"] == fullest[0]:
            for name, own in zip(("gradient_bytes", "kept_bytes", "working_bytes", "logit_bytes"), fullest[1:]):
                self.near("training: " + name, said[name], own, 5 if m.ep == 1 else 3)

    # what the links carry

    def micros(self):
        """How many microbatches there are."""
        m = self.machine
        return 1 if m.pp == 1 else m.micro or (min(self.batch, m.pp) if self.phase == "decode" else self.batch)

    def slowest(self):
        stages = (self.answer.get("machine") or {}).get("stages")
        return stages["slowest_stage"] if stages else 0

    def earlier_sent(self, layer, rank, cut):
        """Slots that each part of a contiguous cut sends to later ones, and that it is sent by earlier ones, of one share of the heads."""
        sent, come = [0] * (len(cut) - 1), [0] * (len(cut) - 1)
        for to in range(1, len(cut) - 1):
            parts = [self.kept_of_earlier(layer, rank, cut[to], cut[at]) for at in range(to + 1)]
            for of in range(to):
                sent[of] += parts[of + 1] - parts[of]
                come[to] += parts[of + 1] - parts[of]
        return sent, come

    def kept_of_earlier(self, layer, rank, begin, until):
        """Keys of the tokens before `until` that a cache of a GPU's heads holds after `begin` tokens: as many, over its KV heads."""
        kept, rules = 0, self.design.layer_rules(layer)
        for heads in self.machine.kv_of(rank, self.model).values():
            keys = 0
            for head in heads:
                keys |= row(rules[head], self.design.block, begin - 1)
            kept += (keys & (1 << until) - 1).bit_count()
        return kept

    def ring_bytes(self):
        """K and V of a step that the GPU sends which sends most: of each layer, that of the layer's own."""
        m, rounds = self.machine, 1 + (self.phase == "train") * (self.recompute + (2 if self.machine.cut == "zigzag" else 1))
        cut, forward = [self.n * at // m.cp for at in range(m.cp + 1)], 1 + (self.phase == "train" and self.recompute)
        slot, out = 2 * self.model.dim * self.element() * self.micro_seqs() * self.micros(), 0
        for layer in self.stage_layers(self.slowest()):
            if m.cut == "zigzag":
                out += rounds * (m.cp - 1) / m.cp * self.n * self.kv_width() / 2 / self.model.dim * slot
                continue
            most = 0
            for rank in range(m.tp):
                sent, come = self.earlier_sent(layer, rank, cut)
                most = max([most] + [forward * a + (rounds - forward) * b for a, b in zip(sent, come)])
            out += most * slot
        return out

    def sent(self, stage):
        """Bytes that a GPU of a stage sends in a step, part by part."""
        model, m, h = self.model, self.machine, self.model.hidden
        layers, train = self.stage_layers(stage), self.phase == "train"
        tokens, passes = self.pass_tokens() * self.micros(), (3 if self.recompute else 2) if train else 1
        moe = [at for at in layers if at in model.moe]
        first, last = model.stage_ends(m.pp, stage)
        out = {"all-reduce": 2 * (m.tp - 1) / m.tp * 2 * len(layers) * passes * tokens * 2 * h,
               "all-to-all": 0 if self.bounds else 2 * len(moe) * passes * tokens * model.picks * 2 * h * (m.ep - 1) / m.ep,
               "between stages": tokens * 2 * h * (2 if train and m.pp > 2 else 1) if m.pp > 1 else 0}
        if train and not self.bounds:  # a bound takes them to hide
            ends = model.words_weights(m.tp) * (1 if first and last and model.tied else first + last)
            experts = sum(self.experts_of(at) for at in layers)
            bare = sum(self.layer_weights(at, 1) for at in layers) - experts + ends
            same = m.dp // m.ep
            out["gather, scatter"] = 3 * 2 * self.micros() * (bare * (m.dp - 1) / m.dp + experts / m.ep * (same - 1) / same)
            out["sum over contexts"] = 2 * (m.cp - 1) / m.cp * 2 * (bare + experts) / m.dp
            copies = m.tp // model.kv if m.tp > model.kv else 1
            out["sum over copies"] = 2 * (copies - 1) / copies * 2 * len(layers) * 2 * h * model.dim / m.dp
            out["sum of embeddings"] = 2 * model.words_weights(m.tp) / m.dp if m.pp > 1 and model.tied and (first or last) else 0
        return out

    def check_links(self):
        answer, m = self.answer, self.machine
        parts = {part["name"]: part for part in answer["parts"]}
        for name, own in self.sent(self.slowest()).items():
            said = parts.get(name, {}).get("sent_bytes", 0)
            if name == "between stages" and self.phase == "decode" and name not in parts:
                continue  # nothing waits for it
            if name.startswith("sum ") and m.pp > 1:  # once a step, of the stage where that takes longest
                own = min((self.sent(stage)[name] for stage in range(m.pp)), key=lambda own: abs(own - said))
            self.near("sent in " + name, said, own, 5 if m.ep == 1 else 3)
        if m.cp > 1:
            ring = answer["machine"]["ring"]
            self.near("sent of keys", ring["sent_bytes"], self.ring_bytes())
            held = self.held_of_others() * 2 * -(-self.n // m.cp) * self.micro_seqs()
            self.near("held of others' keys", ring["held_bytes"], held)

    # times around attention, of a microbatch and a stage

    def gpus(self):
        m = self.machine
        return m.tp * m.cp * m.pp * (m.dp if self.phase == "train" else m.ep)

    def link(self, group):
        """Bytes a microsecond that a GPU sends to others of its group, whose GPUs are numbered in this order."""
        m, reach = self.machine, 1
        sizes = {"tp": m.tp, "cp": m.cp, "ep": m.ep, "pp": m.pp, "dp": max(m.dp // m.ep, 1)}
        for name, size in sizes.items():
            reach *= size
            if name == group:
                break
        self.crosses = self.gpus() // m.nodes % reach != 0
        return (self.gpu.network_us if self.crosses else self.gpu.link_us) * (1 if self.bounds else 0.8)

    def product(self, flop, moved, launches, in_8):
        """Matrix products: 3.6 us, 1.48 and 1.25 times the peaks; a bound is at the peaks."""
        mma, hbm = flop / self.gpu.flops["fp8" if in_8 else "bf16"] * 1e6, moved / self.gpu.bytes_us
        return max(mma, hbm, launches * self.gpu.launch_us) if self.bounds else launches * 3.6 + max(1.48 * mma, 1.25 * hbm)

    def moving(self, forward, backward, kernels):
        """Kernels that only move tensors: bytes of a pass each way, and how many each way."""
        passes = self.passes()
        fused = self.fusion == "fused"
        return 1.25 * (passes[0] * forward + passes[1] * backward) / self.gpu.bytes_us + (passes[0] * kernels[0] + passes[1] * kernels[1]) * (2.5 if fused else self.gpu.launch_us)

    def passes(self):
        """Over the layers, forward and backward."""
        return ((2 if self.recompute else 1), 1) if self.phase == "train" else (1, 0)

    def picked_and_read(self):
        """Picks of the GPU that has most, over the mean's, and how many of its experts are read."""
        model, m, tokens = self.model, self.machine, self.pass_tokens()
        if not model.moe:
            return 1, 0
        if self.bounds:
            return 1, model.picks / m.ep
        return self.most_picks(tokens), largest(m.ep, model.experts / m.ep, 1 - (1 - model.picks / model.experts) ** (m.ep * tokens))

    def times(self, stage):
        """Of a microbatch: parts that each takes, and those of a step."""
        model, m, h, tokens, train = self.model, self.machine, self.model.hidden, self.pass_tokens(), self.phase == "train"
        layers, (forward, backward) = self.stage_layers(stage), self.passes()
        products, first, last = forward + 2 * backward, *model.stage_ends(m.pp, stage)
        in_8, fused = self.dtype == "fp8" or self.weights == "fp8", self.fusion == "fused"
        most, read = self.picked_and_read()
        projections = model.attention(m.tp) * len(layers)
        active = sum(model.feed_forward(at, m.tp, 1, model.picks * most) for at in layers)
        weights = sum(model.feed_forward(at, m.tp, 1, read) for at in layers)
        n_shared = sum(1 for at in layers if at in model.moe and model.shared)
        out = {"projections": self.product(2 * projections * tokens * products, projections * self.weight_size(False) * products, 2 * len(layers) * products, in_8),
               "feed-forward": self.product(2 * active * tokens * products, weights * self.weight_size(True) * products, 2 * (len(layers) + n_shared) * products, in_8)}
        if self.bounds:
            out["norms"] = self.product(0, 8 * h * len(layers) * tokens * (forward + backward), 2 * len(layers) * (forward + backward), in_8)
        else:
            n, q, v, size = len(layers), model.dim * model.heads // m.tp, model.dim * max(1, model.kv // m.tp), self.element()
            e, f = q + v, sum(self.inner(at, most) / 3 for at in layers)
            written = 0 if train else 2 * v * self.kv_element()
            out["norms"] = self.moving(n * tokens * h * (16 if fused else 20), n * tokens * h * (16 if fused else 32), (2 * n, 2 * n) if fused else (4 * n, 6 * n))
            if fused:
                rotary, back = ((2 + size) * e if train else 2 * (q + 2 * v) + size * q + written), 4 * e
            else:
                rotary, back = (46 + size) * e + (0 if train else 4 * v + written), 56 * e + 14 * (e + v)
            out["rotary" if train else "rotary, cache"] = self.moving(n * tokens * rotary, n * tokens * back, (n, n) if fused else (9 * n if train else 11 * n, 16 * n))
            out["activation"] = self.moving(tokens * f * (6 if fused else 10), tokens * f * (10 if fused else 26), (n, n) if fused else (2 * n, 4 * n))
        if last:
            head, logits = model.words_weights(m.tp), self.micro_seqs() if self.phase == "prefill" else tokens
            out["lm head"] = self.product(2 * head * logits * products, head * self.element() * products, products, self.dtype == "fp8")
            if train and not self.bounds:
                words = model.words / m.tp * logits
                out["loss"] = self.moving(words * (2 if fused else 14), words * (4 if fused else 22), (1, 1) if fused else (3, 4))
        sent = {name: own / self.micros() for name, own in self.sent(stage).items()}
        link, sums, dealt = self.link("tp"), 2 * len(layers) * (forward + backward), 2 * sum(1 for at in layers if at in model.moe) * (forward + backward)
        step = 2.7 if self.crosses else 0.6 if self.gpu.nvlink else 1.0
        out["all-reduce"] = 0 if m.tp == 1 else sent["all-reduce"] / link + (0 if self.bounds else sums * (4.5 + 2 * (m.tp - 2) * step))
        out["all-to-all"] = 0 if m.ep == 1 or self.bounds else sent["all-to-all"] * most / self.link("ep") + dealt * 4.5
        once = {}
        if train:
            out["gather, scatter"] = sent.get("gather, scatter", 0) / self.link("dp")
            own = sum(self.layer_weights(at, 1) for at in layers) + model.words_weights(m.tp) * (1 if first and last and model.tied else first + last)
            once["optimizer"] = self.product(0, own * 28 / m.dp, 1, False)
            for name, group in (("sum over contexts", "cp"), ("sum over copies", "tp"), ("sum of embeddings", "pp")):
                once[name] = sent.get(name, 0) * self.micros() / self.link(group)
        if not self.bounds:
            once["host"] = 200
        return out, once

    def check_times(self):
        m, digits = self.machine, 4 if self.machine.ep == 1 else 3
        parts = {part["name"]: part["time_us"] for part in self.answer["parts"]}
        for name, own in self.times(self.slowest())[0].items():
            self.near("time of " + name, parts.get(name, 0), own * self.micros(), digits)
        once = max((self.times(stage)[1] for stage in range(m.pp)), key=lambda own: sum(own.values()))
        for name, own in once.items():
            self.near("time of " + name, parts.get(name, 0), own, digits)

    def ask_attention(self, stage):
        """Microseconds that attention of a stage takes for a microbatch, as a pattern of its own; of dense attention beside it; and forward."""
        words = [self.design.text_of(self.stage_layers(stage)), "--phase", self.phase, "--len", self.n, "--batch", self.micro_seqs(), "--gpu", self.gpu.name, "--dtype", self.dtype]
        words += ["--tp", self.machine.tp] * (self.machine.tp > 1) + ["--bounds"] * self.bounds + (["--new", self.new] if self.new else [])
        words += ["--kv-dtype", self.kv_type] if self.phase != "train" else []
        return json.loads(run("sim", *words, "--json")[1])

    def check_pipeline(self):
        """A step of stages that each take what they take alone."""
        answer, m, micros, train = self.answer, self.machine, self.micros(), self.phase == "train"
        asked = [self.ask_attention(stage) for stage in range(m.pp)]
        forward = [own["parts"][0]["time_us"] if self.recompute and train else 0 for own in asked]
        around = [sum(self.times(stage)[0].values()) for stage in range(m.pp)]
        once = max(sum(self.times(stage)[1].values()) for stage in range(m.pp))
        link = self.pass_tokens() * 2 * self.model.hidden / self.link("pp") * (2 if train else 1)
        digits = 4 if m.ep == 1 else 3

        def step(slots):
            period = max(max(slots), link)
            if self.phase == "decode":
                return max(micros * period, sum(slots) + m.pp * link)
            return sum(slots) + (m.pp - 1) * link + (micros - 1) * period
        own = [a["time_us"] + b + c for a, b, c in zip(asked, forward, around)]
        self.near("step of the pipeline", answer["end_to_end"]["time_us"], step(own) + once, digits)
        self.true(f"stage {self.slowest()} is the slowest of {own}", own[self.slowest()] >= max(own) * 0.9999)
        self.near("attention of the slowest stage", answer["time_us"], micros * asked[self.slowest()]["time_us"], digits)
        if not train:
            dense = [a["dense_time_us"] + c for a, c in zip(asked, around)]
            self.near("step of the pipeline, dense", answer["end_to_end"]["dense_time_us"], step(dense) + once, digits)
            most = max(range(m.pp), key=lambda stage: dense[stage])
            if sum(1 for us in dense if us > dense[most] * 0.999) == 1:  # others as slow may be the one
                self.near("dense attention of the stage that is slowest there", answer["dense_time_us"], micros * asked[most]["dense_time_us"], digits)
        parts = {part["name"]: part["time_us"] for part in answer["parts"]}
        rest = step(own) - micros * max(own)
        self.near("what the slowest stage waits for", parts.get("between stages", 0) + parts.get("waiting for stages", 0), rest, 3 if rest > 0.01 * step(own) else 1)

    def check_dense(self):
        """What stands beside a pattern as dense is what the dense pattern is said to take; beside itself it is even."""
        words = self.words()
        words[0] = self.design.shape() + "; all: dense"
        code, out, said = run("sim", *words, "--json")
        if not out.startswith("{"):
            self.true(f"dense attention is priced: {said}", False)
            return
        dense, answer = json.loads(out), self.answer
        host = (answer["tiers"] or {}).get("host_dense", 0) > 0
        for name, of in (("time_us", dense), ("dense_time_us", dense)):
            if not host:
                self.near(f"dense attention: {name} of dense itself", answer["dense_time_us"], of[name], 4)
                self.near(f"dense step: {name} of dense itself", answer["end_to_end"]["dense_time_us"], dense["end_to_end"][name], 4)
        self.near("dense attention beside itself", dense["dense_time_us"], dense["time_us"], 4)
        self.near("a dense step beside itself", dense["end_to_end"]["dense_time_us"], dense["end_to_end"]["time_us"], 4)
        if self.phase != "train":
            for side in ("batch", "len"):
                self.true(f"dense fits {answer['fit'][side + '_dense']} {side}, and as its own {dense['fit'][side]}", answer["fit"][side + "_dense"] == dense["fit"][side] == dense["fit"][side + "_dense"])
            self.near("host memory of dense", answer["tiers"]["host_dense"], dense["tiers"]["host"])

    def moved_forward(self, layer):
        """Bytes of K and V that each GPU of a context sends or is sent for a forward pass over a layer, whichever is more."""
        m, n = self.machine, self.n
        cut, slot = [n * at // m.cp for at in range(m.cp + 1)], 2 * self.model.dim * self.element() * self.micro_seqs()
        if m.cut == "zigzag":
            return [(m.cp - 1) / m.cp * n * self.kv_width() / 2 / self.model.dim * slot] * m.cp
        sent, come = [0] * m.cp, [0] * m.cp
        for rank in range(m.tp):
            gone, got = self.earlier_sent(layer, rank, cut)
            sent, come = [max(a, b) for a, b in zip(sent, gone)], [max(a, b) for a, b in zip(come, got)]
        return [max(a, b) * slot for a, b in zip(sent, come)]

    def check_context(self):
        """Attention of a shared context: in each layer the GPU that takes longest, of pieces that are launches of their own, and of its link."""
        m, zigzag = self.machine, self.machine.cut == "zigzag"
        parts = (2 if zigzag else 1) * m.cp
        cut, asked, out = [self.n * at // parts for at in range(parts + 1)], {}, 0
        for layer in self.stage_layers(self.slowest()):
            own, most = self.design.text_of([layer]) if self.design.layers > 1 else self.design.text, 0
            for rank, moved in enumerate(self.moved_forward(layer)):
                us = 0
                for piece in (rank, parts - 1 - rank) if zigzag else (rank,):
                    words = (own, "--len", cut[piece + 1], "--new", cut[piece + 1] - cut[piece], "--tp", m.tp, "--batch", self.micro_seqs(), "--gpu", self.gpu.name, "--dtype", self.dtype)
                    if words not in asked:
                        asked[words] = json.loads(run("sim", *words, "--phase", "prefill", *["--bounds"] * self.bounds, "--json")[1])["time_us"]
                    us += asked[words]
                link = moved / self.link("cp")
                most = max(most, max(us, link) if zigzag or self.bounds else us + link)
            out += most
        self.near("attention of a shared context", self.answer["time_us"], out * self.micros(), 4)

    # what fits

    def check_room(self):
        """Where the cache lies, and what is said to fit."""
        answer, m, fit, tiers = self.answer, self.machine, self.answer["fit"], self.answer["tiers"]
        held, memory, over, fullest = cache(self.design, m, self.n, self.page, self.kv_element()), self.gpu.memory * self.util, {}, 0
        for side in ("head_pages", "dense"):
            over[side] = 0
            for stage in range(m.pp):
                most = max(sum(held[at, rank][side] for at in self.stage_layers(stage)) for rank in range(m.tp)) * self.batch / m.cp
                fullest = max(fullest, most) if side == "head_pages" else fullest
                over[side] = max(over[side], most - max(0, memory - self.stage_weights(stage) - self.activations([stage])))
        self.true(f"host {tiers['host']} and device {tiers['hbm']} bytes of {fullest}", abs(tiers["hbm"] + tiers["host"] - fullest) <= m.cp + 1e-5 * fullest)
        for said, side in ((tiers["host"], "head_pages"), (tiers["host_dense"], "dense")):
            self.true(f"{side} beyond the memory: s2 says {said}, it is {over[side]}", abs(said - max(0, over[side])) <= 4 + 2e-5 * memory * (m.ep > 1))
        if m.tp > 1 and m.pp == 1 and m.cp == 1:
            self.near("cache of the GPU that keeps most", answer["ranks"]["kv_head_pages"], fullest)
        peak = answer["kv"]["peak"]
        self.true(f"a peak {peak} of no less than at the end, {fullest}", peak >= fullest - 1)
        if m.pp > 1 or m.cp > 1:
            return
        room = memory - self.stage_weights(0)

        def fits(batch):
            was, self.batch = self.batch, batch
            needed = self.activations() + batch * peak / was
            self.batch = was
            return needed <= room
        said = fit["batch"]
        self.true(f"a batch of {said} fits", said == 0 or fits(said) or said == self.batch)
        self.true(f"a batch of more than {said} does not", said == 65536 or not fits(said + 1))

    # what all figures share

    def check_sums(self):
        answer, m, ends = self.answer, self.machine, self.answer["end_to_end"]
        self.near("parts add up", sum(part["time_us"] for part in answer["parts"]), ends["time_us"], 4)
        tokens = self.batch * (1 if self.phase == "decode" else self.n)
        tokens = self.batch * self.new_tok()
        replicas = m.dp if self.phase == "train" else m.ep
        for side in ("", "dense_"):
            rate = ends[side + "tokens_per_s"]
            if rate is not None:
                self.near(side + "tokens a second", rate, tokens / ends[side + "time_us"] * 1e6, 4)
                if replicas > 1:
                    self.near(side + "tokens a second of all", ends[side + "tokens_per_s_all_replicas"], replicas * rate, 4)
        self.true("a bound is no more than the plan, and than the time", answer["bound_us"] <= answer["plan_us"] * 1.00001 and answer["bound_us"] <= answer["time_us"] * 1.00001)
        gpus = m.tp * m.pp * m.cp * m.ep * m.dp // (m.ep if self.phase == "train" else 1)
        if answer.get("machine"):
            self.near("GPUs", answer["machine"]["gpus"], gpus)


MICROSECONDS = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9}


def check_page_times(case, page):
    """The lines of dense attention and of the whole step say the times of JSON, and its ratio or none."""
    for line, of in ((r"\n +dense ([^\n]*)", case.answer), (r"\n  end to end +([^\n]*)", case.answer["end_to_end"])):
        said = re.search(line, page)[1]
        ratio = re.search(r"([\d.]+) times as long", said)
        case.true(f"a ratio of {of['speed_up']}: {said}", (ratio is None) == (of["speed_up"] is None) and (ratio is None or abs(float(ratio[1]) - of["speed_up"]) <= 0.006 * of["speed_up"]))
        for us in (float(number) * MICROSECONDS[unit] for number, unit in re.findall(r"([\d.]+) (ns|us|ms|s|min|h)\b", said)):
            case.true(f"times of {of['time_us']} and {of['dense_time_us']}: {said}", any(abs(us - own) <= 0.006 * own for own in (of["time_us"], of["dense_time_us"])))


UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def said_bytes(pattern, page):
    """The first number of bytes that a page says there."""
    found = re.search(pattern + r"([\d.]+) (B|[KMGT]iB)\b", page)
    return float(found[1]) * UNITS[found[2]] if found else None


def check_page(case):
    """The page says of memory and links what JSON says."""
    answer, page = case.answer, run("sim", *case.words())[1]
    check_page_times(case, page)
    if case.phase == "train":
        parts = {part["name"]: part.get("sent_bytes", 0) for part in answer["parts"]}
        for name, said in (("all-reduce", "in all-reduces"), ("between stages", "between stages"), ("gather, scatter", "to gather weights")):
            if parts.get(name):
                case.near("the page's bytes of " + name, said_bytes(rf"\n  links .*? (?=[\d.]+ \w+ {said})", page), parts[name], 3)
        own = answer["training"]
        case.near("the page's memory", said_bytes(r"\n  memory +", page), own["bytes"], 3)
        case.near("the page's activations", said_bytes(r"\n  memory .*, (?=[\d.]+ \w+ of activations)", page), own["activation_bytes"], 3)
        return
    case.near("the page's weights", said_bytes(r"beside ", page), answer["fit"]["weight_bytes"], 3)
    case.near("the page's activations", said_bytes(r"of this batch holds ", page), answer["fit"]["activation_bytes"], 3)
    case.near("the page's cache", said_bytes(r"\n  kv cache +", page), answer["kv"]["dense"], 3)


# ---- what changes nothing, and what may only grow

SAME = ("pairs", "density", "token_density", "flop", "exp", "tiles", "bytes", "plan_us", "bound_us", "time_us", "kv", "fit", "tiers", "training")


def ask_text(text, *words):
    out = run("sim", text, "--bounds", "--json", *words)[1]
    return json.loads(out) if out.startswith("{") else None


def alike(what, a, b, names=SAME):
    off = [name for name in names if a is None or b is None or a.get(name) != b.get(name)]
    hold(not off, f"{what}: {off} differ")


def grows(what, less, more, *members):
    for member in members:
        a, b = less, more
        for name in member.split("/"):
            a, b = (a or {}).get(name), (b or {}).get(name)
        hold(a is not None and b is not None and a <= b * 1.00001 + 1e-9, f"{what}: {member} is {a}, then {b}")


def check_relations(case):
    design, model = case.design, case.model
    phase = case.phase
    words = ["--phase", phase, "--gpu", case.gpu.name, "--model", model.path, "--batch", case.batch, "--len", case.n]
    whole, body = ask_text(design.text, *words), " | ".join(term[0] for term in design.bodies[0][2])
    name = f"'{design.text}' {' '.join(map(str, words))}"
    shape = f"layers {model.layers}; heads {model.heads}; kv-heads {model.kv}; head-dim {model.dim}; block {design.block}"
    plain = ask_text(f"{shape}; all: {body}", *words)
    half, last = model.layers // 2, model.layers - 1
    if model.layers > 1:
        alike(f"{name}: layers in two ranges of one body", plain, ask_text(f"{shape}; layers 0-{half - 1}: {body}; layers {half}-{last}: {body}", *words))
    if model.kv > 1:
        alike(f"{name}: KV heads in two lists of one body", plain, ask_text(f"{shape}; kv 0: {body}; kv 1-{model.kv - 1}: {body}", *words))
    two = [f"kv 0-{model.kv // 2 - 1}: ", f"kv {model.kv // 2}-{model.kv - 1}: "] if model.kv > 1 else []
    if two:
        alike(f"{name}: which half of the KV heads is dense", ask_text(f"{shape}; {two[0]}dense; {two[1]}local 3", *words),
              ask_text(f"{shape}; {two[1]}dense; {two[0]}local 3", *words))
    alike(f"{name}: dense, and a window that sees all", ask_text(f"{shape}; all: dense", *words), ask_text(f"{shape}; all: local 8192t", *words), ("pairs", "flop", "exp", "bytes", "kv", "tiers", "training"))
    alike(f"{name}: numbers of machines that are 1", plain, ask_text(f"{shape}; all: {body}", *words, "--tp", 1, "--pp", 1, "--cp", 1, "--ep", 1, "--nodes", 1))
    if phase != "train":
        more = ask_text(design.text, *words[:-4], "--batch", case.batch + 1, "--len", case.n)
        grows(f"{name}: one sequence more", whole, more, "time_us", "bound_us", "bytes/hbm_floor", "flop/useful", "kv/used", "kv/dense", "end_to_end/time_us", "fit/activation_bytes")
        longer = ask_text(design.text, *words[:-2], "--len", case.n + 64)
        grows(f"{name}: 64 tokens more", whole, longer, "kv/dense", "kv/peak", "fit/activation_bytes")
        grows(f"{name}: 64 tokens more, the other way", longer, whole, "fit/batch")
        for more, members in ((("--weights", "fp8"), ("end_to_end/time_us", "fit/weight_bytes")), (("--kv-dtype", "e4m3"), ("kv/dense", "kv/used", "kv/peak"))):
            grows(f"{name}: {more} instead of 16 bits", ask_text(design.text, *words, *more), whole, *members)
        grows(f"{name}: a part of the memory", ask_text(design.text, *words, "--gpu-memory-utilization", "0.7"), whole, "fit/batch", "fit/len", "fit/memory_bytes", "fit/batch_dense", "fit/len_dense")
        check_longest(name, design, words, whole)
    if model.kv % 2 == 0:
        shared = ask_text(design.text, *words, "--tp", 2)
        alike(f"{name}: two GPUs' work is one's", whole, shared, ("pairs", "density", "flop", "exp"))
        hold(2 * shared["fit"]["weight_bytes"] >= whole["fit"]["weight_bytes"] > shared["fit"]["weight_bytes"], f"{name}: weights of one and of two GPUs")
        if phase != "train":
            grows(f"{name}: of two GPUs each keeps less", shared, whole, "kv/peak", "fit/activation_bytes", "tiers/hbm")
            hold(shared["kv"]["used"] == whole["kv"]["used"], f"{name}: two GPUs keep what one does: {shared['kv']['used']}, {whole['kv']['used']}")


def check_longest(name, design, words, whole):
    """A context of the length that is said to fit fits, and one token more does not."""
    longest = whole["fit"]["len"]
    if not 0 < longest < 1000000:
        return
    at, beyond = (ask_text(design.text, *words[:-2], "--len", n) for n in (longest, longest + 1))
    if at is None or beyond is None:
        return
    hold(at["tiers"]["host"] == 0, f"{name}: {longest} tokens are said to fit, and spill {at['tiers']['host']} bytes")
    over = beyond["kv"]["peak"] + beyond["fit"]["activation_bytes"] + beyond["fit"]["weight_bytes"]
    hold(over > beyond["fit"]["memory_bytes"] * 0.99999, f"{name}: {longest + 1} tokens are said not to fit, and take {over} of {beyond['fit']['memory_bytes']} bytes")


# ---- a mix of requests

def serve(requests, chunk, prefix, page, token_bytes, room, pass_bytes):
    """The schedule of docs/simulator.md for requests that are all there at once: steps, the most at a time and the most set aside."""
    own = [(-(-(prompt + output - 1) // page) - prefix // page) * page * token_bytes for prompt, output in requests]
    held, running, waiting, steps, most, aside = -(-prefix // page) * page * token_bytes, [], list(range(len(requests))), 0, 0, 0
    while waiting or running:
        while waiting and held + own[waiting[0]] + pass_bytes(len(running) + 1) <= room:
            held += own[waiting[0]]
            running.append([waiting.pop(0), prefix, 0])
        if not running:
            return None
        most, aside, left, read = max(most, len(running)), max(aside, held), chunk or 1 << 40, False
        made = [one for one in running if one[2] > 0]
        for one in running:
            rest = requests[one[0]][0] - one[1]
            if rest > 0 and left > 0:
                n = min(rest, left)
                one[1], read = one[1] + n, True
                left = left - n if chunk else 0
                one[2] += one[1] == requests[one[0]][0]
        for one in made if chunk or not read else ():
            one[2] += 1
        held -= sum(own[one[0]] for one in running if one[2] == requests[one[0]][1])
        running = [one for one in running if one[2] < requests[one[0]][1]]
        steps += 1
    return steps, most, aside


def check_requests(rng, nth):
    case = Case(rng, 10000 + nth, "decode")
    model, page = case.model, rng.choice([16, 64])
    tp = rng.choice([t for t in (1, 2) if model.kv % t == 0])
    requests = [(rng.randint(50, 4000), rng.randint(1, 30)) for _ in range(rng.choice([1, 3, 8, 20]))]
    prefix, chunk = rng.choice([0, 0, 40]), rng.choice([0, 256, 1000])
    path = os.path.join(folder, "mix.csv")
    with open(path, "w") as file:
        file.write("prompt, output\n" + "".join(f"{p}, {o}\n" for p, o in requests))
    case.machine, case.dtype, case.weights, case.kv_type, case.fusion, case.new, case.phase = Machine(tp), "bf16", "as-dtype", "as-dtype", "fused", 0, "prefill"
    read = max(max(min(chunk, p - prefix) if chunk else p - prefix for p, _ in requests), prefix)

    def pass_bytes(n):
        rows = -(-(model.heads // model.kv) // 8) * 8
        inner = max(case.inner(at) for at in range(model.layers))
        return (read + n) * 2 * (2 * model.hidden + max(case.qkvo(), inner)) + 4 * model.words / tp * n + 16 * case.gpu.sms * rows * (model.dim + 2)
    weights = case.stage_weights(0)
    token = 2 * model.dim * model.kv // tp * 2 * model.layers
    needed = weights + pass_bytes(len(requests)) + rng.choice([1.2, 3, 30]) * token * max(p + o for p, o in requests) + prefix * token
    util = min(1, math.ceil(needed / case.gpu.memory * 1000) / 1000)
    words = ["--requests", path, case.design.text, "--model", model.path, "--gpu", case.gpu.name, "--page", page, "--tp", tp, "--bounds"]
    words += (["--chunk", chunk] if chunk else []) + (["--prefix", prefix] if prefix else []) + (["--gpu-memory-utilization", util] if util < 1 else [])
    code, out, said = run("sim", *words, "--json")
    name = f"{requests} {' '.join(map(str, words[2:]))}"
    room = case.gpu.memory * util - weights
    own = serve(requests, chunk, prefix, page, token, room, pass_bytes)
    hold((code == 0) == (own is not None), f"{name}: ends with {code}, {said}")
    if code or own is None:
        return
    answer = json.loads(out)
    near(f"{name}: room", answer["room_bytes"], room)
    dense = answer["dense"]
    near(f"{name}: steps", dense["steps"], own[0], 9)
    near(f"{name}: at a time", dense["at_a_time"], own[1], 9)
    near(f"{name}: set aside", dense["cache_bytes"], own[2], 9)
    near(f"{name}: activations", dense["activation_bytes"], pass_bytes(own[1]))
    for side in ("pattern", "dense"):
        one = answer[side]
        near(f"{name}: {side}: tokens a second", one["tokens_per_s"], sum(o for _, o in requests) / one["time_us"] * 1e6, 4)
        hold(one["cache_bytes"] + pass_bytes(1) <= room * 1.000001, f"{name}: {side}: {one['cache_bytes']} bytes set aside in a room of {room}")
        hold(one["first_token_us"] <= one["time_us"] * 1.00001 and one["first_token_p90_us"] <= one["time_us"] * 1.00001, f"{name}: {side}: a first token after the last")
        hold(one["steps"] >= max(o for _, o in requests), f"{name}: {side}: {one['steps']} steps")
    hold(answer["pattern"]["at_a_time"] >= dense["at_a_time"], f"{name}: fewer at a time than dense")


# ---- hybrids

class Hybrid(Model):
    """Gated delta rules with attention in every few layers, and experts: Qwen3-Next of a size of its own."""

    def __init__(self, rng, nth):
        super().__init__(rng, nth)
        self.kind, self.every = "qwen3_next", rng.choice([2, 3, 4])
        self.layers = self.every * rng.choice([1, 2, 3])
        self.kv, self.heads, self.dim = 2, rng.choice([4, 8]), rng.choice([64, 128])
        self.keys, self.values = rng.choice([(4, 64), (8, 128)]), rng.choice([(8, 64), (8, 128), (16, 128)])
        self.experts, self.picks, self.expert, self.shared, self.moe = rng.choice([4, 16, 64]), 2, 64 * rng.randint(1, 8), 64 * rng.randint(1, 8), set(range(self.layers))
        config = {"model_type": self.kind, "hidden_size": self.hidden, "intermediate_size": self.inner, "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
                  "num_key_value_heads": self.kv, "head_dim": self.dim, "vocab_size": self.words, "tie_word_embeddings": self.tied, "hidden_act": "silu",
                  "linear_num_key_heads": self.keys[0], "linear_key_head_dim": self.keys[1], "linear_num_value_heads": self.values[0], "linear_value_head_dim": self.values[1],
                  "linear_conv_kernel_dim": 4, "full_attention_interval": self.every, "num_experts": self.experts, "num_experts_per_tok": self.picks,
                  "moe_intermediate_size": self.expert, "shared_expert_intermediate_size": self.shared, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
        with open(self.path, "w") as file:
            json.dump(config, file)
        (hk, dk), (hv, dv) = self.keys, self.values
        self.mixer = 2 * self.hidden * hk * dk + 3 * self.hidden * hv * dv + 2 * self.hidden * hv
        self.elements, self.state = hv * dk * dv, 4 * hv * dk * dv + 2 * 4 * (2 * hk * dk + hv * dv)

    def attention(self, tp):
        """Q has a gate as wide."""
        return self.hidden * self.dim * (3 * self.heads // tp + 2 * max(1, self.kv // tp))

    def attends(self, layer):
        return (layer + 1) % self.every == 0

    def branch(self, layer, tp):
        return self.attention(tp) if self.attends(layer) else self.mixer / tp


def check_hybrid(rng, nth):
    model, phase, gpu = Hybrid(rng, 30000 + nth), rng.choice(["prefill", "decode", "train"]), Gpu("h200")
    tp, pp, ep = rng.choice([1, 2, 4]), rng.choice([p for p in (1, 1, 2) if model.layers % (p * model.every) == 0]), rng.choice([1, 1, 2]) if phase != "train" else 1
    n, batch, recompute, bounds = rng.choice([256, 1000, 4096]), rng.choice([1, 2, 8]), phase == "train" and rng.random() < 0.5, rng.random() < 0.5
    words = [model.path, "--model", model.path, "--phase", phase, "--len", n, "--batch", batch, "--gpu", gpu.name, *Machine(tp, pp, ep=ep).words()]
    words += ["--recompute"] * recompute + ["--bounds"] * bounds
    code, out, said = run("sim", *words, "--json")
    with open(model.path) as file:
        name = f"hybrid {file.read()} {' '.join(map(str, words[3:]))}"
    hold(code == 0, f"{name}: ends with {code}, {said}")
    if code:
        return
    answer, parts = json.loads(out), {}
    for part in answer["parts"]:
        parts[part["name"]] = part["time_us"]
    stages = [range(model.layers * at // pp, model.layers * (at + 1) // pp) for at in range(pp)]

    def weights(stage, experts):
        own = sum(model.branch(at, tp) + model.feed_forward(at, tp, experts) for at in stages[stage])
        first, last = model.stage_ends(pp, stage)
        return own + model.words_weights(tp) * (1 if first and last and model.tied else first + last)
    mixing = [at for at in range(model.layers) if not model.attends(at)]
    near(f"{name}: state of a sequence", answer["states"]["bytes_per_sequence"], model.state * len(mixing), 9)
    if phase != "train":
        near(f"{name}: weights", answer["fit"]["weight_bytes"], 2 * max(weights(stage, ep) for stage in range(pp)))
        held = 4 * model.dim * -(-n // 16) * 16
        near(f"{name}: cache", answer["kv"]["dense"], batch * (max(tp, model.kv) * held * (model.layers - len(mixing)) + model.state * len(mixing)), 9)
        each = batch * (max(1, model.kv // tp) * held * (model.layers - len(mixing)) / pp + model.state / tp * len(mixing) / pp)
        near(f"{name}: cache of a GPU", answer["tiers"]["hbm"] + answer["tiers"]["host"], each, 5)
    else:
        near(f"{name}: weights and optimizer", answer["training"]["state_bytes"] - answer["training"]["gradient_bytes"], 14 * max(weights(stage, 1) for stage in range(pp)), 5 if pp == 1 else 0)
    stage = answer["machine"]["stages"]["slowest_stage"] if pp > 1 else 0
    micros = 1 if pp == 1 else min(batch, pp) if phase == "decode" else batch
    seqs, own = -(-batch // micros), sum(1 for at in stages[stage] if not model.attends(at))
    tokens, (forward, backward) = seqs * (1 if phase == "decode" else n), ((2 if recompute else 1, 1) if phase == "train" else (1, 0))
    products = forward + 2 * backward

    def product(flop, moved, launches):
        mma, hbm = flop / gpu.flops["bf16"] * 1e6, moved / gpu.bytes_us
        return max(mma, hbm, launches * gpu.launch_us) if bounds else launches * 3.6 + max(1.48 * mma, 1.25 * hbm)
    w, a = own * model.mixer / tp, sum(model.attention(tp) for at in stages[stage] if model.attends(at))
    near(f"{name}: mixers", parts.get("mixers", 0), micros * product(2 * w * tokens * products, 2 * w * products, 2 * own * products), 4)
    near(f"{name}: projections", parts["projections"], micros * product(2 * a * tokens * products, 2 * a * products, 2 * (len(stages[stage]) - own) * products), 4)
    moves, launches = {"prefill": (1, 1), "decode": (2, 1), "train": (0, 3 if recompute else 2)}[phase]
    moved = moves * seqs * model.state / tp
    states = own * max(moved / gpu.bytes_us, launches * gpu.launch_us)
    near(f"{name}: states", parts.get("states", 0), micros * states, 4)
    flop = 4 * (forward + 2 * backward) * model.elements / tp * own * tokens
    scan = max(flop / gpu.flops["bf16"] * 1e6, ((forward + 1.5 * backward) * w / model.hidden * 2 * tokens + own * moved) / gpu.bytes_us) - states
    near(f"{name}: scan", parts.get("scan", 0), micros * max(scan, 0), 3)
    near(f"{name}: parts add up", sum(parts.values()), answer["end_to_end"]["time_us"], 4)


def check_parallel(rng, nth):
    """Attention and a Mamba 2 mixer side by side in every layer: Falcon-H1 of a size of its own, and what its GPUs sum."""
    h, heads, kv, dim, layers = 64 * rng.randint(4, 30), rng.choice([4, 8, 16]), rng.choice([1, 2, 4]), rng.choice([64, 128]), rng.choice([2, 3, 6])
    mixers, width, state, groups, taps, inner, words = rng.choice([8, 16, 24]), rng.choice([32, 64]), rng.choice([64, 128]), rng.choice([1, 4]), 4, 64 * rng.randint(4, 40), 8 * rng.randint(100, 2000)
    config = {"model_type": "falcon_h1", "hidden_size": h, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim,
              "vocab_size": words, "tie_word_embeddings": False, "mamba_n_heads": mixers, "mamba_d_head": width, "mamba_d_ssm": mixers * width, "mamba_d_state": state, "mamba_n_groups": groups,
              "mamba_d_conv": taps, "hidden_act": "silu"}
    path = os.path.join(folder, f"parallel{nth}.json")
    with open(path, "w") as file:
        json.dump(config, file)
    tp, phase, n, batch, gpu = rng.choice([1, 2, 4]), rng.choice(["prefill", "decode", "train"]), rng.choice([256, 1000, 4096]), rng.choice([1, 2]), Gpu("h200")
    asked = [path, "--model", path, "--phase", phase, "--len", n, "--batch", batch, "--tp", tp]
    code, out, said = run("sim", *asked, "--json")
    name = f"parallel {config} {' '.join(map(str, asked[3:]))}"
    hold(code == 0, f"{name}: ends with {code}, {said}")
    if code:
        return
    answer = json.loads(out)
    parts = {part["name"]: part for part in answer["parts"]}
    kept = 4 * mixers * width * state + 2 * taps * (mixers * width + 2 * groups * state)
    near(f"{name}: state of a sequence", answer["states"]["bytes_per_sequence"], layers * kept, 9)
    mixer = (3 * h * mixers * width + h * mixers) / tp + 2 * h * groups * state / (1 if groups == 1 else tp)
    own = layers * (h * dim * (2 * heads // tp + 2 * max(1, kv // tp)) + mixer + 3 * h * inner / tp) + 2 * words * h / tp
    if phase != "train":
        near(f"{name}: weights", answer["fit"]["weight_bytes"], 2 * own)
    tokens, passes = batch * (1 if phase == "decode" else n), 2 if phase == "train" else 1
    if tp > 1:  # after attention, after the mixer, after the feed-forward
        near(f"{name}: sent", parts["all-reduce"]["sent_bytes"], 3 * layers * passes * 2 * (tp - 1) / tp * tokens * 2 * h)
    near(f"{name}: parts add up", sum(part["time_us"] for part in parts.values()), answer["end_to_end"]["time_us"], 4)


# ---- latent attention

def check_latent(rng, nth):
    """Weights, cache, projections and operations of DeepSeek-V3 of a size of its own."""
    h, heads, rank, rope, nope, out, ranks = 64 * rng.randint(4, 30), rng.choice([4, 8, 16]), rng.choice([256, 512]), rng.choice([32, 64]), rng.choice([64, 128]), rng.choice([64, 128]), rng.choice([0, 384, 768])
    layers, experts, picks, expert, shared, first = rng.choice([2, 3, 5]), rng.choice([4, 8, 16]), rng.choice([1, 2, 4]), 64 * rng.randint(1, 8), rng.choice([0, 1, 2]), rng.choice([0, 1])
    inner, words, tied, phase = 64 * rng.randint(2, 20), 8 * rng.randint(100, 2000), rng.random() < 0.3, rng.choice(["prefill", "decode"])
    config = {"model_type": "deepseek_v3", "hidden_size": h, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads, "kv_lora_rank": rank,
              "q_lora_rank": ranks or None, "qk_rope_head_dim": rope, "qk_nope_head_dim": nope, "v_head_dim": out, "n_routed_experts": experts, "num_experts_per_tok": picks, "moe_intermediate_size": expert,
              "n_shared_experts": shared, "first_k_dense_replace": first, "moe_layer_freq": 1, "vocab_size": words, "tie_word_embeddings": tied, "hidden_act": "silu", "n_group": 1, "topk_group": 1}
    path = os.path.join(folder, f"latent{nth}.json")
    with open(path, "w") as file:
        json.dump(config, file)
    m, batch, n, size = Machine(rng.choice([1, 2, 4]), rng.choice([1, 2]), ep=rng.choice([1, 2])), rng.choice([1, 4]), rng.choice([1000, 4096]), rng.choice([1, 2])
    asked = [path, "--model", path, "--phase", phase, "--len", n, "--batch", batch, "--kv-dtype", "bf16" if size == 2 else "e4m3", *m.words(), "--bounds"]
    code, said, error = run("sim", *asked, "--json")
    name = f"latent {config} {' '.join(map(str, asked[3:]))}"
    hold(code == 0, f"{name}: ends with {code}, {error}")
    if code:
        return
    answer, gpu = json.loads(said), Gpu("h200")
    stages = [range(layers * at // m.pp, layers * (at + 1) // m.pp) for at in range(m.pp)]
    projections = h * (ranks + rank + rope) + ((ranks or h) * heads * (nope + rope) + rank * heads * (nope + out) + heads * out * h) / m.tp

    def weights(stage):
        own = sum(projections + 3 * h * (inner if at < first else expert * (experts / m.ep + shared)) / m.tp for at in stages[stage])
        ends = (stage == 0) + (stage == m.pp - 1)
        return own + words * h / m.tp * (1 if ends == 2 and tied else ends)
    token = (rank + rope) * size * -(-n // 16) * 16 * batch
    near(f"{name}: weights", answer["fit"]["weight_bytes"], 2 * max(map(weights, range(m.pp))))
    near(f"{name}: cache of a GPU", answer["tiers"]["hbm"] + answer["tiers"]["host"], token * max(map(len, stages)))
    near(f"{name}: cache of all", answer["kv"]["dense"], token * layers * m.tp, 9)
    pairs, flop = (n * (n + 1) // 2, 2 * (nope + rope + out)) if phase == "prefill" else (n, 2 * (2 * rank + rope))
    near(f"{name}: operations", answer["flop"]["useful"], pairs * flop * heads * layers * batch, 9)
    if m.pp == 1:
        own, tokens = projections * layers, batch * (n if phase == "prefill" else 1)
        us = max(2 * own * tokens / gpu.flops["bf16"] * 1e6, 2 * own / gpu.bytes_us, gpu.launch_us * layers * (5 if ranks else 4))
        near(f"{name}: projections", {part["name"]: part["time_us"] for part in answer["parts"]}["projections"], us, 4)
        dense, moe = min(first, layers), layers - min(first, layers)  # as a bound all GPUs of --ep are picked alike
        read, used = (3 * h * (inner * dense + moe * expert * (each + shared)) / m.tp for each in (picks / m.ep, picks))
        us = max(2 * used * tokens / gpu.flops["bf16"] * 1e6, 2 * read / gpu.bytes_us, gpu.launch_us * 2 * (layers + (moe if shared else 0)))
        near(f"{name}: feed-forward", {part["name"]: part["time_us"] for part in answer["parts"]}["feed-forward"], us, 4)


def check_compare(rng, nth):
    """The known methods: those with a pattern are as that pattern alone, a tiered cache is a dense one's newest tokens, and a linear state has a size."""
    case = Case(rng, 40000 + nth, rng.choice(["prefill", "decode", "decode"]))
    model, m, n = case.model, Machine(case.machine.tp), rng.choice([1000, 4096, 9000, 20001])
    words = ["--model", model.path, "--phase", case.phase, "--len", n, "--batch", case.batch, "--gpu", case.gpu.name, "--page", case.page, "--kv-dtype", case.kv_type, *m.words()] + ["--bounds"] * case.bounds
    code, out, said = run("sim", case.design.text, *words, "--compare", "--json")
    name = f"'{case.design.text}' {' '.join(map(str, words))}"
    hold(code == 0, f"{name}: ends with {code}, {said}")
    methods = {one["name"]: one for one in map(json.loads, out.splitlines())}
    shape = f"layers {model.layers}; heads {model.heads}; kv-heads {model.kv}; head-dim {model.dim}; block {case.design.block}; "
    dense = json.loads(run("sim", shape + "all: dense", *words, "--json")[1])
    for method, body in (("dense", "all: dense"), ("window 4096", "all: local 4096t"), ("StreamingLLM", "all: sink 4t | local 2000t")) + (
            (("DuoAttention", f"all: sink 64t | local 256t; kv {','.join(map(str, range(0, model.kv, 2)))}: dense"),) if model.kv > 1 else ()):
        alone = dense if method == "dense" else json.loads(run("sim", shape + body, *words, "--json")[1])
        alike(f"{name}: {method}", methods.get(method), alone, ("pairs", "flop", "time_us", "dense_time_us", "speed_up", "kv", "fit", "tiers", "end_to_end"))
    tiered, linear, newest = methods["tiered memory"], methods["Hydra linear state"], min(n, 8192)
    padded, each = -(-n // case.page) * case.page, 2 * model.dim * {"as-dtype": 2, "bf16": 2, "e4m3": 1, "int8": 1}[case.kv_type] * max(1, model.kv // m.tp) * model.layers * case.batch
    near(f"{name}: newest tokens of dense", tiered["kv"]["used"] / tiered["kv"]["dense"], min(padded, 8192) / padded, 9)
    near(f"{name}: newest tokens on a GPU", tiered["tiers"]["hbm"], each * min(padded, 8192), 9)
    hold(tiered["kv"]["peak"] == tiered["tiers"]["hbm"] and tiered["kv_over_context"][-1]["used"] == tiered["kv"]["used"], f"{name}: tiered memory keeps {tiered['kv']}, {tiered['tiers']}")
    if case.phase == "decode":
        near(f"{name}: older tokens on the host", tiered["tiers"]["host"], each * (n - newest), 9)
        link = each * (n - newest) / (case.gpu.pcie_us)
        near(f"{name}: link of older tokens", tiered["tiers"]["link_us"], link)
        near(f"{name}: a step with them", tiered["time_us"], max(link, dense["time_us"]))
    state = model.layers * model.heads * model.dim * 2
    near(f"{name}: a linear state", linear["kv"]["used"], state * case.batch, 9)
    near(f"{name}: a linear state on a GPU", linear["kv"]["peak"], state * case.batch / m.tp, 9)
    hold(len({point["used"] for point in linear["kv_over_context"]}) == 1 and linear["tiers"]["link_us"] == 0, f"{name}: a linear state over the context")
    for one, kept in ((tiered, tiered["kv"]["peak"]), (linear, linear["kv"]["peak"])):
        for more in (0, 1):  # what is said to fit does, beside what a pass of as many holds, and one more does not
            batch, fit = one["fit"]["batch"] + more, one["fit"]
            if 0 < batch < 65536:
                asked = [batch if word is case.batch and words[at - 1] == "--batch" else word for at, word in enumerate(words)]
                said = json.loads(run("sim", shape + "all: dense", *asked, "--json")[1])["fit"]
                fits = said["weight_bytes"] + said["activation_bytes"] + kept / case.batch * batch <= said["memory_bytes"] * (1.00001 - 0.00002 * more)
                hold(fits != bool(more), f"{name}: {one['name']}: a batch of {batch} {'fits' if more else 'does not fit'}")


def spread(us):
    """The mean, and what nine in ten stay within."""
    return sum(us) / len(us), sorted(us)[math.ceil(0.9 * len(us)) - 1]


def check_arrivals(rng, nth):
    """Requests so far apart that none meets another take what the pages of their pieces and steps say, whenever they come and in whatever order they stand."""
    case = Case(rng, 20000 + nth, "prefill")
    prefix, chunk, tp = rng.choice([0, 0, 64, 300]), rng.choice([0, 0, 256, 700]), rng.choice([t for t in (1, 2) if case.model.kv % t == 0])
    shared = [case.design.text, "--model", case.model.path, "--gpu", case.gpu.name, "--fusion", case.fusion, "--tp", tp] + ["--bounds"] * case.bounds
    requests = [(rng.choice([511, 767, 1023, 1279, 2047]), rng.choice([1, 2, 2]), 100.0 * (at + 1)) for at in range(rng.choice([1, 3, 6, 11]))]
    path, name = os.path.join(folder, "arrivals.csv"), f"{requests} {' '.join(map(str, shared))} --prefix {prefix} --chunk {chunk}"

    @lru_cache(maxsize=None)
    def page(phase, n, new):
        answer = json.loads(run("sim", *shared, "--phase", phase, "--len", n, *(["--new", new] if new else []), "--json")[1])
        hold(answer["tiers"]["host"] == 0, f"{name}: a sequence spills")
        return answer["end_to_end"]["time_us"]

    def served(lines):
        with open(path, "w") as file:
            file.write("output, arrival, prompt\n" + "".join(f"{o}, {a}, {p}\n" for p, o, a in lines))
        code, out, said = run("sim", "--requests", path, *shared, *(["--chunk", chunk] if chunk else []), *(["--prefix", prefix] if prefix else []), "--json")
        hold(code == 0, f"{name}: ends with {code}, {said}")
        return json.loads(out)["pattern"] if code == 0 else None
    first, rest = [], []
    for prompt, output, _ in requests:
        done, us = prefix, 0
        while done < prompt:
            new = min(chunk or prompt, prompt - done)
            done, us = done + new, us + page("prefill", done + new, new if done else 0)
        first.append(us)
        rest.append(page("decode", prompt + 1, 0) if output == 2 else 0)
    one = served(requests)
    if one is None:
        return
    near(f"{name}: all done", one["time_us"], requests[-1][2] * 1e6 + first[-1] + rest[-1], 5)
    own = {"first_token": spread(first), "next_token": spread([us for us in rest if us] or [0])}
    for which, (mean, most) in own.items():
        near(f"{name}: {which}", one[which + "_us"] or 0, mean, 2 if prefix else 3)
        near(f"{name}: {which}, nine in ten", one[which + "_p90_us"] or 0, most, 2 if prefix else 3)
    hold(one["at_a_time"] == 1, f"{name}: {one['at_a_time']} at a time")
    mixed = rng.sample(requests, len(requests))
    hold(served(mixed) == one, f"{name}: other lines first give another answer")
    later = served([(p, o, a + 50) for p, o, a in requests])
    for which in ("first_token_us", "first_token_p90_us", "next_token_us", "next_token_p90_us", "at_a_time", "steps", "cache_bytes"):
        hold(later and (later[which] == one[which] or abs(later[which] - one[which]) < 2e-5 * one[which]), f"{name}: all 50 s later changes {which}")


with tempfile.TemporaryDirectory() as folder:
    rng, answered = random.Random(SEED), 0
    for nth in range(CASES):
        case = Case(rng, nth, rng.choice(["prefill", "decode", "train"]), nth % 25 == 3)
        answered += case.check()
        if (nth % 4 == 0 or case.machine.pp > 1) and case.answer:
            case.check_dense()
        if nth % 5 == 0 and case.answer:
            check_page(case)
        if nth % 10 == 1:
            check_relations(case)
        if nth % 5 == 2:
            check_requests(rng, nth)
        if nth % 25 == 4:
            check_arrivals(rng, nth)
        if nth % 5 == 1:
            check_latent(rng, nth)
        if nth % 10 == 6:
            check_compare(rng, nth)
        if nth % 5 == 3:
            check_hybrid(rng, nth)
        if nth % 5 == 4:
            check_parallel(rng, nth)
    hold(answered > 0.9 * CASES, f"{answered} of {CASES} questions were answered")
end()
