"""The operators of torch, on the CPU."""
import array
import concurrent.futures
import contextlib
import copy
import functools
import importlib
import itertools
import operator
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy
import torch
import torch._dynamo.testing
import torch._subclasses.fake_tensor
import torch.distributed
import torch.fx.experimental.proxy_tensor
import torch.multiprocessing
import torch.overrides
import torch.profiler
import torch.utils._python_dispatch
import torch.utils.checkpoint

import s2
import s2.torch_ops  # noqa: F401  registers them
import test_fuzz

TEXT = "heads 4; kv-heads 2; head-dim 32; block 16; layers 2; layers all: sink 1 | local 2 | stride 4 phase kv; layers 1: dense"


def eager(q, k, v, mask, softcap=None, sinks=None):
    group = q.shape[1] // k.shape[1]
    score = q @ k.repeat_interleave(group, 1).transpose(-1, -2) * q.shape[-1] ** -0.5
    if softcap is not None:
        score = softcap * torch.tanh(score / softcap)
    score = score.masked_fill(~mask, float("-inf"))
    if sinks is not None:
        score = torch.cat([score, sinks[None, :, None, None].expand(*score.shape[:-1], 1)], -1)
    return torch.softmax(score, -1)[..., :k.shape[2]] @ v.repeat_interleave(group, 1)


def draw(tokens, dtype=torch.float32):
    """As a model has them: (batch, tokens, heads, d), seen with heads first."""
    return [torch.randn(2, tokens, heads, 32).to(dtype).transpose(1, 2).requires_grad_() for heads in (4, 2, 2)]


def draw_lists(tokens, queries, query_block, block, heads, most=3, sequences=2, device="cpu"):
    """Counts and block numbers, some of them out of range."""
    rows = -(-tokens // query_block) - (tokens - queries) // query_block
    return (torch.randint(-1, most + 2, (sequences, heads, rows), dtype=torch.int32, device=device),
            torch.randint(-1, -(-tokens // block) + 1, (sequences, heads, rows, most), dtype=torch.int32, device=device))


def listed_mask(counts, blocks, tokens, queries, query_block, block, heads):
    """[sequence, head, query, key], by the definition of a list."""
    position = torch.arange(tokens - queries, tokens, device=counts.device)
    kept = torch.arange(blocks.shape[-1], device=counts.device) < counts[..., None]
    named = torch.nn.functional.one_hot(torch.where(kept & (blocks >= 0), blocks, -1).long() + 1, -(-tokens // block) + 2).any(-2)[..., 1:]
    per_row = named[:, :, position // query_block - (tokens - queries) // query_block].repeat_interleave(heads // counts.shape[1], 1)
    key = torch.arange(tokens, device=counts.device)
    return per_row[..., key // block] & (key <= position[:, None])


def listed_eager(q, k, v, mask):
    """What rows of a mask of each sequence read; nothing is 0."""
    want = torch.cat([eager(q[at:at + 1], k[at:at + 1], v[at:at + 1], mask[at]) for at in range(q.shape[0])])
    return torch.where(mask.any(-1, keepdim=True), want, 0.0)


def a_step_is_what_its_calls_are(test, device, dtype, tolerance, steps=90):
    """Sequences of unequal lengths, over ends of pages, beside a second cache that is written and read call by call."""
    pattern = s2.Pattern("heads 4; kv-heads 2; head-dim 64; block 16; layers 3; layers all: local 2 | stride 4 phase head+1; layers 1: dense")
    like, lengths = torch.zeros(1, dtype=dtype, device=device), (30, 47, 5)
    stepped, plain = s2.Cache(pattern, like), s2.Cache(pattern, like)
    rows = [[cache.open() for _ in lengths] for cache in (stepped, plain)]
    for cache, numbers in zip((stepped, plain), rows):
        torch.manual_seed(5)
        for number, n in zip(numbers, lengths):
            cache.append(number, n)
            for layer in range(3):
                cache.write(number, layer, *(torch.randn(2, n, 64, device=device).to(dtype) for _ in range(2)))
    q = torch.zeros(3, 3, 4, 1, 64, dtype=dtype, device=device)
    k, v = (torch.zeros(3, 3, 2, 1, 64, dtype=dtype, device=device) for _ in range(2))

    def layers(cache, numbers):
        out = []
        for layer in range(3):
            cache.write(numbers, layer, k[layer], v[layer])
            out.append(cache.attend(q[layer], numbers, layer))
        return torch.stack(out)

    step = s2.Step(stepped, rows[0], lambda: layers(stepped, rows[0]))
    for _ in range(steps):
        for one in (q, k, v):
            one.copy_(torch.randn(one.shape).to(dtype))
        got = step().clone()
        plain.append(rows[1], 1)
        want = layers(plain, rows[1])
        test.assertTrue(bool(got.isfinite().all()))
        test.assertLess(float((got - want).abs().max()), tolerance)
    test.assertEqual(stepped.usage, plain.usage)
    test.assertRaisesRegex(s2.ArgumentError, "sequence: a step", s2.Step(stepped, rows[0][:2], lambda: layers(stepped, rows[0])))
    return step


def run_rank(rank, ranks, port, text, deal, answer):
    """One process of a tensor-parallel layer: its own heads, and a sum over all."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    share = s2.parallel.Share(s2.Pattern(text), ranks, rank, deal)
    x, w_q, w_k, w_v, w_o = weights()
    out = []
    for layer in range(share.pattern.layers):
        q, k, v = (torch.nn.functional.linear(x, share.take(w, layer, kv)).unflatten(-1, (-1, 32)).transpose(1, 2)
                   for w, kv in ((w_q, False), (w_k, True), (w_v, True)))
        o = s2.attention(q, k, v, share.pattern, layer).transpose(1, 2).flatten(2)
        y = torch.nn.functional.linear(o, share.take(w_o.t(), layer).t())
        torch.distributed.all_reduce(y)
        out.append(y)
    if rank == 0:
        torch.save(torch.stack(out), answer)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def weights():
    torch.manual_seed(4)
    return torch.randn(2, 90, 64), *(torch.randn(n * 32, 64) / 8 for n in (4, 2, 2)), torch.randn(64, 4 * 32) / 11


def run_training(rank, ranks, port, text, deal, folder):
    """One process of a layer that trains: its gradients, and what calls that are wrong say."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    share = s2.parallel.Share(s2.Pattern(text), ranks, rank, deal)
    x, *every = (one.requires_grad_() for one in weights())
    own = [share.take(w, 0, kv) for w, kv in zip(every, (False, True, True))] + [share.take(every[3].t(), 0).t()]
    loss_of(x, own, share.pattern, s2.parallel.copied, s2.parallel.summed).backward()
    said = {}
    for name, call in wrong_sums(x).items():
        try:
            call()
        except s2.Error as refused:
            said[name] = f"{type(refused).__name__} {refused}"
    torch.save(([one.grad for one in (x, *every)], said), f"{folder}/{rank}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def loss_of(x, every, pattern, copied=lambda x: x, summed=lambda y: y):
    """Of a layer whose input goes on beside attention, as in a model."""
    h = copied(x.sin())
    q, k, v = (torch.nn.functional.linear(h, w).unflatten(-1, (-1, 32)).transpose(1, 2) for w in every[:3])
    o = s2.attention(q, k, v, pattern).transpose(1, 2).flatten(2)
    y = x + summed(torch.nn.functional.linear(o, every[3]))
    return (y * y.detach().cos()).sum()


def wrong_sums(x):
    """Calls that name an argument of the sums between ranks."""
    return {"x: a": lambda: s2.parallel.copied(numpy.zeros(3)), "x: dense": lambda: s2.parallel.copied(torch.zeros(3, dtype=torch.int32)),
            "y: strides": lambda: s2.parallel.summed(torch.zeros(3, 4).t()), "y: leaf": lambda: s2.parallel.summed(torch.zeros(3, requires_grad=True)),
            "y: sparse": lambda: s2.parallel.summed(torch.zeros(3).to_sparse()), "process_group": lambda: s2.parallel.summed(torch.zeros(3), "world")}


LONG = ["heads 4; kv-heads 2; head-dim 32; block 16; layers 3; layers all: sink 1 | local 2 | stride 4 phase kv; layers 1: dense; layers 2: local 1",
        "heads 4; kv-heads 4; head-dim 32; block 16; layers 2; layers all: local 21t | sink 5t; layers 1: chunk 4"]


def run_context(rank, ranks, port, by, folder):
    """One process of a sequence that is cut: outputs, gradients, and the bytes that it sent."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    import s2.exchange

    swap, sent = s2.exchange._swap, []
    s2.exchange._swap = lambda outgoing, *rest: (sent.extend((to, one.numel() * one.element_size()) for to, one in outgoing), swap(outgoing, *rest))[1]
    made = []
    for number, text in enumerate(LONG):
        pattern = s2.Pattern(text)
        context = s2.parallel.Context(pattern, rank, s2.parallel.cut(pattern, ranks, 200, by))
        for layer in range(pattern.layers):
            leaves = [one[:, :, context.begin:context.end].detach().requires_grad_() for one in of_sequence(pattern, layer)]
            sent.clear()
            o = context.attention(*leaves, layer)
            there = list(sent)
            gradients = torch.autograd.grad((o * o.detach().cos()).sum(), leaves)
            made.append((number, layer, context.begin, context.end, o.detach(), gradients, there, sum(size for _, size in sent[len(there):])))
    torch.save(made, f"{folder}/{rank}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def of_sequence(pattern, layer):
    torch.manual_seed(7 + layer)
    return [torch.randn(2, heads, 200, 32) for heads in (pattern.heads, pattern.kv_heads, pattern.kv_heads)]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Ranks(unittest.TestCase):
    @unittest.skipUnless(torch.distributed.is_available() and torch.distributed.is_gloo_available(), "needs torch.distributed with gloo")
    def test_a_sequence_cut_between_ranks_is_what_it_is_whole(self):
        for ranks, by in ((2, "tokens"), (4, "pairs")):
            with tempfile.TemporaryDirectory() as folder:
                torch.multiprocessing.spawn(run_context, (ranks, free_port(), by, folder), ranks)
                found = [torch.load(f"{folder}/{rank}") for rank in range(ranks)]
            bytes_sent = {}
            for parts in zip(*found):
                number, layer = parts[0][:2]
                pattern = s2.Pattern(LONG[number])
                leaves = [one.requires_grad_() for one in of_sequence(pattern, layer)]
                want = s2.attention(*leaves, pattern, layer)
                gradients = torch.autograd.grad((want * want.detach().cos()).sum(), leaves)
                self.assertLess((torch.cat([part[4] for part in parts], 2) - want).abs().max(), 1e-5)
                for nth, wanted in enumerate(gradients):
                    self.assertLess((torch.cat([part[5][nth] for part in parts], 2) - wanted).abs().max(), 1e-5)
                self.assertEqual(sum(size for part in parts for _, size in part[6]), sum(part[7] for part in parts))  # the same way back
                for rank, part in enumerate(parts):
                    for to, size in part[6]:
                        bytes_sent[number, rank, to] = bytes_sent.get((number, rank, to), 0) + size
            for number, text in enumerate(LONG):
                context = s2.parallel.Context(s2.Pattern(text), 0, s2.parallel.cut(s2.Pattern(text), ranks, 200, by))
                said = {(number, a, b): size for a, row in enumerate(context.traffic(32, 4, batch=2)) for b, size in enumerate(row) if size}
                self.assertEqual(said, {key: size for key, size in bytes_sent.items() if key[0] == number})

    @unittest.skipUnless(torch.distributed.is_available() and torch.distributed.is_gloo_available(), "needs torch.distributed with gloo")
    def test_two_ranks_give_what_one_gives(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(run_rank, (2, free_port(), TEXT, [[1, 0], [0, 1]], folder + "/o"), 2)
            got, (x, w_q, w_k, w_v, w_o) = torch.load(folder + "/o"), weights()
        for layer in range(2):
            q, k, v = (torch.nn.functional.linear(x, w).unflatten(-1, (-1, 32)).transpose(1, 2) for w in (w_q, w_k, w_v))
            want = torch.nn.functional.linear(s2.attention(q, k, v, s2.Pattern(TEXT), layer).transpose(1, 2).flatten(2), w_o)
            self.assertLess(float((got[layer] - want).abs().max()), 1e-5)


    @unittest.skipUnless(torch.distributed.is_available() and torch.distributed.is_gloo_available(), "needs torch.distributed with gloo")
    def test_gradients_of_two_ranks_are_those_of_one(self):
        for deal in (None, [[1, 0], [0, 1]]):
            with tempfile.TemporaryDirectory() as folder:
                torch.multiprocessing.spawn(run_training, (2, free_port(), TEXT, deal, folder), 2)
                found = [torch.load(f"{folder}/{rank}") for rank in range(2)]
            x, *every = (one.requires_grad_() for one in weights())
            loss_of(x, every, s2.Pattern(TEXT)).backward()
            for rank, (_, said) in enumerate(found):
                self.assertEqual(set(said), set(wrong_sums(x)), rank)
                for name, text in said.items():
                    self.assertTrue(text.startswith("ArgumentError " + name.split(":")[0] + ":"), text)
            for of_rank, _ in found:  # an input's is whole on each rank
                self.assertLess((of_rank[0] - x.grad).abs().max(), 1e-4)
            for nth, wanted in enumerate(every, 1):  # a weight's lies in the rows of each rank's heads
                self.assertLess((found[0][0][nth] + found[1][0][nth] - wanted.grad).abs().max(), 1e-4)

    def test_sums_between_ranks_want_a_process_group(self):
        for call in (s2.parallel.copied, s2.parallel.summed):
            self.assertRaisesRegex(s2.ArgumentError, "process_group: .*init_process_group", call, torch.zeros(3))


class Operators(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.pattern = s2.Pattern(TEXT)

    def test_outputs_and_gradients_are_eager_attentions(self):
        mask = torch.from_numpy(self.pattern.mask(0, 150))
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.03), (torch.float16, 4e-3)):
            leaves = draw(150, dtype)
            o = s2.attention(*leaves, self.pattern)
            weight = torch.randn_like(o)
            got, again = (torch.autograd.grad(o, leaves, weight, retain_graph=True) for _ in range(2))
            plain = [one.detach().float().requires_grad_() for one in leaves]
            want = eager(*plain, mask)
            self.assertLess((o - want).abs().max(), tolerance)
            for one, other, wanted in zip(got, again, torch.autograd.grad(want, plain, weight.float())):
                self.assertTrue(torch.equal(one, other))  # deterministic
                self.assertLess((one - wanted).abs().max(), tolerance)

    def test_calls_between_leave_what_gradients_need(self):
        plain, others = draw(90), draw(90)
        for wanting in ((True, True, True), (True, False, False), (False, True, False)):
            leaves = [one.detach().requires_grad_(wants) for one, wants in zip(draw(90), wanting)]
            wanted, weight = [one for one in leaves if one.requires_grad], torch.randn(leaves[0].shape)
            with torch.no_grad():
                for _ in range(3):  # from now on its lse is one that nobody sees
                    s2.attention(*plain, self.pattern)
            o = s2.attention(*leaves, self.pattern)
            with torch.no_grad():
                s2.attention(*others, self.pattern)
            got = torch.autograd.grad(o, wanted, weight)
            for one, other in zip(got, torch.autograd.grad(s2.attention(*leaves, self.pattern), wanted, weight)):
                self.assertTrue(torch.equal(one, other))
        with torch.no_grad():
            self.assertRaisesRegex(s2.ArgumentError, "return_lse", s2.attention, *plain, self.pattern, return_lse=1)

    def test_caps_and_sinks_are_eager_attentions_and_have_gradients(self):
        mask = torch.from_numpy(self.pattern.mask(0, 90))
        for softcap, sinks in ((1.5, None), (None, torch.randn(4)), (0.7, torch.randn(4))):
            leaves = draw(90) + ([] if sinks is None else [sinks.clone().requires_grad_()])
            more = {"softcap": softcap, "sinks": leaves[3] if sinks is not None else None}
            o, want = s2.attention(*leaves[:3], self.pattern, **more), eager(*leaves[:3], mask, **more)
            self.assertLess((o - want).abs().max(), 1e-5)
            weight = torch.randn_like(o)
            for one, wanted in zip(torch.autograd.grad(o, leaves, weight), torch.autograd.grad(want, leaves, weight)):
                self.assertLess((one - wanted).abs().max(), 1e-5)
            with torch.no_grad():  # not through the dispatcher
                self.assertTrue(torch.equal(s2.attention(*leaves[:3], self.pattern, **more), o))
        self.assertRaisesRegex(s2.ArgumentError, "sinks: float32", s2.attention, *draw(20), self.pattern, sinks=torch.zeros(3))
        self.assertRaisesRegex(s2.ArgumentError, "softcap", s2.attention, *draw(20), self.pattern, softcap=-1.0)

    def test_torchs_own_checks_pass(self):
        sinks = torch.randn(4, requires_grad=True)
        for op in (torch.ops.s2.attention.default, torch.ops.s2.attention_output.default):
            torch.library.opcheck(op, (*draw(40), self.pattern.number, 0, None, "prefill", None, None, True, 2.0, sinks))
            torch.library.opcheck(op, (*draw(40), self.pattern.number, 0, None, "prefill", None, None))

    def test_a_graph_that_was_made_without_gradients_gives_them(self):
        """It has the operator that makes no lse, which then is computed for the gradients."""
        sinks = torch.randn(4)
        for more in ({}, {"sinks": sinks, "softcap": 2.0, "layer": 1}):
            given = [one.detach() for one in draw(40)]
            leaves = [one.clone().requires_grad_() for one in given]
            made = torch.fx.experimental.proxy_tensor.make_fx(lambda *x: s2.attention(*x, self.pattern, **more))(*given)
            self.assertIn("s2.attention_output", made.code)
            weight = torch.randn_like(given[0])
            want = s2.attention(*leaves, self.pattern, **more)
            got = made(*leaves)
            self.assertTrue(torch.equal(got, want))
            self.assertTrue(all(map(torch.equal, torch.autograd.grad(got, leaves, weight), torch.autograd.grad(want, leaves, weight))))

    def test_compiled_code_is_one_graph_with_gradients(self):
        def layer(q, k, v):
            return s2.attention(q * 2, k, v, self.pattern, 0).sin()

        leaves = draw(40)
        plain = layer(*leaves)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")(*leaves)
        self.assertTrue(torch.equal(plain, compiled))
        for one, other in zip(torch.autograd.grad(plain.sum(), leaves), torch.autograd.grad(compiled.sum(), leaves)):
            self.assertTrue(torch.equal(one, other))

    def test_lengths_may_be_symbols_in_compiled_code(self):
        """One graph for all lengths, whatever is reckoned from them."""
        calls = {"plain": lambda q, k, v: s2.attention(q * 2, k, v, self.pattern, 1),
                 "lse": lambda q, k, v: s2.attention(q, k, v, self.pattern, return_lse=True)[1],
                 "sequences": lambda q, k, v: s2.attention(q[0], k[0], v[0], self.pattern, cu_seqlens_q=[0, q.shape[2] // 2, q.shape[2]],
                                                           cu_seqlens_k=(0, q.shape[2] // 2, q.shape[2]))}
        for name, call in calls.items():
            for backend in ("eager", "aot_eager"):
                with self.subTest(name, backend=backend):
                    torch._dynamo.reset()
                    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
                    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=counter)
                    for tokens in (40, 41, 64, 100, 33):
                        leaves = draw(tokens)
                        got, want = compiled(*leaves), call(*leaves)
                        self.assertTrue(torch.equal(got, want))
                        if name != "lse":
                            for one, other in zip(torch.autograd.grad(got.sum(), leaves), torch.autograd.grad(want.sum(), leaves)):
                                self.assertTrue(torch.equal(one, other))
                    self.assertEqual(counter.frame_count, 1)
        with self.assertRaisesRegex(s2.ArgumentError, "cu_seqlens_q"):
            torch.compile(lambda q, k, v: s2.attention(q[0], k[0], v[0], self.pattern, cu_seqlens_q=[0, 50]), backend="aot_eager")(*(one.detach() for one in draw(40)))

    def test_a_graph_that_was_saved_finds_its_pattern_and_no_other(self):
        class Model(torch.nn.Module):
            def forward(own, q, k, v):
                return s2.attention(q, k, v, self.pattern, 0)

        inputs = tuple(one.detach().contiguous() for one in draw(40))
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(torch.export.export(Model(), inputs), folder + "/model.pt2")
            torch.save((inputs, Model()(*inputs)), folder + "/answer")
            for text, said in ((TEXT, "True"), (TEXT.replace("local 2", "local 1"), "ArgumentError pattern: that of this graph")):
                done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("exported.py"), folder, text], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.startswith(said), done.stdout)

    def test_gradients_come_from_any_part_of_a_tensor(self):
        """What autograd hands over is not the caller's to lay out."""
        for dtype in (torch.float32, torch.bfloat16):
            leaves, one = draw(40, dtype), torch.randn(2, 4, 40, 1).to(dtype)
            parts = {"behind a column": lambda o: torch.cat([one, o], -1), "behind numbers": lambda o: torch.cat([one.flatten()[:3], o.flatten()]), "columns": lambda o: o[..., 1:],
                     "backwards": lambda o: o.flip(-1), "turned": lambda o: o.mT, "a sum": lambda o: o.sum((-1, -2)), "rows": lambda o: o[:, :, 3::2]}
            for name, part in parts.items():
                for attend in (lambda: s2.attention(*leaves, self.pattern), lambda: torch.ops.s2.attention(*leaves, self.pattern.number, 0, None, "prefill", None, None)[0]):
                    with self.subTest(name, dtype=dtype):
                        o = attend()
                        weight = torch.randn_like(part(o))
                        laid_out = torch.autograd.grad(part(o), o, weight, retain_graph=True)[0].contiguous().clone()
                        for got, want in zip(torch.autograd.grad(part(o), leaves, weight, retain_graph=True), torch.autograd.grad(o, leaves, laid_out)):
                            self.assertTrue(torch.equal(got, want))

    def test_a_call_like_the_last_is_not_checked_again_and_gives_its_own_answer(self):
        shapes = [(40, {}), (41, {}), (40, {"scale": 0.3}), (40, {"phase": "decode"}), (40, {"deterministic": False}), (40, {"layer": 1})]
        inputs = [([one.detach() for one in draw(tokens)], more) for tokens, more in shapes]
        first = [s2.attention(*tensors, self.pattern, **more) for tensors, more in inputs]
        fresh = [(draw(tokens), more) for tokens, more in shapes]
        with unittest.mock.patch.object(s2.torch_ops, "_run", side_effect=AssertionError("it was checked again")):
            for (tensors, more), want in zip(inputs, first):
                self.assertTrue(torch.equal(s2.attention(*tensors, self.pattern, **more), want))
                self.assertTrue(torch.equal(s2.attention(*tensors, self.pattern, return_lse=True, **more)[0], want))
                front = importlib.import_module("s2.attention")._kept.again[self.pattern.number, more.get("layer", 0)][0]  # looked at first by the next call
                _, layer, scale, phase, _, _, deterministic, _ = front.rest
                self.assertEqual({"layer": layer, "scale": scale, "phase": phase, "deterministic": deterministic},
                                 {"layer": 0, "scale": None, "phase": "prefill", "deterministic": True, **more})
                self.assertTrue(front.look(*tensors))
            with torch.no_grad():
                moved = [s2.attention(*(one.detach() for one in tensors), self.pattern, **more) for tensors, more in fresh]
        for (tensors, more), got in zip(fresh, moved):
            self.assertTrue(torch.equal(s2.attention(*tensors, self.pattern, **more), got))  # with gradients, and so by another way

    def test_gradients_like_the_last_are_not_checked_again_and_are_their_own(self):
        """Of all tensors or of some, in any order with calls that want none, and of keys that are the values."""
        def ask(leaves, more):
            wanted = [one for one in dict.fromkeys(leaves) if one.requires_grad]
            o = s2.attention(*leaves, self.pattern, **more)
            with torch.no_grad():
                self.assertIsNone(s2.attention(*leaves, self.pattern, **more).grad_fn)
            return o, *torch.autograd.grad(o.square().sum(), wanted)

        def forms():
            q, k, v = draw(40)
            return [(q, k, v), (q.detach(), k, v), (q, k.detach(), v.detach()), (q, k, k)]

        options = [{}, {"scale": 0.5}, {"layer": 1, "scale": 0.3, "phase": "decode", "softcap": 2.0, "deterministic": False}]
        kept = importlib.import_module("s2.attention")._kept
        kept.again.clear()  # what other tests left stays where it is when it is met, and is the first to be forgotten
        for more in options:
            for leaves in forms():
                ask(leaves, more)
        fresh = [(leaves, more) for more in options for leaves in forms()]
        again = AssertionError("it was checked again")
        with unittest.mock.patch.multiple(s2.torch_ops, _run=unittest.mock.Mock(side_effect=again), _check=unittest.mock.Mock(side_effect=again)):
            found = [ask(leaves, more) for leaves, more in fresh]
        for (leaves, more), got in zip(fresh, found):
            kept.again.clear()
            for one, want in zip(got, ask(leaves, more)):
                self.assertTrue(torch.equal(one, want), more)

    def test_keys_that_are_the_values_are_recognised_as_such(self):
        (q, k, v), (q2, k2, _) = ([one.detach() for one in draw(40)] for _ in range(2))
        want = [s2.attention(*given, self.pattern) for given in ((q, k, k.clone()), (q2, k2, k2.clone()), (q, k, v))]
        s2.attention(q, k, k, self.pattern)
        s2.attention(q, k, v, self.pattern)
        with unittest.mock.patch.object(s2.torch_ops, "_run", side_effect=AssertionError("it was checked again")):
            for given, wanted in zip(((q, k, k), (q2, k2, k2), (q, k, v)), want):
                self.assertTrue(torch.equal(s2.attention(*given, self.pattern), wanted))
        alike = s2.Pattern("heads 2; kv-heads 2; head-dim 32; block 16; layers all: local 2")
        for given in ((k, k, k), (k, v, k), (v, k, k), (k, k, v), (k, k, k)) * 2:
            self.assertTrue(torch.equal(s2.attention(*given, alike), s2.attention(*(one.clone() for one in given), alike)))

    def test_wrong_calls_after_right_ones_are_refused(self):
        q, k, v = (one.detach() for one in draw(40))
        s2.attention(q, k, v, self.pattern, 1)
        skew_q, skew_k, skew_v = (torch.empty(one.numel() + 1)[1:].as_strided(one.shape, one.stride()) for one in (q, k, v))
        for name, call in {"deterministic": lambda: s2.attention(q, k, v, self.pattern, 1, deterministic=1),
                           "layer": lambda: s2.attention(q, k, v, self.pattern, True),
                           "phase": lambda: s2.attention(q, k, v, self.pattern, 1, phase=["prefill"]),
                           "scale": lambda: s2.attention(q, k, v, self.pattern, 1, scale="1"),
                           "q: its data": lambda: s2.attention(skew_q, k, skew_v, self.pattern, 1),
                           "k: its data": lambda: s2.attention(q, skew_k, v, self.pattern, 1),
                           "v: its data": lambda: s2.attention(q, k, skew_v, self.pattern, 1),
                           "k: a torch": lambda: s2.attention(q, None, v, self.pattern, 1)}.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                call()

    @unittest.skipIf(s2.torch_ops._in_c is None, "no compiled part, or a torch that it does not know")
    def test_the_compiled_part_answers_what_python_does(self):
        """Any calls at all, right and wrong, watched and not, beside the same in Python; what neither knows is checked by others."""
        rng, hits, wanted = random.Random(11), 0, 0
        q, k, v = (one.detach() for one in draw(40))
        kept = importlib.import_module("s2.attention")._kept
        kept.again.pop((self.pattern.number, 0), None)
        for more in ({}, {"scale": 0.3}, {"scale": 1.0}, {"phase": "decode", "softcap": 2.0}):
            s2.attention(q, k, v, self.pattern, **more)
        with torch.no_grad():
            s2.attention(q.clone().requires_grad_(), k, v, self.pattern)
            s2.attention(q, torch.nn.Parameter(k), v, self.pattern)
        for more in ({}, {"scale": 0.3, "softcap": 2.0}):  # gradients are wanted of these
            s2.attention(q.clone().requires_grad_(), k, v, self.pattern, **more)
            s2.attention(q, torch.nn.Parameter(k), v, self.pattern, **more)
        s2.attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), self.pattern)
        known = kept.again[self.pattern.number, 0]

        def forms(one):
            skew = torch.empty(one.numel() + 1)[1:].as_strided(one.shape, one.stride())
            return [one.clone().requires_grad_(), torch.nn.Parameter(one), one.bfloat16(), one.half(), one.contiguous(), one[:, :, :39], one[:1], one[0], one.mT, skew, torch._neg_view(one),
                    one.to("meta"), one.to_sparse(), one.numpy(), None, 3, [one], torch.nested.nested_tensor(list(one)), one.as_subclass(type("Other", (torch.Tensor,), {})), q, k]

        odd = [forms(one) for one in (q, k, v)]
        around = [contextlib.nullcontext] * 6 + [torch.no_grad, torch.inference_mode, torch.autograd.forward_ad.dual_level, lambda: torch.autocast("cpu", torch.bfloat16)]
        for turn in range(3000):
            right = rng.choice([(q, k, v)] * 3 + [(odd[0][0], k, v), (q, odd[1][1], v), [one[2] for one in odd]])
            given = [rng.choice(others) if rng.random() < 0.1 else one for one, others in zip(right, odd)]
            options = [rng.choice([None] * 6 + [0.3, 0.3 + 0.0, 1, "x", torch.ones(())]), rng.choice(["prefill"] * 6 + ["".join(("dec", "ode")), "other", None, ["prefill"]]),
                       rng.choice([True] * 6 + [False, 1, None]), rng.choice([False] * 3 + [True] * 3 + [0, None]), rng.choice([None] * 6 + [2.0, 2, "x"])]
            if options[1] == "decode" and rng.random() < 0.5:
                options[4] = 2.0
            ended = []
            with rng.choice(around)():
                for answer in (s2.torch_ops.quick, s2.torch_ops.again):
                    try:
                        made = answer(known, *given, *options)
                    except s2.Error as refused:
                        made = f"{type(refused).__name__} {refused}"
                    ended.append(made if isinstance(made, tuple) else (made,))
            self.assertEqual([*map(type, ended[0])], [*map(type, ended[1])], (turn, options))
            for one, other in zip(*ended):
                self.assertTrue(torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other, (turn, options))
                self.assertEqual(type(getattr(one, "grad_fn", None)), type(getattr(other, "grad_fn", None)), (turn, options))
            hits += isinstance(ended[0][0], torch.Tensor)
            wanted += getattr(ended[0][0], "grad_fn", None) is not None
        self.assertGreater(hits, 150)
        self.assertGreater(wanted, 30)
        self.assertIsNone(s2.torch_ops.quick((), q, k, v, None, "prefill", True, False, None))
        self.assertIsNone(s2.torch_ops.quick(known, q, k, v))

    def by_dispatcher(self, name):
        """The operator as torch's dispatcher calls it, whatever stands before that."""
        return torch._C._get_operation_overload(f"s2::{name}", "")[0]

    def test_operators_answer_what_they_do_through_the_dispatcher(self):
        """Any calls at all, right and wrong, of the operators that compiled code calls. They end in the same, also in the same refusal."""
        rng, answered, refused = random.Random(12), 0, set()
        q, k, v = (one.detach() for one in draw(40))
        o, lse = s2.attention(q, k, v, self.pattern, return_lse=True)
        operators = [(torch.ops.s2.attention.default, self.by_dispatcher("attention"), (q, k, v)),
                     (torch.ops.s2.attention_output.default, self.by_dispatcher("attention_output"), (q, k, v)),
                     (torch.ops.s2.attention_backward.default, self.by_dispatcher("attention_backward"), (torch.randn_like(q), q, k, v, o, lse))]

        odd = [lambda one: one.clone().requires_grad_(), torch.nn.Parameter, torch.Tensor.bfloat16, torch.Tensor.contiguous, lambda one: one[:1], lambda one: one[0], lambda one: one.mT,
               lambda one: torch.empty(one.numel() + 1)[1:].as_strided(one.shape, one.stride()).copy_(one), torch._neg_view, lambda one: one.to("meta"), torch.Tensor.to_sparse,
               torch.Tensor.numpy, lambda one: None, lambda one: 3, lambda one: torch.nested.nested_tensor(list(one)),
               lambda one: one.as_subclass(type("Other", (torch.Tensor,), {})), lambda one: one.to(torch.complex64).conj()]

        gone = s2.Pattern(TEXT.replace("sink 1", "sink 3")).number
        after = [[self.pattern.number] * 9 + [gone, True, None, "x", float(self.pattern.number)], [0] * 9 + [1, True, 2, -1, 0.0, None, torch.zeros((), dtype=torch.int64)],
                 [None] * 9 + [0.3, 0.3, 1, "x", True, float("nan"), torch.ones(())], ["prefill"] * 9 + ["decode", "other", None, 3], [None] * 19 + [[0, 40], 3], [None] * 19 + [[0, 40]],
                 [True] * 9 + [False, 1, None, "x"], [None] * 9 + [2.0, 2, "x", -1.0], [None] * 19 + [torch.zeros(4), 3]]
        around = [contextlib.nullcontext] * 6 + [torch.no_grad, torch.inference_mode, torch.autograd.forward_ad.dual_level, lambda: torch.autocast("cpu", torch.bfloat16),
                                                 torch._C._AutoDispatchBelowAutograd, lambda: torch.device("cpu")]
        for turn in range(1500):
            op, dispatched, tensors = rng.choice(operators)
            wrong = rng.choice([0, 0, 0.05])
            changed = {nth: rng.randrange(len(odd)) for nth in range(len(tensors)) if rng.random() < wrong}
            given = [odd[changed[nth]](one) if nth in changed else one for nth, one in enumerate(tensors)]
            rest = [rng.choice(each) if rng.random() < wrong * 4 else each[0] for each in after]
            placed = rng.choice([6, 6, 7, 8, 9])
            by_name = dict(zip(("deterministic", "softcap", "sinks"), rest[6:]))
            named = {name: by_name[name] for nth, name in enumerate(by_name) if rng.random() < (wrong if nth < placed - 6 else 0.5)}  # one given twice is refused
            named |= {"x": 1} if rng.random() < wrong else {}
            rest = rest[:placed]
            ended = []
            with rng.choice(around)():
                for call in (op, dispatched):
                    try:
                        ended.append(call(*given, *rest, **named))
                    except Exception as failure:  # torch has its own for what its dispatcher does not take
                        ended.append(f"{type(failure).__name__} {failure}")
            where = (turn, op, changed, rest, named, ended if isinstance(ended[0], str) or isinstance(ended[1], str) else "")
            self.assertEqual(type(ended[0]), type(ended[1]), where)
            if isinstance(ended[0], str):
                self.assertEqual(*ended, where)
                refused.add(ended[0])
                continue
            for one, other in zip(*([made] if isinstance(made, torch.Tensor) else made for made in ended)):
                self.assertEqual((one.shape, one.stride(), one.dtype, one.device, one.requires_grad, one.is_inference(), type(one)),
                                 (other.shape, other.stride(), other.dtype, other.device, other.requires_grad, other.is_inference(), type(other)), where)
                self.assertTrue(one.is_meta or torch.equal(one, other), where)
            answered += 1
        self.assertGreater(answered, 700)
        self.assertGreater(len(refused), 20)

    def test_inferring_code_makes_no_lse(self):
        """Nobody can ask for it: a graph without gradients has one tensor of each call."""
        graphs = []
        q, k, v = draw(40)

        def keep(graph, _):
            graphs.append(graph.code)
            return graph

        for ask, wanted in ((torch.no_grad, "attention_output.default"), (contextlib.nullcontext, "attention.default")):
            torch.compiler.reset()
            graphs.clear()
            with ask():
                made = torch.compile(lambda *x: s2.attention(*x, self.pattern), fullgraph=True, backend=keep)(q, k, v)
            self.assertTrue(torch.equal(made, s2.attention(q, k, v, self.pattern)))
            self.assertIn(wanted, graphs[0])

    @unittest.skipIf(s2.torch_ops._in_c is None, "no compiled part, or a torch that it does not know")
    def test_compiled_code_calls_operators_around_the_dispatcher(self):
        """Forwards and gradients of a graph, in threads too, after the first of each; and whoever watches sees them."""
        leaves = draw(40)
        want = s2.attention(*leaves, self.pattern)
        gradients = torch.autograd.grad(want.square().sum(), leaves)
        whole = torch.compile(lambda *x: s2.attention(*x, self.pattern), fullgraph=True, backend="aot_eager")

        def ask():
            made = whole(*leaves)
            return made, *torch.autograd.grad(made.square().sum(), leaves)

        def check():
            for _ in range(20):
                for one, other in zip(ask(), (want, *gradients)):
                    self.assertTrue(torch.equal(one, other))

        ask()
        through = unittest.mock.Mock(side_effect=AssertionError("through the dispatcher"))
        with unittest.mock.patch.multiple(s2.torch_ops, _run=through, quick=through, quick_gradients=through):  # which what it calls begins with
            check()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(check) for _ in range(8)]:
                done.result()
        seen = []

        class Watch(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, operator, types, args=(), kwargs=None):
                seen.append(str(operator))
                return operator(*args, **(kwargs or {}))

        given = [one.detach() for one in leaves]
        operators = ((torch.ops.s2.attention.default, given), (torch.ops.s2.attention_backward.default, (want.detach(), *given, *torch.ops.s2.attention.default(
            *given, self.pattern.number, 0, None, "prefill", None, None))))
        for op, tensors in operators:
            for _ in range(2):
                op(*tensors, self.pattern.number, 0, None, "prefill", None, None)
                with Watch(), torch.profiler.profile() as profile:
                    op(*tensors, self.pattern.number, 0, None, "prefill", None, None)
                self.assertIn(op._schema.name, [one.name for one in profile.events()])
        self.assertIn("s2.attention.default", seen)

    @contextlib.contextmanager
    def in_c(self):
        """No call of the operators comes to Python."""
        through = unittest.mock.Mock(side_effect=AssertionError("in Python"))
        with unittest.mock.patch.multiple(s2.torch_ops, _run=through, quick=through, quick_gradients=through, _forward=through, _output=through, _backward=through):
            yield

    @unittest.skipIf(s2.torch_ops._in_c is None, "no compiled part, or a torch that it does not know")
    def test_operators_are_answered_in_c_however_they_are_called(self):
        """After two calls that are alike: arguments by place or by name, in what compiled code may run in."""
        leaves = draw(40)
        d_o = torch.randn_like(leaves[0])
        defaults = {"deterministic": True, "softcap": None, "sinks": None}
        around = {"below autograd": torch._C._AutoDispatchBelowAutograd, "no gradients": torch.no_grad, "inference": torch.inference_mode, "none are wanted": contextlib.nullcontext}
        for where, context in around.items():
            for placed, named in [(placed, named) for placed in range(4) for n in range(4 - placed) for named in itertools.combinations([*defaults][placed:], n)]:
                with self.subTest(where=where, placed=placed, named=named), context():
                    importlib.import_module("s2.attention")._kept.again.clear()
                    q, k, v = (one.detach().clone() for one in leaves)
                    rest = (self.pattern.number, 0, None, "prefill", None, None, *[*defaults.values()][:placed])
                    options = {name: defaults[name] for name in named}
                    ask = functools.partial(torch.ops.s2.attention.default, q, k, v, *rest, **options)
                    o, lse = ask()
                    ask_output = functools.partial(torch.ops.s2.attention_output.default, q, k, v, *rest, **options)
                    ask_gradients = functools.partial(torch.ops.s2.attention_backward.default, d_o, q, k, v, o, lse, *rest, **options)
                    want = *ask(), ask_output(), *ask_gradients(), *ask_gradients()
                    with self.in_c():
                        made = *ask(), ask_output(), *ask_gradients(), *ask_gradients()
                    self.assertTrue(all(map(torch.equal, made, want)))

    @unittest.skipIf(s2.torch_ops._in_c is None, "no compiled part, or a torch that it does not know")
    @unittest.skipIf(shutil.which("g++") is None, "inductor needs a compiler")
    def test_code_of_inductor_is_answered_in_c(self):
        """Of graphs that nobody wants gradients of, and of those that somebody wants them of."""
        def layers(q, k, v):
            for _ in range(3):
                q = s2.attention(q, k, v, self.pattern)
            return q

        leaves = draw(40)
        ones = torch.ones_like(leaves[0])
        whole, one = (torch.compile(made, fullgraph=True, dynamic=False) for made in (layers, lambda *x: s2.attention(*x, self.pattern)))

        def ask():
            with torch.no_grad():
                inferred = whole(*leaves)
            return inferred, whole(*(leaf.detach() for leaf in leaves)), *torch.autograd.grad(one(*leaves), leaves, ones)

        want = ask()
        ask()
        with self.in_c():
            self.assertTrue(all(map(torch.equal, ask(), want)))

    def test_all_is_the_same_without_the_compiled_part(self):
        """As a torch that is older than 2.10 has it, or a wheel that was built without Python.h."""
        package, compiled = pathlib.Path(s2.__file__).parent, "_again.abi3.so"
        if (package / compiled).exists() and hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            self.assertIsNotNone(s2.torch_ops._in_c)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(package, pathlib.Path(folder, "s2"), ignore=shutil.ignore_patterns(compiled, "__pycache__"))
            tests = pathlib.Path(__file__).parent
            done = subprocess.run([sys.executable, str(tests / "tests.py"), "test_torch.Operators*call*"], text=True, capture_output=True, cwd=folder,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join((folder, str(tests)))})
        self.assertRegex(done.stdout, "(?m)^[6-9] passed, 0 failed", done.stderr)

    def test_whoever_watches_is_not_passed_by(self):
        q, k, v = (one.detach() for one in draw(40))
        leaves = [one.clone().requires_grad_() for one in (q, k, v)]
        with torch.no_grad():  # both calls are known from here on
            want = s2.attention(q, k, v, self.pattern)
            s2.attention(*leaves, self.pattern)
        seen = []

        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                seen.append(operator.name())
                return operator(*args, **(kwargs or {}))

        rest = (self.pattern.number, 0, None, "prefill", None, None)
        for name, call in {"attention_output": lambda: s2.attention(q, k, v, self.pattern), "attention": lambda: torch.ops.s2.attention.default(q, k, v, *rest)}.items():
            seen.clear()
            with Watch():
                call()
            self.assertIn(f"s2::{name}", seen)
        with torch._subclasses.fake_tensor.FakeTensorMode() as fake:
            self.assertIsInstance(s2.attention(*map(fake.from_tensor, (q, k, v)), self.pattern), torch._subclasses.fake_tensor.FakeTensor)
        traced = torch.fx.experimental.proxy_tensor.make_fx(lambda *x: s2.attention(*x, self.pattern))(q, k, v)
        self.assertIn("s2.attention", traced.code)
        self.assertIn("s2::attention", str(torch.jit.trace(lambda *x: s2.attention(*x, self.pattern), (q, k, v)).graph))
        got = s2.attention(*leaves, self.pattern)
        self.assertTrue(torch.equal(got, want))
        self.assertTrue(all(one.abs().sum() > 0 for one in torch.autograd.grad(got.sum(), leaves)))
        with torch.inference_mode():
            self.assertTrue(s2.attention(q, k, v, self.pattern).is_inference())

    def test_gradients_pass_through_checkpoints_and_are_the_operators(self):
        leaves = draw(40)

        def layers(q, k, v):
            for layer in (0, 1, 0):
                q = s2.attention(q, k, v, self.pattern, layer)
            return q

        want = layers(*leaves)
        weight = torch.randn_like(want)
        for _ in range(2):
            got = torch.utils.checkpoint.checkpoint(layers, *leaves, use_reentrant=False)
            for one, wanted in zip(torch.autograd.grad(got, leaves, weight), torch.autograd.grad(want, leaves, weight, retain_graph=True)):
                self.assertTrue(torch.equal(one, wanted))
        plain, by_operator = (torch.autograd.grad(o, leaves, weight) for o in (
            s2.attention(*leaves, self.pattern), torch.ops.s2.attention(*leaves, self.pattern.number, 0, None, "prefill", None, None)[0]))
        for one, other in zip(plain, by_operator):
            self.assertTrue(torch.equal(one, other))
        twice = torch.autograd.grad(s2.attention(*leaves, self.pattern).sum(), leaves, create_graph=True)
        self.assertTrue(torch.equal(twice[0], torch.autograd.grad(s2.attention(*leaves, self.pattern).sum(), leaves)[0]))
        self.assertRaisesRegex(s2.UnsupportedError, "gradients of gradients", torch.autograd.grad, twice[0].sum(), leaves)

    def test_autocast_decides_the_type_as_for_torchs_own_attention(self):
        q, k, v = (one.detach() for one in draw(40))
        want = s2.attention(q, k, v, self.pattern)
        for dtype in (torch.bfloat16, torch.float16):
            with torch.autocast("cpu", dtype=dtype):
                mixed = s2.attention(q.to(dtype), k, v, self.pattern)  # a rotation in float32 beside a product of autocast's
                self.assertEqual(mixed.dtype, torch.nn.functional.scaled_dot_product_attention(q.to(dtype), q, q).dtype)
                self.assertTrue(torch.equal(s2.attention(q, k, v, self.pattern), mixed))
                leaves = [one.clone().requires_grad_() for one in (q, k, v)]
                gradients = torch.autograd.grad(s2.attention(*leaves, self.pattern).sum(), leaves)
            self.assertTrue(all(one.dtype is torch.float32 and one.abs().sum() > 0 for one in gradients))
            self.assertLess((mixed - want).abs().max(), 0.03)
            self.assertTrue(torch.equal(s2.attention(q, k, v, self.pattern), want))  # outside of it as before
            self.assertRaisesRegex(s2.ArgumentError, "k: dtype", s2.attention, q.to(dtype), k, v, self.pattern)

    def test_no_call_looks_at_the_signature_of_a_function(self):
        """Which costs the host more than all else of a call whose gradients are wanted; only a transform's has to."""
        leaves = draw(40)
        with unittest.mock.patch("inspect.signature", side_effect=AssertionError("a signature was looked at")):
            for more in ({}, {"return_lse": True}, {"sinks": torch.zeros(4, requires_grad=True)}):
                made = s2.attention(*leaves, self.pattern, **more)
                o = made[0] if isinstance(made, tuple) else made
                self.assertTrue(all(one.abs().sum() > 0 for one in torch.autograd.grad(o.square().sum(), leaves)))

    def test_a_known_call_is_as_it_was_inside_of_a_transform(self):
        """Of tensors that the transform does not follow, gradients wanted or not: nothing of it is known there."""
        q, k, v = draw(40)
        for leaves in ((q, k, v), [one.detach() for one in (q, k, v)]):
            want = [s2.attention(*leaves, self.pattern) for _ in range(3)][0].detach()
            factors = torch.tensor([1.0, 2.0, 3.0])
            got = torch.func.vmap(lambda t: s2.attention(*leaves, self.pattern) * t)(factors)
            self.assertTrue(torch.allclose(got, torch.stack([want * t for t in factors])))
            slope = torch.func.grad(lambda t: (s2.attention(*leaves, self.pattern) * t).sum())(torch.ones(()))
            self.assertTrue(torch.allclose(slope, want.sum(), rtol=1e-4))
            self.assertEqual(s2.attention(*leaves, self.pattern).requires_grad, leaves[0].requires_grad)

    def test_transforms_of_torch_func_are_their_definitions(self):
        sets = [[one.detach() for one in draw(40)] for _ in range(3)]
        stacked = [torch.stack(each) for each in zip(*sets)]
        weight = torch.randn_like(sets[0][0])

        def loss(*tensors):
            return (s2.attention(*tensors, self.pattern) * weight).sum()

        def wanted(tensors):
            leaves = [one.clone().requires_grad_() for one in tensors]
            return torch.autograd.grad(loss(*leaves), leaves)

        for one, other in zip(torch.func.grad(loss, (0, 1, 2))(*sets[0]), wanted(sets[0])):
            self.assertTrue(torch.equal(one, other))
        self.assertTrue(torch.equal(torch.func.vmap(lambda *x: s2.attention(*x, self.pattern))(*stacked),
                                    torch.stack([s2.attention(*one, self.pattern) for one in sets])))
        for nth, made in enumerate(torch.func.vmap(torch.func.grad(loss, (0, 1, 2)))(*stacked)):
            self.assertTrue(torch.equal(made, torch.stack([wanted(one)[nth] for one in sets])))
        self.assertTrue(torch.equal(torch.func.functionalize(lambda *x: s2.attention(*x, self.pattern))(*sets[0]), s2.attention(*sets[0], self.pattern)))
        with self.assertRaisesRegex(s2.UnsupportedError, "forward mode"):
            torch.func.jvp(lambda x: s2.attention(x, *sets[0][1:], self.pattern), (sets[0][0],), (sets[0][0],))
        with torch.autograd.forward_ad.dual_level(), self.assertRaisesRegex(s2.UnsupportedError, "forward mode"):
            s2.attention(torch.autograd.forward_ad.make_dual(sets[0][0], sets[0][0]), *sets[0][1:], self.pattern)

    def test_lists_of_blocks_are_an_operator(self):
        dense = s2.Pattern("heads 4; kv-heads 2; head-dim 32; block 32; layers all: dense")
        for tokens, queries, query_block, heads in ((100, 100, 64, 4), (100, 40, 16, 2), (300, 300, 128, 2)):
            q, k, v = (one.detach() for one in draw(tokens))
            q = q[:, :, tokens - queries:]
            lists = draw_lists(tokens, queries, query_block, 32, heads)
            want = listed_eager(q * 2, k, v, listed_mask(*lists, tokens, queries, query_block, 32, 4))

            def layer(q, k, v, counts, blocks):
                return s2.block_attention(q * 2, k, v, dense, counts, blocks, query_block=query_block).sin()

            self.assertLess((layer(q, k, v, *lists) - want.sin()).abs().max(), 1e-5)
            self.assertTrue(torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(q, k, v, *lists), layer(q, k, v, *lists)))
            torch.library.opcheck(torch.ops.s2.block_attention.default, (q, k, v, *lists, dense.number, 0, query_block, None, None, None))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                self.assertTrue(torch.equal(layer(q.bfloat16(), k, v, *lists), layer(*(one.bfloat16() for one in (q, k, v)), *lists)))
            with torch._subclasses.fake_tensor.FakeTensorMode() as fake:
                made = layer(*map(fake.from_tensor, (q, k, v, *lists)))
                self.assertEqual((made.shape, made.dtype), (q.shape, q.dtype))

    def test_lists_of_blocks_refuse_by_name(self):
        dense = s2.Pattern("heads 4; kv-heads 2; head-dim 32; block 32; layers all: dense")
        leaves = draw(100)
        q, k, v = (one.detach() for one in leaves)
        counts, blocks = draw_lists(100, 100, 64, 32, 4)
        attend = s2.block_attention
        for name, call in {"counts: contiguous int32": lambda: attend(q, k, v, dense, counts.long(), blocks),
                           "blocks: contiguous int32": lambda: attend(q, k, v, dense, counts, blocks.float()),
                           "blocks: contiguous int32 of": lambda: attend(q, k, v, dense, counts, blocks[..., ::2]),
                           "blocks: on meta": lambda: attend(q, k, v, dense, counts, blocks.to("meta")),
                           "counts: a torch": lambda: attend(q, k, v, dense, counts.numpy(), blocks),
                           "counts: 1 sequences": lambda: attend(q, k, v, dense, counts[:1], blocks[:1]),
                           "blocks: shape": lambda: attend(q, k, v, dense, counts, blocks[:, :2].contiguous()),
                           "pattern: an s2": lambda: attend(q, k, v, "dense", counts, blocks),
                           "q: it requires": lambda: attend(*leaves, dense, counts, blocks),
                           "q: it requires g": lambda: torch.func.grad(lambda x: attend(x, k, v, dense, counts, blocks).sum())(q),
                           "query_block": lambda: attend(q, k, v, dense, counts, blocks, query_block=0),
                           "layer": lambda: attend(q, k, v, dense, counts, blocks, 1)}.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                call()
        operator = torch.ops.s2.block_attention
        for name, call in {"lists of blocks have no": lambda: operator(*leaves, counts, blocks, dense.number, 0, 64, None, None, None)[0].sum().backward(),
                           "forward mode": lambda: torch.func.jvp(lambda x: attend(x, k, v, dense, counts, blocks), (q,), (q,))}.items():
            with self.subTest(name), self.assertRaisesRegex(s2.UnsupportedError, name):
                call()

    def test_lengths_may_differ(self):
        q, k, v = (one[0] for one in draw(100))
        begins = torch.tensor([0, 60, 100])
        o = s2.attention(q, k, v, self.pattern, cu_seqlens_q=begins, cu_seqlens_k=begins)
        for begin, end in ((0, 60), (60, 100)):
            want = s2.attention(*(one[None, :, begin:end] for one in (q, k, v)), self.pattern)[0]
            self.assertLess((o[:, begin:end] - want).abs().max(), 1e-6)
        torch.autograd.grad(o.sum(), q)

    def test_a_small_model_trains_as_with_eager_attention(self):
        mask = torch.from_numpy(self.pattern.mask(0, 64))
        tokens = torch.randint(0, 50, (4, 65))
        curves = []
        for attend in (lambda q, k, v: s2.attention(q, k, v, self.pattern), lambda q, k, v: eager(q, k, v, mask)):
            torch.manual_seed(2)
            embed, out = torch.nn.Embedding(50, 128), torch.nn.Linear(128, 50)
            project = torch.nn.Linear(128, 256)
            optimizer = torch.optim.Adam([*embed.parameters(), *out.parameters(), *project.parameters()], 1e-2)
            curve = []
            for _ in range(10):
                x = embed(tokens[:, :-1])
                q, k, v = project(x).view(4, 64, 8, 32).transpose(1, 2).split([4, 2, 2], 1)
                y = attend(q, k, v).transpose(1, 2).reshape(4, 64, 128)
                loss = torch.nn.functional.cross_entropy(out(x + y).flatten(0, 1), tokens[:, 1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                curve.append(loss.item())
            curves.append(curve)
        self.assertLess(curves[0][-1], curves[0][0] - 0.5)
        self.assertLess(max(abs(a - b) for a, b in zip(*curves)), 1e-3)

    def test_wrong_tensors_name_the_argument(self):
        q, k, v = draw(20)
        s2.attention(q, k, v, self.pattern)
        nested = torch.nested.nested_tensor([one.detach() for one in q])
        self.assertTrue(s2.attention(*(one.detach().to("meta") for one in (q, k, v)), self.pattern).is_meta)
        for name, call in {"k: dtype": lambda: s2.attention(q, k.bfloat16(), v.bfloat16(), self.pattern),
                           "q: a dense tensor is wanted, not a nested": lambda: s2.attention(nested, k, v, self.pattern),
                           "k: a dense tensor is wanted, not a nested": lambda: s2.attention(q, nested, v, self.pattern),
                           "k: on meta": lambda: s2.attention(q, k.to("meta"), v, self.pattern),
                           "k: a NumPy": lambda: s2.attention(q.detach().numpy(), k, v, self.pattern),
                           "return_lse": lambda: s2.attention(q[:1], k[:1], v[:1], self.pattern, return_lse=1),
                           "q: stride": lambda: s2.attention(q.transpose(2, 3), k, v, self.pattern),
                           "q: a dense": lambda: s2.Cache(self.pattern, q).attend(q[:1, :, :1].to_sparse(), [0], 0),
                           "k: a torch": lambda: s2.attention(q, k.detach().numpy(), v, self.pattern),
                           "pattern": lambda: torch.ops.s2.attention(q, k, v, 10**9, 0, None, "prefill", None, None)}.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                call()

    def test_a_cache_takes_no_gradients_and_no_other_kind(self):
        q, k, v = draw(3)
        cache = s2.Cache(self.pattern, q)
        both = [cache.open(), cache.open()]
        cache.append(both, 3)
        self.assertRaisesRegex(s2.UnsupportedError, "k: gradients", cache.write, both, 0, k, v)
        self.assertRaisesRegex(s2.ArgumentError, "k: a Tensor", cache.write, both, 0, k.detach().numpy(), v.detach().numpy())
        with torch.no_grad():
            cache.write(torch.tensor(both), 0, k, v)  # a tensor's numbers as a list's
        self.assertRaisesRegex(s2.UnsupportedError, "q: gradients", cache.attend, q[:, :, 2:], both, 0)
        self.assertRaisesRegex(s2.ArgumentError, "q: a Tensor", cache.attend, q[:, :, 2:].detach().numpy(), both, 0)
        kept, cache.keys = cache.keys, cache.keys[:1]
        self.assertRaisesRegex(s2.ArgumentError, "keys, values", cache.attend, q[:, :, 2:].detach(), both, 0)
        cache.keys = kept
        for body, said in ((lambda: cache.append(both, 1), "append"), (lambda: s2.Step(cache, both, print)(), "a step"), (lambda: cache.drop(0), "drop"), (cache.close, "close")):
            self.assertRaisesRegex(s2.ArgumentError, f"body: {said} inside", s2.Step(cache, both, body))

    def test_calls_of_a_cache_that_are_known_are_those_that_are_checked(self):
        """Any calls at all, right and wrong, of a cache that recognises them beside one that checks each."""
        rng, hits = random.Random(8), {"_write_again": 0, "quick": 0}
        known, checked = (s2.Cache(self.pattern, torch.zeros(1)) for _ in range(2))
        checked._ops = None

        def counted(name, method):
            def call(*given):
                made = method(*given)
                hits[name] += made is not None and made is not False
                return made
            return call

        known._ops = types.SimpleNamespace(**vars(s2.torch_ops))
        for name, whose in (("_write_again", known), ("quick", known._ops)):
            setattr(whose, name, counted(name, getattr(whose, name)))
        listed = type("Listed", (list,), {})
        odd = [torch.tensor([0, 1]), 0, [True], [0.0], [], [7], [[0]], None, range(1), range(2), array.array("i", [0, 1]), numpy.arange(2), [numpy.int64(0)],
               [numpy.float64(0)], listed([0, 1]), bytes(4), "01", {0, 1}, [0, None]]
        for cache in (known, checked):
            for _ in range(3):
                cache.append(cache.open(), 5)

        def tensors(turn, rows):
            kind = rng.choice([torch.float32] * 19 + [torch.bfloat16])
            q, k, v = (torch.randn(rows, heads, 1, 32, generator=torch.Generator().manual_seed(turn + heads)).to(kind) for heads in (4, 2, 2))
            if rng.random() < 0.05:
                q, k = rng.choice([(q[:, :3], k), (q, k[..., :16]), (q.mT, k), (q, None), (q.to("meta"), k.to("meta")), (q.clone().requires_grad_(), k.clone().requires_grad_()),
                                   (numpy.zeros(q.shape, "f4"), numpy.zeros(k.shape, "f4")), (torch.nested.nested_tensor(list(q)) if rows else q, k), (torch.nn.Parameter(q), k)])
            return q, k, v

        def calls(turn):
            """A step of a model, or something that comes between."""
            given = rng.choice([[0], [0, 1], [1, 0], (0, 1), [2], [0, 1, 2]])
            if rng.random() < 0.3:
                return [rng.choice([lambda cache: cache.fork(given[0]), lambda cache: cache.drop(given[0]), lambda cache: cache.append(cache.open(), 3), lambda cache: cache.append(given, 2)])]
            made = [lambda cache: cache.append(given, 1)]
            for layer in (0, 1, 1):
                sequences, layer = rng.choice([given] * 9 + odd), rng.choice([layer] * 19 + [True, 2, -1, 1.0, None])
                more = {"scale": rng.choice([None, None, 0.3, 1, True, "x"]), "softcap": rng.choice([None, None, 2.0, 3, True, 0.0]), "return_lse": rng.choice([False, True]),
                        "sinks": rng.choice([None] * 8 + [torch.ones(4)])} if rng.random() < 0.3 else {}
                q, k, v = tensors(turn, len(given))
                made += [operator.methodcaller("write", sequences, layer, k, v), operator.methodcaller("attend", q, sequences, layer, **more)]
            return made

        for turn in range(500):
            for call in calls(turn):
                grad, ended = rng.random() < 0.2, []
                for cache in (known, checked):
                    with torch.set_grad_enabled(grad):
                        try:
                            made = call(cache)
                            ended.append(made if isinstance(made, tuple) else (made,))
                        except Exception as refused:
                            ended.append(f"{type(refused).__name__} {refused}".split(":")[0])
                if isinstance(ended[0], str) or isinstance(ended[1], str):
                    self.assertEqual(*ended, turn)
                    continue
                for one, other in zip(*ended):
                    self.assertTrue(torch.allclose(one, other, atol=1e-5) if isinstance(one, torch.Tensor) else one == other, turn)  # a plan that was kept may cut lists elsewhere
                self.assertTrue(torch.equal(known.keys, checked.keys) and torch.equal(known.values, checked.values), turn)
        self.assertGreater(min(hits.values()), 20)

    def test_a_call_of_a_cache_like_one_before_is_not_checked_again(self):
        q, k, v = (one.detach() for one in draw(1))
        cache = s2.Cache(self.pattern, q, pages=40)
        both = [cache.open(), cache.open()]
        for _ in range(3):
            cache.append(both, 1)
            with unittest.mock.patch.object(cache, "_goes_with", side_effect=AssertionError("it was checked again")) if _ == 2 else contextlib.nullcontext():
                for layer in (0, 1, 0):
                    if _ < 2 or layer == 0:
                        cache._written(both, 0, 1)
                    cache.write(both, layer, k, v)
                    cache.attend(q, both, layer, softcap=2.0)
        for right, wrong in (([numpy.int64(0)], [numpy.float64(0)]), ([1], [True]), (array.array("i", [0]), bytes(4))):  # the same to a look that is too quick
            cache.attend(q[:1], right, 0)
            self.assertRaisesRegex(s2.ArgumentError, "sequences", cache.attend, q[:1], wrong, 0)

    def test_a_step_is_what_its_calls_are(self):
        a_step_is_what_its_calls_are(self, "cpu", torch.float32, 1e-6)

    def test_the_step_of_the_page_runs(self):
        """The second snippet of docs/python.md, with a model of one layer, three times instead of a thousand."""
        page = pathlib.Path(os.environ["S2_ROOT"], "docs/python.md").read_text()
        code = re.search(r"```python\n# what a step of a model is\n(.*?)```", page, re.S).group(1)
        cache = s2.Cache(self.pattern, torch.zeros(1))
        sequences = [cache.open(), cache.open()]
        cache.append(sequences, 20)
        weight, ids, position, seen = torch.randn(50, 4 * 32), torch.zeros(2, dtype=torch.long), torch.zeros(1), []

        def model(ids, position):
            seen.append(int(position))
            rows = weight[ids].view(2, 4, 1, 32)
            cache.write(sequences, 0, rows[:, :2], rows[:, 2:])
            return cache.attend(rows, sequences, 0).reshape(2, 128) @ weight.t()

        exec(compile(code, "python.md", "exec"), {"s2": s2, "cache": cache, "sequences": sequences, "ids": ids, "position": position, "model": model,
                                                  "range": lambda _: range(3)})
        self.assertEqual(seen, [0, 1, 2])
        self.assertEqual(cache.tokens(sequences[0]), 23)

    def test_a_cache_is_not_of_the_mode_that_it_was_made_in(self):
        """Tensors that torch.inference_mode makes may be written to only there; a cache, and what a step keeps, are written to for long."""
        f = torch.randn(2, 2, 5, 32)
        for first, then in ((torch.inference_mode, torch.no_grad), (torch.no_grad, torch.inference_mode)):
            with first():
                cache = s2.Cache(self.pattern, f)
                rows = [cache.open() for _ in range(2)]
                cache.append(rows, 5)
                for layer in range(2):
                    cache.write(rows, layer, f, f)

                def body():
                    for layer in range(2):
                        cache.write(rows, layer, f[:, :, :1], f[:, :, :1])
                        made = cache.attend(torch.ones(2, 4, 1, 32), rows, layer)
                    return made

                step = s2.Step(cache, rows, body)
                step()
            with then():
                for _ in range(70):  # the arrays grow, too
                    step()
                cache.fork(rows[0])
                copy.deepcopy(cache)
            step()

    def test_a_cache_of_tensors_decodes(self):
        q, k, v = (one.detach() for one in draw(70, torch.bfloat16))
        cache = s2.Cache(self.pattern, q)
        both = [cache.open(), cache.open()]
        for token in range(70):
            for row, sequence in enumerate(both):
                cache.append(sequence, 1)
                for layer in range(2):
                    cache.write(sequence, layer, k[row, :, token:token + 1], v[row, :, token:token + 1])
        o = cache.attend(q[:, :, 69:], both, 0)
        want = eager(q.float(), k.float(), v.float(), torch.from_numpy(self.pattern.mask(0, 70)))[:, :, 69:]
        self.assertLess((o - want).abs().max(), 0.02)


class Surface(test_fuzz.Surface):
    """The same calls with tensors."""

    def array(self, value):
        return torch.from_numpy(value)

    def anything(self, rng):
        one = torch.zeros(rng.choice([(2, 2, 33, 8), (2, 2, 1, 8), (3,), (), (2, 0, 1, 8)]))
        return rng.choice([one, one.half(), one.long(), one.to("meta"), one.to_sparse(), one.clone().requires_grad_(), torch.nn.Parameter(one), one.mT if one.ndim > 1 else one,
                           one.to(torch.complex64), one.bool(), torch.quantize_per_tensor(one, 1.0, 0, torch.qint8), test_fuzz.odd(rng)])

    def callables(self, objects):
        """With the operators, as compiled code calls them; what torch's dispatcher does not take it refuses in words of its own."""
        yield from super().callables(objects)

        def operator(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic=True, softcap=None, sinks=None):
            return call("attention", q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap, sinks)

        def operator_output(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic=True, softcap=None, sinks=None):
            return call("attention_output", q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap, sinks)

        def operator_backward(d_o, q, k, v, o, lse, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic=True, softcap=None, sinks=None):
            return call("attention_backward", d_o, q, k, v, o, lse, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap, sinks)

        def call(name, *given):
            try:
                return getattr(torch.ops.s2, name).default(*(one.number if isinstance(one, s2.Pattern) else one for one in given))
            except s2.Error:
                raise
            except Exception:
                return None

        yield from (("operator", operator), ("operator_output", operator_output), ("operator_backward", operator_backward))
