"""A whole model over several GPUs of one host: heads dealt out as `Pattern.deal` proposes, sums by torch.distributed; or one sequence cut between them.

usage: models_ranks.py OUT.jsonl [--ranks 2] [--jobs FIGURE:MODEL:LENGTH,...] [--ways pattern,dense] [--batch 16] [--steps 40] [--times N]
Rows as tests/bench/models.py writes them, with ranks, each rank's seconds by kind of kernel, and what an all-reduce of the run's size takes alone.
`prefill` and `decode` deal heads out; `context` (a prefill) and `train` (a step) cut the sequence: first each rank compares its part of a short
one, gradients too, with the whole, and rows have the bytes that each rank sent beside what `Context.traffic` says. `make record-ranks` runs it
with 2 and 4 ranks. On a CPU, which has one process a rank and gloo, it shows that it runs; so does --share, with all ranks on one GPU."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import models
import s2
import s2.exchange

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
    each = {name: [one[name] for one in rows] for name in ("sent_bytes", "said_bytes") if name in row}
    return {**slowest, "kernels_of_ranks_s": [one.get("kernels_s") for one in rows], **each, **({"apart": max(one["apart"] for one in rows)} if "apart" in row else {})}


@torch.no_grad()
def prefill(model, pattern, tokens):
    ids = torch.randint(0, model.at["vocab"], (1, tokens), device=models.DEVICE)
    positions = torch.arange(tokens, device=models.DEVICE)

    def run():
        model.logits(ids, positions, models.with_pattern(pattern))
    return {**models.seconds(run, 4), **models.peaks(), **models.kernels(run), **all_reduce_alone(tokens, model.at["hidden"])}


@torch.no_grad()
def decode(model, pattern, tokens, batch, steps):
    """One graph a step, sums between the GPUs in it; the next token is the largest logit of this rank's part of the vocabulary."""
    cache, sequences, attend = models.filled(pattern, model.embed, tokens - steps - 30, batch)
    about = {"tokens": tokens}
    row = models.decode(None, model, about, batch, lambda run: s2.Step(cache, sequences, run), attend, lambda: cache.usage.bytes, steps)
    cache.close()
    return {**row, **all_reduce_alone(batch, model.at["hidden"])}


class Sent:
    """Bytes that this rank sends while it is open."""

    def __enter__(self):
        self.bytes, self.swap = 0, s2.exchange._swap

        def swap(sent, wanted, group):
            self.bytes += sum(one.numel() * one.element_size() for _, one in sent)
            self.swap(sent, wanted, group)
        s2.exchange._swap = swap
        return self

    def __exit__(self, *_):
        s2.exchange._swap = self.swap


def agrees(name, body, rank, ranks, tokens=2048):
    """The largest difference of this rank's part of a short sequence, gradients too, from the whole, against the largest value."""
    at = models.SHAPES[name]
    pattern = s2.Pattern(f"heads {at['heads']}; kv-heads {at['kv_heads']}; head-dim {at['dim']}; block 64; layers all: {body}")
    context = s2.parallel.Context(pattern, rank, s2.parallel.cut(pattern, ranks, tokens))
    torch.manual_seed(3)
    leaves = [torch.randn(1, heads, tokens, at["dim"], device=models.DEVICE, dtype=torch.bfloat16).requires_grad_()
              for heads in (at["heads"], at["kv_heads"], at["kv_heads"])]
    own = [one.detach()[:, :, context.begin:context.end].requires_grad_() for one in leaves]
    wanted, got = s2.attention(*leaves, pattern), context.attention(*own)
    weight = wanted.detach().cos()
    pairs = [(wanted.detach(), got.detach())]
    pairs += zip(torch.autograd.grad(wanted, leaves, weight), torch.autograd.grad(got, own, weight[:, :, context.begin:context.end]))
    return max(float((a[:, :, context.begin:context.end].float() - b.float()).abs().max() / a.float().abs().max()) for a, b in pairs)


def cut_run(model, name, pattern, tokens, asked, figure, rank):
    """A prefill of a sequence that is cut, or a step of training, which ends with a sum of all gradients."""
    context = s2.parallel.Context(pattern, rank, s2.parallel.cut(pattern, asked.ranks, tokens, asked.by))
    ids = torch.randint(0, model.at["vocab"], (1, tokens + 1), generator=torch.Generator().manual_seed(2)).to(models.DEVICE)
    own, losses = ids[:, context.begin:context.end + 1], []

    def attend(index, q, k, v):
        return context.attention(q, k, v, index)

    @torch.no_grad()
    def prefill_once():
        model.logits(own[:, :-1], torch.arange(context.begin, context.end, device=models.DEVICE), attend)

    optimizer = models.MasterAdamW(model.parameters()) if figure == "train" else None

    def step():
        loss = model.loss(own, attend, models.recomputed(name, tokens), context.begin, tokens)
        loss.backward()
        for one in model.parameters():
            dist.all_reduce(one.grad)
        optimizer.step()
        dist.all_reduce(loss := loss.detach())
        losses.append(round(float(loss), 3))

    run = step if figure == "train" else prefill_once
    dist.barrier()
    with Sent() as sent:
        by_kind = models.kernels(run)
        if models.DEVICE == "cpu":
            run()
    took = models.seconds(run, asked.times or (2 if figure == "train" else 4), 0)
    traffic = context.traffic(model.dim, 2)
    said = sum(traffic[rank])
    if figure == "train":  # forward, again where layers are recomputed, and gradients to whom the keys came from
        said = said * (2 if models.recomputed(name, tokens) else 1) + sum(row[rank] for row in traffic)
    return {**took, **models.peaks(), **by_kind, "sent_bytes": sent.bytes, "said_bytes": said, **({"losses": losses} if losses else {})}


def cut(rows, rank, asked, figure, name, tokens):
    """A whole model, one sequence cut between the ranks."""
    for way in (way for way in ("pattern", "dense") if models.wants(asked, way)):
        body = models.TRAINED.get(name, models.PATTERNS[name]) if way == "pattern" and figure == "train" else models.PATTERNS[name] if way == "pattern" else "dense"
        apart = agrees(name, body, rank, asked.ranks)
        torch.manual_seed(1)
        models.clear()
        model = models.Model(name)
        row = gathered({**cut_run(model, name, models.pattern_of(name, body), tokens, asked, figure, rank), "apart": apart})
        del model
        if rank == 0:
            rows.add(figure=figure, model=name, tokens=tokens, batch=1, way=f"context, {way}", pattern=body, ranks=asked.ranks,
                     **({"recompute": models.recomputed(name, tokens)} if figure == "train" else {}), cut_by=asked.by, **row)


def work(rank, asked):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29517"))
    nccl = models.DEVICE == "cuda" and not asked.share
    if models.DEVICE == "cuda":
        torch.cuda.set_device(0 if asked.share else rank)
    dist.init_process_group("nccl" if nccl else "gloo", rank=rank, world_size=asked.ranks)
    models.fuse()
    rows = models.Rows(asked.out, {**models.about(), "backend": dist.get_backend(), **({"share": True} if asked.share else {})})
    dist.all_reduce(torch.zeros(1, device=models.DEVICE))  # all ranks meet before two of them speak alone
    for job in asked.jobs.split(","):
        figure, name, tokens = job.split(":")
        if figure in ("context", "train"):
            cut(rows, rank, asked, {"context": "prefill"}.get(figure, figure), name, int(tokens))
        else:
            deal_out(rows, rank, asked, figure, name, int(tokens))
    dist.destroy_process_group()


def deal_out(rows, rank, asked, figure, name, tokens):
    """A whole model, heads dealt to the ranks."""
    torch.manual_seed(1)
    models.clear()
    model = models.Model(name, asked.ranks, reduced)
    for way, body, by_work in bodies(name):
        if not models.wants(asked, way):
            continue
        pattern = whole(name, body)
        deal = pattern.deal(asked.ranks, tokens, figure) if by_work else None
        share = s2.parallel.Share(pattern, asked.ranks, rank, deal)
        models.clear()
        row = gathered(decode(model, share.pattern, tokens, asked.batch, asked.steps) if figure == "decode" else prefill(model, share.pattern, tokens))
        if rank == 0:
            rows.add(figure=figure, model=name, tokens=tokens, batch=asked.batch if figure == "decode" else 1, way=way, pattern=body,
                     ranks=asked.ranks, **row)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--jobs", default="decode:llama-3.1-8b:32768,prefill:llama-3.1-8b:32768,context:llama-3.1-8b:32768,context:llama-3.1-8b:131072,"
                        "train:1.3b:65536,train:1.3b:131072")
    parser.add_argument("--ways", default="", help="these alone, as rows name them")
    parser.add_argument("--times", type=int, default=0, help="runs of a cut sequence; 0: four, of training two")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--by", default="tokens", help="what a cut makes even: tokens or pairs")
    parser.add_argument("--share", action="store_true", help="all ranks on one GPU, with gloo: it shows that it runs")
    asked = parser.parse_args()
    mp.spawn(work, (asked,), asked.ranks)


if __name__ == "__main__":
    main()
