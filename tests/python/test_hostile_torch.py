"""Tensors of every wrong kind at what goes between ranks, in a group of one process and of two that are wrong alike."""
import random
import tempfile
import threading
import unittest

import torch
import torch.distributed
import torch.multiprocessing

import s2
from test_fuzz import CASES, SEED, odd
from test_torch import free_port

TEXT = "heads 2; kv-heads 1; head-dim 16; block 16; layers 2; layers all: local 2 | stride 3 phase head; layers 1: dense"
GLOO = torch.distributed.is_available() and torch.distributed.is_gloo_available()


def odd_tensor(rng, right):
    """Something beside a right tensor: another shape, type, layout or place, or numbers that are none."""
    kinds = [lambda: right[..., :0], lambda: right[:, :, 1:], lambda: right.transpose(1, 2), lambda: right.double(), lambda: right.int(), lambda: right.to(torch.complex64),
             lambda: right.bool(), lambda: right[0], lambda: right[None], lambda: right.flip(-1), lambda: right[..., ::2], lambda: right.expand(3, *right.shape[1:]),
             lambda: right.to("meta"), lambda: right.to_sparse(), lambda: right.half(), lambda: right.bfloat16(), lambda: right * float("nan"),
             lambda: right * float("inf"), lambda: right.detach().requires_grad_(), lambda: torch.nested.nested_tensor([right[0], right[0, :, 1:]]),
             lambda: right.clone().as_strided((1, 2, right.shape[2], 16), (0, 0, 0, 1)), lambda: right.numpy(), lambda: right.tolist(), lambda: odd(rng),
             lambda: right.contiguous().view(-1)[1:].new_zeros(right.shape), lambda: torch.quantize_per_tensor(right, 0.1, 0, torch.qint8), lambda: torch.zeros(())]
    return rng.choice(kinds)()


def hostile_calls(rank, ranks, cases, seed):
    """Calls that are wrong in the same way on each rank, and right ones between them, which still give what they gave. What was seen."""
    rng, seen = random.Random(seed), {"answered": 0, "refused": 0}
    pattern = s2.Pattern(TEXT)
    context = s2.parallel.Context(pattern, rank, s2.parallel.cut(pattern, ranks, 96))
    own = slice(context.begin, context.end)
    torch.manual_seed(5)
    q, k, v = (torch.randn(1, heads, 96, 16)[:, :, own] for heads in (2, 1, 1))
    want = context.attention(q, k, v)
    for _ in range(cases):
        some = [odd_tensor(rng, one) if rng.random() < 0.3 else one for one in (q, k, v)]
        layer, group = (odd(rng) if rng.random() < 0.2 else right for right in (rng.choice([0, 1]), None))
        options = {rng.choice(["scale", "phase", "softcap", "sinks", "return_lse", "deterministic"]): odd(rng)} if rng.random() < 0.3 else {}
        wrong, which = odd_tensor(rng, q), rng.choice([s2.parallel.copied, s2.parallel.summed])
        for call in (lambda: context.attention(*some, layer, process_group=group, **options), lambda: which(wrong, process_group=group)):
            try:
                call()
                seen["answered"] += 1
            except s2.Error as refused:
                assert str(refused)
                seen["refused"] += 1
    assert torch.equal(context.attention(q, k, v), want)
    return seen


def two_ranks(rank, port, cases, seed, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.save(hostile_calls(rank, 2, cases, seed), f"{folder}/{rank}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@unittest.skipUnless(GLOO, "needs torch.distributed with gloo")
class HostileTensors(unittest.TestCase):
    def setUp(self):
        print(f"seed {SEED}")

    def test_a_group_of_one(self):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        try:
            seen = hostile_calls(0, 1, CASES, SEED)
            self.assertGreater(min(seen.values()), CASES // 20)
            self.threads()
        finally:
            torch.distributed.destroy_process_group()
        for call in (s2.parallel.copied, s2.parallel.summed):
            self.assertRaisesRegex(s2.ArgumentError, "process_group", call, torch.zeros(3))

    def threads(self):
        """One context, several threads, each with keys of its own."""
        pattern, failed = s2.Pattern(TEXT), []
        context = s2.parallel.Context(pattern, 0, [0, 96])

        def work(seed):
            try:
                q, k = (torch.randn(1, heads, 96, 16, generator=torch.Generator().manual_seed(seed)) for heads in (2, 1))
                want = s2.attention(q, k, k, pattern)
                for _ in range(20):
                    if not torch.equal(context.attention(q, k, k), want):
                        failed.append("another answer")
            except BaseException as failure:
                failed.append(repr(failure))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failed, [])

    def test_two_ranks_that_are_wrong_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(two_ranks, (free_port(), min(CASES, 200), SEED, folder), 2)
            seen = [torch.load(f"{folder}/{rank}") for rank in range(2)]
        self.assertEqual(seen[0], seen[1])
        self.assertGreater(min(seen[0].values()), 0)
