"""The package on a GPU: what the other tests say of a CPU, and streams, graphs, memory and the cost of a call.

Skipped where there is no GPU. S2_DEVICE=cpu runs what a CPU can, S2_MEASURED=FILE keeps what was measured, as JSON."""
import contextlib
import copy
import ctypes
import gc
import importlib
import json
import os
import random
import threading
import time
import unittest

import torch

import s2
import s2._lib
import s2.torch_ops  # noqa: F401
from test_torch import a_step_is_what_its_calls_are, draw_lists, eager, listed_eager, listed_mask

own = importlib.import_module("s2.attention")  # s2.attention itself is the function
DEVICE = os.environ.get("S2_DEVICE") or ("cuda" if torch.cuda.is_available() else "")
GPU = DEVICE == "cuda"
CASES = min(int(os.environ.get("S2_CASES", 40)), 400)
BODIES = ["local 2 | stride 4 phase kv", "sink 1 | local 3", "dense", "local 4t+37 | sink 5t", "local 1 | relative 3", "chunk 4",
          "local 2 | stride 3 phase head+1", "column 0 | local 2"]
measured = {}


def note(name, **values):
    measured[name] = values
    if os.environ.get("S2_MEASURED"):
        with open(os.environ["S2_MEASURED"], "w") as file:
            json.dump(measured, file, indent=1)


def pattern_of(body, dim, heads=4, kv_heads=2, layers=1, block=16):
    return s2.Pattern(f"layers {layers}; heads {heads}; kv-heads {kv_heads}; head-dim {dim}; block {block}; layers all: {body}")


def draw(batch, tokens, keys, dim, dtype, heads=4, kv_heads=2, grad=True):
    """As a model has them: (batch, tokens, heads, d), seen with heads first."""
    shapes = ((tokens, heads), (keys, kv_heads), (keys, kv_heads))
    return [torch.randn(batch, n, h, dim, device=DEVICE).to(dtype).transpose(1, 2).requires_grad_(grad) for n, h in shapes]


def allowed(text, make):
    """A pattern, or None where the language has no such term."""
    with contextlib.suppress(s2.RefusedError):
        return make(text)
    return None


@unittest.skipUnless(DEVICE, "needs a GPU")
class OnDevice(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.tolerance = {torch.bfloat16: 0.04, torch.float16: 6e-3}

    def tearDown(self):
        gc.collect()

    def far(self, got, want, dtype):
        """The largest difference, against the scale of what is wanted."""
        self.assertTrue(bool(got.isfinite().all()))
        return float((got.float() - want).abs().max() / max(1.0, float(want.abs().max())))

    def check(self, pattern, leaves, dtype, deterministic=True, times=1):
        tokens, keys = leaves[0].shape[2], leaves[1].shape[2]
        mask = torch.from_numpy(pattern.mask(0, keys, queries=(keys - tokens, keys))).to(DEVICE)
        o = s2.attention(*leaves, pattern, deterministic=deterministic)
        weight = torch.randn_like(o)
        got = [torch.autograd.grad(o, leaves, weight, retain_graph=True) for _ in range(times)]
        plain = [one.detach().float().requires_grad_() for one in leaves]
        reads = mask.any(-1)[None, :, :, None]
        want = torch.where(reads, eager(*plain, mask), 0.0).nan_to_num(0.0)
        worst = self.far(o, want.detach(), dtype)
        for one, wanted in zip(got[0], torch.autograd.grad(want, plain, weight.float())):
            worst = max(worst, self.far(one, wanted, dtype))
        self.assertLess(worst, self.tolerance[dtype], str(pattern))
        if deterministic:
            for other in got[1:]:
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(got[0], other)))
        return worst

    def test_outputs_and_gradients_are_the_masks(self):
        rng, worst, run = random.Random(5), 0.0, 0
        for _ in range(CASES):
            dim, block = rng.choice([64, 128]), rng.choice([16, 32, 64])
            heads, kv_heads = rng.choice([(4, 4), (4, 2), (8, 2), (4, 1)])
            body = rng.choice(BODIES)
            pattern = allowed(body, lambda text: pattern_of(text, dim, heads, kv_heads, block=block))
            if pattern is None or not pattern.check("rows", length=600):
                continue
            dtype = rng.choice([torch.bfloat16, torch.float16])
            keys = rng.choice([1, 17, 64, 200, 333, 512])
            tokens = rng.choice([keys, keys, max(1, keys // 3)])
            with self.subTest(body=body, dim=dim, block=block, heads=heads, kv_heads=kv_heads, keys=keys, tokens=tokens, dtype=str(dtype)):
                leaves = draw(rng.choice([1, 2]), tokens, keys, dim, dtype, heads, kv_heads)
                worst = max(worst, self.check(pattern, leaves, dtype, rng.random() < 0.5, 2))
                run += 1
        self.assertGreater(run, CASES // 3)
        note("outputs_and_gradients", cases=run, worst=worst)

    def test_the_fused_gradient_is_taken_where_it_may_be(self):
        pattern = pattern_of("local 16 | stride 8 phase kv", 128, 8, 2, block=64)
        length = 2048 if GPU else 256
        leaves = draw(1, length, length, 128, torch.bfloat16, 8, 2)
        note("fused", worst=self.check(pattern, leaves, torch.bfloat16, deterministic=False),
             kernels=sorted({plan.kernel for plan in own._kept.plans.values()}))

    def test_lengths_may_differ(self):
        pattern = pattern_of("local 2 | stride 4 phase kv", 64)
        lengths = [60, 1, 139, 300]
        begins = torch.tensor([0, *lengths]).cumsum(0)
        total = int(begins[-1])
        q, k, v = (one[0].detach().requires_grad_() for one in draw(1, total, total, 64, torch.bfloat16))
        o = s2.attention(q, k, v, pattern, cu_seqlens_q=begins, cu_seqlens_k=begins)
        weight = torch.randn_like(o)
        got = torch.autograd.grad(o, (q, k, v), weight)
        for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist()):
            part = [one.detach()[None, :, begin:end].requires_grad_() for one in (q, k, v)]
            want = s2.attention(*part, pattern)
            self.assertLess(self.far(o[:, begin:end], want[0].float(), None), 0.02)
            for one, wanted in zip(got, torch.autograd.grad(want, part, weight[None, :, begin:end])):
                self.assertLess(self.far(one[:, begin:end], wanted[0].float(), None), 0.04)

    def test_torchs_own_checks_pass(self):
        pattern = pattern_of("local 2", 64)
        torch.library.opcheck(torch.ops.s2.attention.default,
                              (*draw(1, 40, 40, 64, torch.bfloat16), pattern.number, 0, None, "prefill", None, None, True))

    def test_compiled_code_is_one_graph_with_gradients(self):
        pattern = pattern_of("sink 1 | local 3", 64)

        def layer(q, k, v):
            return s2.attention(q * 2, k, v, pattern, 0).sin()

        leaves = draw(2, 100, 100, 64, torch.bfloat16)
        plain = layer(*leaves)
        compiled = torch.compile(layer, fullgraph=True, backend="inductor" if GPU else "aot_eager")(*leaves)
        self.assertLess((plain.float() - compiled.float()).abs().max(), 0.02)
        for one, other in zip(torch.autograd.grad(plain.sum(), leaves), torch.autograd.grad(compiled.sum(), leaves)):
            self.assertLess(self.far(one, other.float(), None), 0.02)

    def test_layers_at_new_addresses_share_a_plan(self):
        pattern = pattern_of("local 2 | stride 4 phase kv", 64, layers=6)
        own._kept.plans.clear()
        own._kept.ready.clear()
        kept = []
        for layer in range(6):
            leaves = draw(1, 200, 200, 64, torch.bfloat16)
            o = s2.attention(*leaves, pattern, layer)
            kept.append((o, eager(*(one.detach().float() for one in leaves), torch.from_numpy(pattern.mask(layer, 200)).to(DEVICE))))
        self.assertEqual(len(own._kept.plans), 1)
        for o, want in kept:
            self.assertLess(self.far(o, want, None), 0.04)

    def test_a_cache_decodes_token_by_token(self):
        for body, page in (("local 2 | stride 4 phase kv", 0), ("dense", 16), ("sink 1 | local 2", 32), ("local 5t+21", 0)):
            pattern = allowed(body, lambda text: pattern_of(text, 64, layers=2, block=16))
            if pattern is None:
                continue
            q, k, v = draw(3, 150, 150, 64, torch.bfloat16, grad=False)
            cache = s2.Cache(pattern, q, page=page)
            rows = [cache.open() for _ in range(3)]
            cache.append(rows, 40)
            for layer in range(2):
                cache.write(rows, layer, k[:, :, :40], v[:, :, :40])
            worst = 0.0
            mask = torch.from_numpy(pattern.mask(0, 150, phase="decode")).to(DEVICE)
            want = eager(q.float(), k.float(), v.float(), mask)
            for token in range(40, 150):
                cache.append(rows, 1)
                for layer in range(2):
                    cache.write(rows, layer, k[:, :, token:token + 1], v[:, :, token:token + 1])
                    o = cache.attend(q[:, :, token:token + 1], rows, layer)
                    worst = max(worst, self.far(o, want[:, :, token:token + 1], None))
            with self.subTest(body):
                self.assertLess(worst, 0.04)
                priced = pattern.simulate(150, batch=3, phase="decode", page=cache._usage().page_slots)
                self.assertEqual(cache.usage.bytes, priced.kv_bytes)

    def test_wrong_calls_name_the_argument_and_nothing_breaks(self):
        pattern = pattern_of("local 2", 64)
        q, k, v = draw(1, 64, 64, 64, torch.bfloat16, grad=False)
        wrong = {"k: dtype": lambda: s2.attention(q, k.half(), v.half(), pattern),
                 "q: stride": lambda: s2.attention(q.transpose(2, 3), k, v, pattern),
                 "pattern: it has 4": lambda: s2.attention(q[:, :2], k, v, pattern),
                 "v: shape": lambda: s2.attention(q, k, v[:, :, :60], pattern),
                 "q: its data": lambda: s2.attention(torch.empty(q.numel() + 1, device=DEVICE, dtype=q.dtype)[1:].view(1, 4, 64, 64), k, v, pattern),
                 "deterministic": lambda: s2.attention(*(one.float().cpu().numpy() for one in (q, k, v)), pattern, deterministic=1)}
        if GPU:
            wrong["k: on"] = lambda: s2.attention(q, k.cpu(), v.cpu(), pattern)
        for name, call in wrong.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                call()
        cache = s2.Cache(pattern, q)
        row = cache.open()
        cache.append(row, 3)
        self.assertRaisesRegex(s2.ArgumentError, "k: shape", cache.write, row, 0, k[0, :, :2], v[0, :, :2])
        cache.close()
        self.assertRaises(s2.ReleasedError, cache.attend, q[:, :, :1], [row], 0)
        if GPU:
            with self.assertRaisesRegex(s2.UnsupportedError, "bf16 and f16"):
                s2.attention(*(one.float() for one in (q, k, v)), pattern)
        s2.attention(q, k, v, pattern)  # still there

    def test_strides_that_no_kernel_takes_are_refused_by_name(self):
        """Rows of a wider tensor, whose data begins where it should. A CPU takes them."""
        pattern = pattern_of("local 2", 64, layers=2)
        for wider in (1, 4, 8):
            for name in ("q", "k", "v", "none"):
                leaves = draw(1, 64, 64, 64, torch.bfloat16)
                named = dict(zip("qkv", (one.detach() for one in leaves)))
                if name != "none":
                    wide = torch.randn(*named[name].shape[:-1], 64 + wider, device=DEVICE).bfloat16()
                    named[name] = wide[..., :64]
                with self.subTest(name, wider=wider):
                    if GPU and name != "none" and wider % 8:
                        with self.assertRaisesRegex(s2.ArgumentError, f"{name}: on a GPU its strides"):
                            s2.attention(**named, pattern=pattern)
                    else:
                        want = s2.attention(*(one.contiguous() for one in named.values()), pattern)
                        self.assertLess(self.far(s2.attention(**named, pattern=pattern), want.float(), None), 0.02)
                o = s2.attention(*leaves, pattern)
                o2 = torch.cat([o[..., :wider], o], -1)  # whose gradient of o is a part of a wider one
                torch.autograd.grad(o2, leaves, torch.randn_like(o2))

    def test_anything_at_all_leaves_the_process_alive(self):
        rng, pattern = random.Random(9), pattern_of("local 2 | stride 3 phase head", 64)
        refused = 0
        for _ in range(20 * CASES):
            q, k, v = draw(rng.choice([1, 2]), rng.choice([1, 33, 64]), 64, 64, torch.bfloat16, grad=False)
            tensors = [q, k, v]
            for _ in range(rng.randrange(3)):
                at = rng.randrange(3)
                one = tensors[at]
                mistake = rng.choice([lambda: one.half(), lambda: one.cpu(), lambda: one[..., ::2], lambda: one[:, :1], lambda: one[:, :, :7],
                                          lambda: one.transpose(1, 2), lambda: one.expand(2, *one.shape[1:]) if one.shape[0] == 1 else one,
                                          lambda: one[0], lambda: one.flatten()[3:], lambda: torch.cat([one, one[..., :3]], -1)[..., :64], lambda: one[:, :, :0], lambda: one.double(),
                                          lambda: one.as_strided(one.shape, [0, 0, 0, 1]), lambda: one.to_sparse(), lambda: None,
                                          lambda: one.contiguous(), lambda: one.to(torch.complex64).conj(), lambda: one.int()])
                with contextlib.suppress(RuntimeError, IndexError, AttributeError, TypeError):  # torch's own, where one mistake stands on another
                    tensors[at] = mistake()
            options = {"layer": rng.choice([0, 0, 0, 1, -1, 2**40, "0"]), "scale": rng.choice([None, None, 0.0, -1.0, 1e38, float("nan")]),
                       "phase": rng.choice(["prefill", "prefill", "decode", "train"])}
            try:
                s2.attention(*tensors, pattern, **options)
            except (s2.Error, TypeError, RuntimeError, NotImplementedError):
                refused += 1
        if GPU:
            torch.cuda.synchronize()
        q, k, v = draw(1, 64, 64, 64, torch.bfloat16, grad=False)
        self.check(pattern, [one.requires_grad_() for one in (q, k, v)], torch.bfloat16)
        note("anything", calls=20 * CASES, refused=refused)

    def test_lists_of_blocks_are_read_as_they_are(self):
        rng, worst, run = random.Random(12), 0.0, 0
        for _ in range(CASES):
            dim, block, query_block = rng.choice([64, 128]), rng.choice([16, 32, 64, 128]), rng.choice([16, 32, 64, 128, 256])
            heads, kv_heads = rng.choice([(4, 4), (4, 2), (8, 2)])
            dtype, keys = rng.choice([torch.bfloat16, torch.float16]), rng.choice([1, 63, 200, 512, 777])
            tokens = rng.choice([keys, max(1, keys // 3)])
            pattern = pattern_of("dense", dim, heads, kv_heads, block=block)
            q, k, v = draw(2, tokens, keys, dim, dtype, heads, kv_heads, grad=False)
            lists = draw_lists(keys, tokens, query_block, block, rng.choice([heads, kv_heads]), rng.choice([1, 3, 6]), device=DEVICE)
            want = listed_eager(q.float(), k.float(), v.float(), listed_mask(*lists, keys, tokens, query_block, block, heads))
            with self.subTest(dim=dim, block=block, query_block=query_block, heads=heads, kv_heads=kv_heads, keys=keys, tokens=tokens, dtype=str(dtype)):
                worst = max(worst, self.far(s2.block_attention(q, k, v, pattern, *lists, query_block=query_block), want, dtype))
                run += 1
        self.assertLess(worst, 0.02)
        self.assertEqual(run, CASES)
        note("lists", cases=run, worst=worst)

    def lists(self, layers=1):
        pattern, (q, k, v) = pattern_of("dense", 64, block=64, layers=layers), draw(2, 512, 512, 64, torch.bfloat16, grad=False)
        return pattern, q, k, v, *draw_lists(512, 512, 64, 64, 4, device=DEVICE)

    def test_lists_of_blocks_compile_and_follow_autocast(self):
        pattern, q, k, v, counts, blocks = self.lists()

        def layer(*tensors):
            return s2.block_attention(tensors[0] * 2, *tensors[1:3], pattern, *tensors[3:]).sin()

        want = layer(q, k, v, counts, blocks)
        got = torch.compile(layer, fullgraph=True, backend="inductor" if GPU else "aot_eager")(q, k, v, counts, blocks)
        self.assertLess(self.far(got, want.float(), None), 0.02)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            self.assertTrue(torch.equal(layer(q, k.float(), v.float(), counts, blocks), want))
        with torch._subclasses.fake_tensor.FakeTensorMode() as fake:
            made = layer(*map(fake.from_tensor, (q, k, v, counts, blocks)))
            self.assertEqual((made.shape, made.dtype, made.device.type), (q.shape, q.dtype, q.device.type))
        torch.library.opcheck(torch.ops.s2.block_attention.default, (q, k, v, counts, blocks, pattern.number, 0, 64, None, None, None))

    def test_wrong_lists_name_the_argument_and_nothing_breaks(self):
        pattern, q, k, v, counts, blocks = self.lists()
        attend = s2.block_attention
        want = attend(q, k, v, pattern, counts, blocks)
        wrong = {"counts: contiguous int32": lambda: attend(q, k, v, pattern, counts.long(), blocks),
                 "blocks: contiguous int32": lambda: attend(q, k, v, pattern, counts, blocks[..., ::2]),
                 "k: dtype": lambda: attend(q, k.half(), v.half(), pattern, counts, blocks), "q: stride": lambda: attend(q.transpose(2, 3), k, v, pattern, counts, blocks),
                 "heads have lists": lambda: attend(q, k, v, pattern, counts[:, :3].contiguous(), blocks[:, :3].contiguous()),
                 "query blocks of 48": lambda: attend(q, k, v, pattern, counts, blocks, query_block=48)}
        if GPU:
            wrong["counts: on"] = lambda: attend(q, k, v, pattern, counts.cpu(), blocks.cpu())
            wrong["blocks: on"] = lambda: attend(q, k, v, pattern, counts, blocks.cpu())
        for name, call in wrong.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                call()
        for number in (2**31 - 1, -2**31, 10**6):  # numbers of no block and counts out of range
            far = torch.where(torch.rand(blocks.shape, device=DEVICE) < 0.5, blocks, number)
            o = attend(q, k, v, pattern, torch.full_like(counts, number), far)
            mask = listed_mask(torch.full_like(counts, max(number, 0)), torch.where(far == number, -1, far), 512, 512, 64, 64, 4)
            self.assertLess(self.far(o, listed_eager(q.float(), k.float(), v.float(), mask), None), 0.02)
        self.assertTrue(torch.equal(attend(q, k, v, pattern, counts, blocks), want))


@unittest.skipUnless(GPU, "needs a GPU")
class OnGpu(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.pattern = pattern_of("local 4 | stride 4 phase kv", 128, 8, 2, layers=4, block=64)

    def test_work_is_queued_on_the_current_stream(self):
        streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        own._kept.devices.clear()  # a device that was told of no stream yet
        own._kept.plans.clear()
        own._kept.ready.clear()
        inputs = [draw(1, 1024, 1024, 128, torch.bfloat16, 8, 2, grad=False) for _ in range(6)]
        torch.cuda.synchronize()
        got = []
        for turn, one in enumerate(inputs):  # at the same time: each stream has a plan and work space of its own
            with torch.cuda.stream(streams[turn % 3]):
                torch.cuda._sleep(200_000_000)
                late = [x * 1 for x in one]
                got.append(s2.attention(*late, self.pattern))
                del late
        torch.cuda.synchronize()
        want = [s2.attention(*one, self.pattern) for one in inputs]
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(got, want)))

    def test_operators_of_compiled_code_keep_to_stream_device_and_graph(self):
        """As compiled code calls them, beside what they give through torch's dispatcher."""
        rest, by_name = (self.pattern.number, 0, None, "prefill", None, None), {"deterministic": True, "softcap": None, "sinks": None}
        inputs = [draw(1, 1024, 1024, 128, torch.bfloat16, 8, 2, grad=False) for _ in range(7)]
        inputs = [(torch.randn_like(one[0]), *one) for one in inputs]

        def ask(forward, output, backward, d_o, q, k, v):
            o, lse = forward(q, k, v, *rest, **by_name)
            return o, lse, output(q, k, v, *rest, **by_name), *backward(d_o, q, k, v, o, lse, *rest, **by_name)

        names = "attention", "attention_output", "attention_backward"
        want = [ask(*(torch._C._get_operation_overload(f"s2::{name}", "")[0] for name in names), *one) for one in inputs]
        ours = [getattr(torch.ops.s2, name).default for name in names]
        streams, got = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()], []
        torch.cuda.synchronize()
        for turn, one in enumerate(inputs[:6] * 2):
            with torch.cuda.stream(streams[turn % 3]):
                torch.cuda._sleep(100_000_000)
                got.append(ask(*ours, *[x * 1 for x in one]))
        with torch.cuda.device(torch.cuda.device_count() - 1):  # another one, where there are two
            got.append(ask(*ours, *inputs[0]))
        torch.cuda.synchronize()
        for made, wanted in zip(got, [*want[:6], *want[:6], want[0]]):
            self.assertTrue(all(map(torch.equal, made, wanted)))
        graph, given = torch.cuda.CUDAGraph(), [x.clone() for x in inputs[6]]
        with torch.cuda.graph(graph):
            made = ask(*ours, *given)
        for one, wanted in zip(inputs, want):
            for x, fresh in zip(given, one):
                x.copy_(fresh)
            ask(*ours, *inputs[3])
            graph.replay()
            torch.cuda.synchronize()
            self.assertTrue(all(map(torch.equal, made, wanted)))

    def test_nothing_is_copied(self):
        q, k, v = draw(1, 4096, 4096, 128, torch.bfloat16, 8, 2, grad=False)
        s2.attention(q, k, v, self.pattern)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        o, lse = s2.attention(q, k, v, self.pattern, return_lse=True)
        room = torch.cuda.max_memory_allocated() - before
        self.assertLessEqual(room, o.numel() * 2 + lse.numel() * 4 + 4096)
        note("copies", bytes_allocated=room, o_and_lse=o.numel() * 2 + lse.numel() * 4)

    def test_graphs_are_captured_and_run_again(self):
        for backward in (False, True):
            with self.subTest(backward=backward):
                sets = [draw(1, 512, 512, 128, torch.bfloat16, 8, 2, grad=backward) for _ in range(3)]
                weight = torch.randn(1, 8, 512, 128, device=DEVICE, dtype=torch.bfloat16)

                def step():
                    outs = [s2.attention(*one, self.pattern, layer) for layer, one in enumerate(sets)]
                    return [torch.autograd.grad(o, one, weight) for o, one in zip(outs, sets)] if backward else outs

                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    step()
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    made = step()
                for _ in range(3):
                    with torch.no_grad():
                        for one in sets:
                            for x in one:
                                x.copy_(torch.randn_like(x))
                    elsewhere = [[x.detach().clone().requires_grad_(backward) for x in one] for one in reversed(sets)]
                    others = [s2.attention(*one, self.pattern, layer) for layer, one in enumerate(elsewhere)]
                    if backward:
                        torch.autograd.grad(others, [x for one in elsewhere for x in one], [weight] * len(others))
                    graph.replay()
                    torch.cuda.synchronize()
                    again = [[one.clone() for one in (each if backward else [each])] for each in made]
                    want = [each if backward else [each] for each in step()]
                    for a, b in zip(again, want):
                        self.assertTrue(all(torch.equal(x, y) for x, y in zip(a, b)))

    def test_tensors_lie_in_more_places_than_are_kept(self):
        """In turns and at random: what is written anew is that of the call, whatever is queued before it."""
        for backward in (False, True):
            sets = [draw(1, 512, 512, 128, torch.bfloat16, 8, 2, grad=backward) for _ in range(20)]
            weight = torch.randn_like(sets[0][0])
            want, grads = [], []
            for one in sets:  # each by a plan that has seen no other tensors
                own._kept.plans.clear()
                own._kept.ready.clear()
                want.append(s2.attention(*one, self.pattern))
                grads.append(torch.autograd.grad(want[-1], one, weight) if backward else ())
            order = list(range(20)) * 2 + [random.Random(7).randrange(n) for n in (2, 5, 9, 20) for _ in range(40)]
            outs = [s2.attention(*sets[at], self.pattern) for at in order]
            again = [torch.autograd.grad(o, sets[at], weight) for o, at in zip(outs, order)] if backward else []
            torch.cuda.synchronize()
            self.assertTrue(all(torch.equal(o, want[at]) for o, at in zip(outs, order)))
            self.assertTrue(all(torch.equal(x, y) for one, at in zip(again, order) for x, y in zip(one, grads[at])))

    def test_a_captured_call_is_its_kernel_alone(self):
        """No tensor map is written anew when a graph is replayed, wherever the tensors of the capture lie."""
        for seen_before in (False, True):
            q, k, v = draw(1, 512, 512, 128, torch.bfloat16, 8, 2, grad=False)
            s2.attention(q if seen_before else q.clone(), k, v, self.pattern)
            torch.cuda.synchronize()
            graph, n_nodes = torch.cuda.CUDAGraph(keep_graph=True), ctypes.c_size_t()
            with torch.cuda.graph(graph):
                o = s2.attention(q, k, v, self.pattern)
            said = ctypes.CDLL("libcuda.so.1").cuGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(n_nodes))
            self.assertEqual((said, n_nodes.value), (0, 1))
            graph.instantiate()
            graph.replay()
            torch.cuda.synchronize()
            self.assertTrue(torch.equal(o, s2.attention(q, k, v, self.pattern)))

    def test_lists_of_blocks_are_captured_and_chosen_anew(self):
        """A graph of two layers, whose lists another kernel of the graph chooses of what q is then."""
        pattern = pattern_of("dense", 128, 8, 2, layers=2, block=64)
        q, k, v = draw(1, 1024, 1024, 128, torch.bfloat16, 8, 2, grad=False)

        def step():
            score = torch.einsum("bghqd,bgkd->bgqk", q.view(1, 2, 4, 16, 64, 128).mean(4), k.unflatten(2, (16, 64)).mean(3))
            blocks = score.topk(5).indices.int()
            counts = torch.full(blocks.shape[:-1], 5, dtype=torch.int32, device=DEVICE)
            return [s2.block_attention(q, k, v, pattern, counts, blocks, layer) for layer in range(2)], counts, blocks

        streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        for one in streams:
            one.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(one):  # late, so that what does not wait on this stream would read too early
                torch.cuda._sleep(200_000_000)
                late = q * 1
                counts, blocks = draw_lists(1024, 1024, 64, 64, 8, sequences=1, device=DEVICE)
                got = s2.block_attention(late, k, v, pattern, counts, blocks)
                want = listed_eager(late.float(), k.float(), v.float(), listed_mask(counts, blocks, 1024, 1024, 64, 64, 8))
                self.assertLess(float((got.float() - want).abs().max()), 0.02)
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made, counts, blocks = step()
        for _ in range(3):
            for one in (q, k, v):
                one.copy_(torch.randn_like(one))
            graph.replay()
            torch.cuda.synchronize()
            mask = listed_mask(counts, blocks, 1024, 1024, 64, 64, 8)
            want = listed_eager(q.float(), k.float(), v.float(), mask)
            for o in made:
                self.assertLess(float((o.float() - want).abs().max()), 0.02)
            self.assertTrue(all(torch.equal(o, other) for o, other in zip(made, step()[0])))
        note("lists_captured", replays=3)

    def test_a_cache_of_another_thread_keeps_to_that_threads_stream(self):
        """Two threads on streams of their own, each of which looks at its results at once: what went to the other's stream would not be there."""
        q, k, v = draw(4, 300, 300, 128, torch.bfloat16, 8, 2, grad=False)
        cache = s2.Cache(self.pattern, q)
        rows = [cache.open() for _ in range(4)]
        cache.append(rows, 300)
        for layer in range(self.pattern.layers):
            cache.write(rows, layer, k, v)
        last, failed = q[:, :, 299:].contiguous(), []
        want = cache.attend(last, rows, 0), s2.attention(q, k, v, self.pattern)
        torch.cuda.synchronize()

        def work(call, wanted):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for _ in range(200):
                    got = call()
                    if not torch.equal(got, wanted):  # which waits for this stream
                        failed.append(call)

        threads = [threading.Thread(target=work, args=one) for one in ((lambda: cache.attend(last, rows, 0), want[0]), (lambda: s2.attention(q, k, v, self.pattern), want[1]))]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failed, [])

    def test_a_captured_step_follows_its_sequences(self):
        step = a_step_is_what_its_calls_are(self, DEVICE, torch.bfloat16, 0.02, 250)
        self.assertLess(step.captures, 20)  # where a list outgrew its room, or the arrays theirs
        note("captured_steps", steps=250, captures=step.captures)

    def test_plans_are_dropped_and_memory_comes_back(self):
        torch.cuda.synchronize()
        for _ in range(2):
            for length in range(64, 64 + 80 * 16, 16):
                q, k, v = draw(1, length, length, 128, torch.bfloat16, 8, 2, grad=False)
                s2.attention(q, k, v, self.pattern)
            torch.cuda.synchronize()
            free = torch.cuda.mem_get_info()[0]
            first = free if _ == 0 else first
        self.assertGreater(free, first - (64 << 20))
        self.assertLessEqual(len(own._kept.plans), own.PLANS)

    def rounds(self, calls, count=15, times=300):
        """Host microseconds a call of each, in rounds: what disturbs a round disturbs all of them."""
        found = {name: [] for name in calls}
        for turn in range(count + 1):
            for name, call in calls.items():
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(times):
                    call()
                found[name].append((time.perf_counter() - begin) / times * 1e6)
                torch.cuda.synchronize()
        return {name: took[1:] for name, took in found.items()}  # the first is not counted

    def test_the_cost_of_a_call(self):
        q, k, v = draw(1, 64, 64, 128, torch.bfloat16, 8, 2, grad=False)
        others = draw(1, 64, 64, 128, torch.bfloat16, 8, 2, grad=False)
        s2.attention(q, k, v, self.pattern)
        ready = next(one for key, one in reversed(own._kept.ready.items()) if key[0] == "forward")
        o, lse = torch.empty_like(q), torch.empty(1, 8, 64, device=DEVICE)
        turns = [(q, k, v), others]

        def moving(call):
            state = [0]

            def again():
                state[0] ^= 1
                call(*turns[state[0]])
            return again

        idle = s2._lib._library["s2_api_version"]  # what ctypes itself takes, with as many arguments
        found = self.rounds({"c_call": ready.call, "ctypes": lambda: idle(*ready.call.arguments), "c_call_moving": moving(lambda *x: ready.run(*x, lse, o)),
                             "operator": lambda: s2.attention(q, k, v, self.pattern), "operator_moving": moving(lambda *x: s2.attention(*x, self.pattern)),
                             "sdpa": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)})
        found["more"] = [b - a for a, b in zip(found["c_call"], found["operator"])]
        found["more_moving"] = [b - a for a, b in zip(found["c_call_moving"], found["operator_moving"])]
        cache = s2.Cache(self.pattern, q)
        rows = [cache.open() for _ in range(8)]
        cache.append(rows, 300)
        fresh = draw(8, 1, 1, 128, torch.bfloat16, 8, 2, grad=False)
        old = [one.expand(-1, -1, 300, -1) for one in fresh[1:]]
        cache.write(rows, 0, *old)
        cache.append(rows, 1)
        cache.write(rows, 0, *fresh[1:])
        cache.attend(fresh[0], rows, 0)
        ready = next(iter(cache._known.values()))[0].ready.copy()
        o, lse = torch.empty_like(fresh[0]), torch.empty(8, 8, 1, device=DEVICE)
        ready.run(fresh[0], cache.keys, cache.values, lse, o)
        found.update(self.rounds({"c_decode": ready.call, "attend": lambda: cache.attend(fresh[0], rows, 0), "write": lambda: cache.write(rows, 0, *fresh[1:])}, times=100))
        found["more_attend"] = [b - a for a, b in zip(found["c_decode"], found["attend"])]
        note("cost_of_a_call_us", **{name: {"median": sorted(took)[len(took) // 2], "least": min(took), "most": max(took)} for name, took in found.items()})


@unittest.skipUnless(DEVICE, "needs a GPU")
class Generation(unittest.TestCase):
    def setUp(self):
        try:
            import transformers

            import s2.transformers  # noqa: F401
        except ImportError:
            self.skipTest("needs transformers")
        self.transformers = transformers

    def model(self, kind, **more):
        torch.manual_seed(0)
        size = {"vocab_size": 97, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
                "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                "initializer_range": 0.1}
        config = getattr(self.transformers, kind + "Config")(**{**size, **more})
        made = self.transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.bfloat16)
        return made.to(DEVICE).eval()

    @torch.no_grad()
    def test_models_generate_what_eager_attention_generates(self):
        torch.manual_seed(3)
        ids = torch.randint(3, 97, (3, 150), device=DEVICE)
        for kind, more in (("Llama", {}), ("Mistral", {"sliding_window": 32}), ("Phi3", {"sliding_window": 32})):
            with self.subTest(kind):
                model = self.model(kind, **more)
                want = model(ids, use_cache=False).logits.float()
                tokens = model.generate(ids, max_new_tokens=40, do_sample=False, eos_token_id=None)
                model.set_attn_implementation("s2")
                got = model(ids, use_cache=False).logits.float()
                self.assertLess(float((got - want).abs().max()), 0.06 * float(want.abs().max()))
                cache = s2.transformers.S2Cache(model, page=16)
                again = model.generate(ids, max_new_tokens=40, do_sample=False, eos_token_id=None, past_key_values=cache)
                same = float((again == tokens)[:, 150:].float().mean())
                lost = self.lost(model, again, range(150, 190))
                self.assertLess(lost, 0.05)
                priced = s2.transformers.pattern_of(model.config).simulate(cache.get_seq_length(), page=16, batch=3, phase="decode")
                self.assertEqual(cache.usage.bytes, priced.kv_bytes)
                note("generation_" + kind, tokens_equal=same, largest_loss=lost, cache_bytes=cache.usage.bytes,
                     simulated_bytes=priced.kv_bytes, worst_logit=float((got - want).abs().max()))

    def lost(self, model, tokens, chosen, **more):
        """The most that eager attention has against a token at these places, where it would have chosen another: a share of its largest logit."""
        model.set_attn_implementation("eager")
        steps = model(tokens, use_cache=False, **more).logits.float()[:, [at - 1 for at in chosen]]
        model.set_attn_implementation("s2")
        return float((steps.max(-1).values - steps.gather(-1, tokens[:, list(chosen), None])[..., 0]).max() / steps.abs().max())

    def generate(self, model, ids, **more):
        more.setdefault("attention_mask", torch.ones_like(ids))  # a token that was generated may be the one that pads
        return model.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=None, **more)

    @torch.no_grad()
    def test_padded_batches_are_what_eager_attention_makes_of_them(self):
        torch.manual_seed(4)
        ids = torch.randint(3, 97, (3, 150), device=DEVICE)
        left, right = torch.ones_like(ids), torch.ones_like(ids)
        left[0, :67], left[2, :149], right[1, 80:] = 0, 0, 0
        for kind, more in (("Llama", {}), ("Mistral", {"sliding_window": 32})):
            with self.subTest(kind):
                model = self.model(kind, **more)
                want = [model(ids, attention_mask=mask, use_cache=False).logits.float() for mask in (left, right)]
                model.set_attn_implementation("s2")
                worst = 0.0
                for mask, wanted in zip((left, right), want):
                    got, wanted = (one[mask.bool()] for one in (model(ids, attention_mask=mask, use_cache=False).logits.float(), wanted))
                    worst = max(worst, float((got - wanted).abs().max() / wanted.abs().max()))
                self.assertLess(worst, 0.06)
                cache = s2.transformers.S2Cache(model, page=16)
                tokens = self.generate(model, ids, attention_mask=left, past_key_values=cache)
                self.assertEqual([cache.kept.tokens(one) for one in cache.sequences], [94, 161, 12])
                lost = self.lost(model, tokens, range(150, 162), attention_mask=torch.nn.functional.pad(left, (0, 12), value=1))
                self.assertLess(lost, 0.05)
                note("padded_" + kind, worst_logit=worst, largest_loss=lost)

    def scores(self, model, sequences, begin):
        """What eager attention says of the tokens from `begin` on: the mean logarithm of their probabilities."""
        model.set_attn_implementation("eager")
        said = model(sequences, use_cache=False).logits.float().log_softmax(-1)[:, begin - 1:-1]
        model.set_attn_implementation("s2")
        return said.gather(-1, sequences[:, begin:, None])[..., 0].mean(-1)

    @torch.no_grad()
    def test_beams_are_as_good_as_eager_attentions(self):
        torch.manual_seed(5)
        ids = torch.randint(3, 97, (2, 150), device=DEVICE)
        for kind, more in (("Llama", {}), ("Mistral", {"sliding_window": 32})):
            with self.subTest(kind):
                model = self.model(kind, **more)
                want = self.generate(model, ids, num_beams=3)
                model.set_attn_implementation("s2")
                cache = s2.transformers.S2Cache(model, page=16)
                got = self.generate(model, ids, past_key_values=cache, num_beams=3, num_return_sequences=2, output_scores=True,
                                    return_dict_in_generate=True)
                own, theirs = self.scores(model, got.sequences, 150), self.scores(model, want, 150)
                apart, lost = float((got.sequences_scores - own).abs().max()), float((theirs - own[::2]).max())
                self.assertLess(apart, 0.06)  # bf16 moves a logit by 0.02 to 0.14
                self.assertLess(lost, 0.06)
                self.assertEqual(len(cache.kept._held), 6)  # those of lost beams were dropped
                note("beams_" + kind, scores_apart=apart, lost=lost, same=float((got.sequences[::2] == want).float().mean()))

    @torch.no_grad()
    def test_later_turns_of_any_length_are_eager_attentions(self):
        for kind, more in (("Llama", {}), ("Mistral", {"sliding_window": 32})):
            model = self.model(kind, **more)
            model.set_attn_implementation("s2")
            for step in (1, 4):
                with self.subTest(kind, step=step):
                    rng = torch.Generator().manual_seed(6)
                    turns, past, chosen = torch.randint(3, 97, (2, 150), generator=rng).to(DEVICE), s2.transformers.S2Cache(model, page=16, step=step), []
                    for fresh in (1, 5, 33, 0):
                        twin = copy.deepcopy(past) if fresh == 0 else None  # a prompt that is used again
                        before, turns = turns, self.generate(model, turns, past_key_values=past)
                        chosen += range(before.shape[1], turns.shape[1])
                        if twin:
                            self.assertTrue(torch.equal(self.generate(model, before, past_key_values=twin), turns))
                        turns = torch.cat([turns, torch.randint(3, 97, (2, fresh), generator=rng).to(DEVICE)], 1)
                    lost = self.lost(model, turns, chosen)
                    self.assertLess(lost, 0.05)
                    note(f"turns_{kind}_{step}", largest_loss=lost, tokens=turns.shape[1], slots=past.usage.slots)
