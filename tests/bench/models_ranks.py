"""A whole model over several GPUs of one host: heads dealt out as `Pattern.deal` proposes, sums by torch.distributed; or one sequence cut between them.

usage: models_ranks.py OUT.jsonl [--ranks 2] [--jobs FIGURE:MODEL:LENGTH,...] [--ways pattern,dense] [--batch 16] [--steps 40] [--times N]
Rows as tests/bench/models.py writes them, with ranks, each rank's seconds by kind of kernel, and what an all-reduce of the run's size takes alone.
`prefill`, `decode` and `step` (of training) deal heads out; `context` (a prefill) and `train` (a step) cut the sequence. Where the sequence is cut each
rank first compares its part of a short one, gradients too, with the whole, and rows have the bytes that each rank sent beside what `Context.traffic`
says. A step first compares the gradients of all weights, of one GPU and of all, with those in 32 bits, then times one GPU and all with the same
weights and tokens; its rows have the bytes of its sums, and what the links' own counters say of them. `make record-ranks` runs it with 2 and 4 ranks. On a CPU, which has one process a rank and gloo, it shows that it runs; so does --share, with all ranks on one GPU."""
import argparse
import contextlib
import copy
import os
import re
import shutil
import subprocess

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

import models
import s2
import s2.exchange

UNEVEN = "kv 0-3: dense; kv 4-7: local 4"  # the first KV heads read all: dealt as they are numbered, one GPU has all of them


def bodies(name, body):
    yield "pattern", body, False
    yield "dense", "dense", False
    half = models.SHAPES[name]["kv_heads"] // 2
    uneven = UNEVEN if half == 4 else f"kv 0-{half - 1}: dense; kv {half}-{2 * half - 1}: local 4"
    yield "uneven heads as numbered", uneven, False
    yield "uneven heads by work", uneven, True


def shares(name, body, tokens, asked, figure, rank):
    """What is measured of heads that are dealt out: a name, its rules, and this rank's share."""
    for way, rules, by_work in bodies(name, body):
        if models.wants(asked, way):
            pattern = whole(name, rules)
            yield way, rules, s2.parallel.Share(pattern, asked.ranks, rank, pattern.deal(asked.ranks, tokens, figure) if by_work else None)


def whole(name, body):
    at = models.SHAPES[name]
    rules = body if body.startswith("kv ") else f"layers all: {body}"
    return s2.Pattern(f"layers {at['layers']}; heads {at['heads']}; kv-heads {at['kv_heads']}; head-dim {at['dim']}; block 64; {rules}")


class Split(models.Model):
    """A rank's part of a model: its heads, its part of the feed-forward's inner numbers and of the vocabulary's logits."""

    def reduce(self, y):
        return s2.parallel.summed(y)

    def copied(self, x):
        return s2.parallel.copied(x)

    def entropy(self, h, wanted):
        logits = F.linear(self.copied(h), self.head).float()
        own = wanted - dist.get_rank() * self.head.shape[0]
        there = (own >= 0) & (own < logits.shape[1])
        of_wanted = torch.where(there, logits.gather(1, own.clamp(0, logits.shape[1] - 1)[:, None])[:, 0], 0.0)
        most = logits.detach().max(1).values
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return (self.reduce((logits - most[:, None]).exp().sum(1)).log() + most - self.reduce(of_wanted)).sum()


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
    each = {name: [one[name] for one in rows] for name in ("sent_bytes", "said_bytes", "link_bytes") if name in row}
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


@contextlib.contextmanager
def counted(found):
    """Adds up in found[0] the bytes that this rank sends while it lasts: keys and values, and of each sum its part of a ring's."""
    swap, total = s2.exchange._swap, s2.exchange._sum

    def counted_swap(sent, wanted, group):
        found[0] += sum(one.numel() * one.element_size() for _, one in sent)
        swap(sent, wanted, group)

    def counted_sum(x, group):
        found[0] += 2 * (dist.get_world_size() - 1) * x.numel() * x.element_size() // dist.get_world_size()
        total(x, group)
    s2.exchange._swap, s2.exchange._sum = counted_swap, counted_sum
    try:
        yield
    finally:
        s2.exchange._swap, s2.exchange._sum = swap, total


def link_bytes(rank):
    """What the GPU says that its links have sent so far; None where it does not say."""
    if models.DEVICE == "cpu" or not shutil.which("nvidia-smi"):
        return None
    models.wait()
    out = subprocess.run(["nvidia-smi", "nvlink", "-gt", "d", "-i", str(rank)], capture_output=True, text=True).stdout
    sent = [int(one) * 1024 for one in re.findall(r"Tx: (\d+) KiB", out)]
    return sum(sent) if sent else None


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
    sent = [0]
    with counted(sent):
        by_kind = models.kernels(run)
        if models.DEVICE == "cpu":
            run()
    took = models.seconds(run, asked.times or (2 if figure == "train" else 4), 0)
    traffic = context.traffic(model.dim, 2)
    said = sum(traffic[rank])
    if figure == "train":  # forward, again where layers are recomputed, and gradients to whom the keys came from
        said = said * (2 if models.recomputed(name, tokens) else 1) + sum(row[rank] for row in traffic)
    return {**took, **models.peaks(), **by_kind, "sent_bytes": sent[0], "said_bytes": said, **({"losses": losses} if losses else {})}


def cut(rows, rank, asked, figure, name, tokens):
    """A whole model, one sequence cut between the ranks."""
    for way in (way for way in ("pattern", "dense") if models.wants(asked, way)):
        body = "dense" if way == "dense" else models.trained(name) if figure == "train" else models.PATTERNS[name]
        apart = agrees(name, body, rank, asked.ranks)
        torch.manual_seed(1)
        models.clear()
        model = models.Model(name)
        row = gathered({**cut_run(model, name, models.pattern_of(name, body), tokens, asked, figure, rank), "apart": apart})
        del model
        if rank == 0:
            rows.add(figure=figure, model=name, tokens=tokens, batch=1, way=f"context, {way}", pattern=body, ranks=asked.ranks,
                     **({"recompute": models.recomputed(name, tokens)} if figure == "train" else {}), cut_by=asked.by, **row)


def part_of(parameter, x, share, rank):
    """A rank's part of a parameter of the whole model, or of its gradient."""
    *_, layer, kind = ["", *parameter.split(".")]
    ranks = share.whole.heads // share.pattern.heads
    if kind == "qkv":
        layer, kv_rows = int(layer), x.shape[0] // (share.whole.heads + 2 * share.whole.kv_heads) * share.whole.kv_heads
        q, k, v = x.split([x.shape[0] - 2 * kv_rows, kv_rows, kv_rows])
        return torch.cat([share.take(q, layer), share.take(k, layer, kv=True), share.take(v, layer, kv=True)])
    if kind == "out":
        return share.take(x.t(), int(layer)).t()
    if kind == "up":
        return torch.cat([half.chunk(ranks)[rank] for half in x.chunk(2)])
    return x.chunk(ranks, int(kind == "down"))[rank] if kind in ("down", "head") else x


@torch.no_grad()
def split(one, name, share, rank):
    """A rank's part of a whole model."""
    made = Split(name, dist.get_world_size())
    for (parameter, x), part in zip(one.named_parameters(), made.parameters()):
        part.copy_(part_of(parameter, x, share, rank))
    return made


def with_mask(pattern, tokens):
    """Attention in torch's own operations, with the pattern's mask."""
    masks = {kind: torch.from_numpy(pattern.mask(kind, tokens)).to(models.DEVICE) for kind in set(pattern.kinds())}

    def attend(index, q, k, v):
        k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
        score = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~masks[pattern.kinds()[index]], float("-inf"))
        return score.softmax(-1) @ v
    return attend


def gradients(name, share, rank, tokens=2048):
    """By kind of weight, how far the gradients of one GPU and of all are from those in 32 bits, as shares of their length; and whether those of
    weights that each rank has whole are the same bits everywhere."""
    torch.manual_seed(1)
    one = models.Model(name)
    made, exact = split(one, name, share, rank), copy.deepcopy(one).float()
    ids = torch.randint(0, one.at["vocab"], (1, tokens + 1), generator=torch.Generator().manual_seed(2)).to(models.DEVICE)
    for model, attend in ((one, models.with_pattern(share.whole)), (made, models.with_pattern(share.pattern)), (exact, with_mask(share.whole, tokens))):
        model.loss(ids, attend, True).backward()
    found, same = {}, True
    for (parameter, of_one), of_all, wanted in zip(one.named_parameters(), made.parameters(), exact.parameters()):
        mine, right = (part_of(parameter, x.grad, share, rank).double() for x in (of_one, wanted))
        found.setdefault(parameter.split(".")[-1], []).append(torch.stack([(mine - right).square().sum(), (of_all.grad - right).square().sum(), right.square().sum()]))
        if of_all.shape == of_one.shape:
            first = of_all.grad.clone()
            dist.broadcast(first, 0)
            same = same and torch.equal(first, of_all.grad)
    apart = {}
    for kind, sums in found.items():
        together = torch.stack(sums).sum(0)
        dist.all_reduce(together)
        apart[kind] = [round(float((together[nth] / together[2]).sqrt()), 6) for nth in range(2)]
    return {"gradients_apart": apart, "same_bits": same}


def training(model, pattern, name, tokens, asked, rank):
    """Steps: a short one, in which all is compiled, one that is watched, and those that are timed."""
    ids = torch.randint(0, model.at["vocab"], (1, tokens + 1), generator=torch.Generator().manual_seed(2)).to(models.DEVICE)
    optimizer, losses, attend, sent = models.MasterAdamW(model.parameters()), [], models.with_pattern(pattern), [0]

    def step(first=tokens):
        loss = model.loss(ids[:, :first + 1], attend, models.recomputed(name, tokens))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    step(models.SHORT)
    before = link_bytes(rank)
    with counted(sent):
        by_kind = models.kernels(step)
        if models.DEVICE == "cpu":
            step()
    after = link_bytes(rank)
    took = models.seconds(step, asked.times or 3, 0)
    return {**took, **models.peaks(), **by_kind, "sent_bytes": sent[0], **({} if after is None else {"link_bytes": after - before}),
            "losses": [round(float(one), 4) for one in losses]}


def steps(rows, rank, asked, name, tokens, apart):
    """Steps of training with the same weights and tokens, of one GPU and of all."""
    for way, body, share in shares(name, models.trained(name), tokens, asked, "train", rank):
        about = {"figure": "train", "model": name, "tokens": tokens, "batch": 1, "way": way, "pattern": body, "recompute": models.recomputed(name, tokens)}
        torch.manual_seed(1)
        models.clear()
        one = models.Model(name)
        made = split(one, name, share, rank)
        if rank == 0 and not way.startswith("uneven") and not asked.quick:
            rows.attempt(lambda: training(one, share.whole, name, tokens, asked, rank), **about, ranks=1)
        del one
        models.clear()
        dist.barrier()
        row = gathered({**training(made, share.pattern, name, tokens, asked, rank), **all_reduce_alone(tokens, made.at["hidden"])})
        del made
        if rank == 0:
            rows.add(**about, ranks=asked.ranks, deal="by work" if way.endswith("by work") else "as numbered", **row, **apart.get((name, way), {}))


def work(rank, asked):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29517"))
    nccl = models.DEVICE == "cuda" and not asked.share
    if models.DEVICE == "cuda":
        torch.cuda.set_device(0 if asked.share else rank)
    dist.init_process_group("nccl" if nccl else "gloo", rank=rank, world_size=asked.ranks)
    jobs = [(figure, name, int(tokens)) for figure, name, tokens in (job.split(":") for job in asked.jobs.split(","))]
    dist.all_reduce(torch.zeros(1, device=models.DEVICE))  # all ranks meet before two of them speak alone
    apart = {(name, way): gradients(name, share, rank) for name in sorted({name for figure, name, _ in jobs if figure == "step" and not asked.quick})
             for way, _, share in shares(name, models.trained(name), 2048, asked, "train", rank)}
    models.fuse()
    rows = models.Rows(asked.out, {**models.about(), "backend": dist.get_backend(), **({"share": True} if asked.share else {})})
    for figure, name, tokens in jobs:
        if figure == "step":
            steps(rows, rank, asked, name, tokens, apart)
        elif figure in ("context", "train"):
            cut(rows, rank, asked, {"context": "prefill"}.get(figure, figure), name, tokens)
        else:
            deal_out(rows, rank, asked, figure, name, tokens)
    dist.destroy_process_group()


def deal_out(rows, rank, asked, figure, name, tokens):
    """A whole model, heads dealt to the ranks."""
    torch.manual_seed(1)
    models.clear()
    model = Split(name, asked.ranks)
    for way, body, share in shares(name, models.PATTERNS[name], tokens, asked, figure, rank):
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
                        "train:1.3b:65536,train:1.3b:131072,step:1.3b:8192,step:1.3b:32768,step:8b-8-layers:32768")
    parser.add_argument("--ways", default="", help="these alone, as rows name them")
    parser.add_argument("--times", type=int, default=0, help="runs of a cut sequence and steps of training; 0: four, and two")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="steps of all GPUs alone: no gradients are compared, and none of one GPU is timed")
    parser.add_argument("--by", default="tokens", help="what a cut makes even: tokens or pairs")
    parser.add_argument("--share", action="store_true", help="all ranks on one GPU, with gloo: it shows that it runs")
    asked = parser.parse_args()
    mp.spawn(work, (asked,), asked.ranks)


if __name__ == "__main__":
    main()
