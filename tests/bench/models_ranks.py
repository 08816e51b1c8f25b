"""A whole model over several GPUs of one host: heads dealt out as `Pattern.deal` proposes, sums by torch.distributed.

usage: models_ranks.py OUT.jsonl [--ranks 2] [--model llama-3.1-8b] [--length 32768] [--batch 16] [--steps 40]
Rows as tests/bench/models.py writes them, with ranks, each rank's seconds by kind of kernel, and what an all-reduce of the run's size takes alone.
On a CPU, which has one process a rank and gloo, it shows that it runs."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import models
import s2

UNEVEN = "kv 0-3: dense; kv 4-7: local 4"  # the first KV heads read all: dealt as they are numbered, one GPU has all of them


def bodies(name):
    yield "pattern", models.PATTERNS[name], False
    yield "dense", "dense", False
    half = models.SHAPES[name]["kv_heads"] // 2
    uneven = UNEVEN if half == 4 else f"kv 0-{half - 1}: dense; kv {half}-{2 * half - 1}: local 4"
    yield "uneven heads as numbered", uneven, False
    yield "uneven heads by work", uneven, True


def whole(name, body):
    at = models.SHAPES[name]
    rules = body if body.startswith("kv ") else f"layers all: {body}"
    return s2.Pattern(f"layers {at['layers']}; heads {at['heads']}; kv-heads {at['kv_heads']}; head-dim {at['dim']}; block 64; {rules}")


def reduced(x):
    dist.all_reduce(x)
    return x


def all_reduce_alone(tokens, hidden):
    """Seconds and bytes of one sum of a layer's output."""
    x = torch.zeros(tokens, hidden, device=models.DEVICE, dtype=torch.bfloat16)
    took = models.seconds(lambda: [dist.all_reduce(x) for _ in range(20)], 5)["s"] / 20
    return {"all_reduce_s": took, "all_reduce_bytes": x.numel() * 2}


def gathered(row):
    """The slowest rank's times, and every rank's kernels."""
    rows = [None] * dist.get_world_size()
    dist.all_gather_object(rows, row)
    slowest = max(rows, key=lambda one: one["s"])
    return {**slowest, "kernels_of_ranks_s": [one.get("kernels_s") for one in rows]}


@torch.no_grad()
def prefill(model, pattern, tokens):
    ids = torch.randint(0, model.at["vocab"], (1, tokens), device=models.DEVICE)
    positions = torch.arange(tokens, device=models.DEVICE)

    def run():
        model.logits(ids, positions, models.with_pattern(pattern))
    return {**models.seconds(run, 4), "peak_gib": models.peak_gib(), **models.kernels(run), **all_reduce_alone(tokens, model.at["hidden"])}


@torch.no_grad()
def decode(model, pattern, tokens, batch, steps):
    """One graph a step, sums between the GPUs in it; the next token is the largest logit of this rank's part of the vocabulary."""
    cache, sequences, attend = models.filled(pattern, model.embed, tokens - steps - 30, batch)
    about = {"tokens": tokens}
    row = models.decode(None, model, about, batch, lambda run: s2.Step(cache, sequences, run), attend, lambda: cache.usage.bytes, steps)
    cache.close()
    return {**row, **all_reduce_alone(batch, model.at["hidden"])}


def work(rank, asked):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29517"))
    if models.DEVICE == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if models.DEVICE == "cuda" else "gloo", rank=rank, world_size=asked.ranks)
    torch.manual_seed(1)
    models.fuse()
    model = models.Model(asked.model, asked.ranks, reduced)
    rows = models.Rows(asked.out, models.about())
    for way, body, by_work in bodies(asked.model):
        pattern = whole(asked.model, body)
        for figure in ("decode", "prefill"):
            deal = pattern.deal(asked.ranks, asked.length, figure) if by_work else None
            share = s2.parallel.Share(pattern, asked.ranks, rank, deal)
            models.clear()
            row = (decode(model, share.pattern, asked.length, asked.batch, asked.steps) if figure == "decode"
                   else prefill(model, share.pattern, asked.length))
            row = gathered(row)
            if rank == 0:
                rows.add(figure=figure, model=asked.model, tokens=asked.length, batch=asked.batch if figure == "decode" else 1, way=way,
                         pattern=body, ranks=asked.ranks, **row)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--model", default="llama-3.1-8b")
    parser.add_argument("--length", type=int, default=32768)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=40)
    asked = parser.parse_args()
    mp.spawn(work, (asked,), asked.ranks)


if __name__ == "__main__":
    main()
