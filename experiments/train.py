"""Train small decoders under many patterns side by side, and say what each has learned.

    python3 experiments/train.py --data DIR --jobs recall:1,2,3 text:1 needle:1 twohop:1 copy:1 --out rows.jsonl

A job is a pattern, a task and a seed; `--models` jobs run in one batch. With several GPUs, one process each:
`--part I --of N`. Batches are started as long as `--limit` seconds suffice. One JSON object per job is written.
"""
import argparse
import gzip
import json
import math
import pathlib
import time

import numpy
import torch

import model
import tasks
from shape import HEADS, LAYERS

BUCKET = 32  # tokens of distance that are counted together


def options():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--data", type=pathlib.Path, required=True)
    parse.add_argument("--out", type=pathlib.Path, required=True)
    parse.add_argument("--jobs", nargs="+", default=["recall:1,2,3", "text:1", "mixed:1"])
    parse.add_argument("--only", help="names of patterns, comma between")
    parse.add_argument("--rates", type=float, nargs="+", default=[2e-3], help="learning rates; more than one: each")
    parse.add_argument("--steps", type=int, default=2000)
    parse.add_argument("--rows", type=int, default=64)
    parse.add_argument("--models", type=int, default=24)
    parse.add_argument("--evaluate", type=int, default=100, help="steps between evaluations")
    parse.add_argument("--attention", choices=["flex", "s2", "plain"], default="flex",
                       help="FlexAttention over the masks, the operator of the package s2 over the patterns, or softmax as written")
    parse.add_argument("--part", type=int, default=0)
    parse.add_argument("--of", type=int, default=1)
    parse.add_argument("--limit", type=float, default=1e9)
    parse.add_argument("--commit", default="")
    parse.add_argument("--width", type=int, default=128)
    parse.add_argument("--layers", type=int, default=LAYERS)
    parse.add_argument("--shorten", action="store_true", help="take fewer steps where --limit does not leave time for all")
    parse.add_argument("--eager", action="store_true", help="without the compiler, for a look on a CPU")
    return parse.parse_args()


class Trainer:
    """One compiled step for `models` jobs; a new batch of jobs changes parameters and masks in place."""

    def __init__(self, opt, device, deadline):
        self.opt, self.device, self.deadline = opt, device, deadline
        self.batches = 1  # that have to share what is left until then, this one counted
        self.begin_s = 0.0  # of the last batch: what its first 25 steps took, with the compiler
        self.shape = model.Shape(layers=opt.layers, head_dim=opt.width // HEADS, width=opt.width, hidden=2 * opt.width)
        self.turn = model.rotary(self.shape.head_dim, device)
        size = (opt.models, self.shape.layers, self.shape.heads, tasks.CONTEXT, tasks.CONTEXT)
        self.mask = torch.ones(size, dtype=torch.bool, device=device).tril()
        layers = [self.mask[:, layer] for layer in range(self.shape.layers)]
        self.patterns = []  # of the jobs, for the operator
        self.attends = [model.attend_flex(self.shape, m, opt.rows) if opt.attention == "flex" else
                        model.attend_s2(self.patterns, layer) if opt.attention == "s2" else
                        model.attend_plain(self.shape, m) for layer, m in enumerate(layers)]
        keep = (lambda f: f) if opt.eager else (lambda f: torch.compile(f, dynamic=False))
        self.losses = keep(lambda p, x, y: model.losses(self.shape, p, x, y, self.attends, self.turn))
        self.judged = keep(lambda p, x, y: model.judged(self.shape, p, x, y, self.attends, self.turn))
        self.update = keep(model.adamw)
        data = torch.tensor(list(gzip.decompress((opt.data / "text.gz").read_bytes())), dtype=torch.uint8)
        cut = len(data) * 19 // 20
        self.text = {"train": data[:cut].to(device), "held": data[cut:].to(device)}

    def rows_of(self, task, gen, held):
        text = self.text["held" if held else "train"]
        if task == "recall":
            return tasks.recall(self.opt.rows, gen, 32 if held else None)
        if task == "needle":
            return tasks.needle(self.opt.rows, gen, text, 8 if held else None)
        if task == "twohop":
            return tasks.two_hops(self.opt.rows, gen, 8 if held else None)
        if task == "text":
            return tasks.text(self.opt.rows, gen, text)
        return {"mixed": tasks.mixed, "copy": tasks.copy}[task](self.opt.rows, gen)

    def generator(self, task, seed):
        gen = torch.Generator(device=self.device)
        gen.manual_seed(7919 * seed + tasks.STREAMS[task])
        return gen

    def batch(self, jobs, gens, held=False):
        """The rows of every job: drawn once for each stream, shared by the jobs that have it."""
        drawn = {key: self.rows_of(key[0], gen, held) for key, gen in gens.items()}
        keys = list(drawn)
        at = torch.tensor([keys.index(self.stream(job, held)) for job in jobs], device=self.device)
        return [torch.stack([drawn[key][part] for key in keys])[at] for part in range(3)]

    @staticmethod
    def stream(job, held):
        return (job["task"], 0 if held else job["seed"])

    def streams(self, jobs, held=False):
        keys = sorted({self.stream(job, held) for job in jobs})
        return {key: self.generator(*key) for key in keys}

    @torch.no_grad()
    def evaluate(self, p, jobs, batches):
        """For each job a list of (sum, count) pairs, by kind: a tensor [models, kinds, 2] and the loss."""
        gens, kinds = self.streams(jobs, held=True), tasks.CONTEXT // BUCKET
        total = torch.zeros(len(jobs), kinds, 2, device=self.device)
        loss = torch.zeros(len(jobs), 2, device=self.device)
        far = torch.tensor([job["task"] in tasks.BY_DISTANCE for job in jobs], device=self.device)[:, None, None]
        for _ in range(batches):
            x, y, kind = self.batch(jobs, gens, held=True)
            right, nll = self.judged(p, x, y)
            group = torch.where(far, kind // BUCKET, kind)
            asked = y != 0
            for number in range(kinds):
                here = asked & (group == number)
                total[:, number, 0] += (right & here).sum((1, 2))
                total[:, number, 1] += here.sum((1, 2))
            loss += torch.stack([(nll * asked).sum((1, 2)), asked.sum((1, 2))], 1)
        return total, loss[:, 0] / loss[:, 1]

    def load(self, jobs, bits):
        if self.opt.attention == "s2":
            import s2
            self.patterns[:] = [s2.Pattern(job["text"]) for job in jobs]
        for number, job in enumerate(jobs):
            mask = numpy.unpackbits(bits[job["name"]], axis=-1, count=tasks.CONTEXT)
            self.mask[number] = torch.from_numpy(mask.astype(bool)).to(self.device)

    def now(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.monotonic()

    def shortened(self, steps, seconds):
        """Steps, and steps between evaluations, for what is left of the limit at so many seconds a step."""
        evaluations = steps // self.opt.evaluate
        possible = int(25 + 0.85 * (self.deadline - self.now()) / self.batches / seconds) if self.opt.shorten else steps
        evaluate = max(1, min(steps, possible) // evaluations)
        return evaluate * evaluations, evaluate

    def train(self, jobs, steps):
        p = model.parameters(self.shape, [job["seed"] for job in jobs], self.device)
        first, second = ({name: torch.zeros_like(v) for name, v in p.items()} for _ in range(2))
        top = torch.tensor([job["rate"] for job in jobs], device=self.device)
        gens, curve, begin, evaluate = self.streams(jobs), [], time.monotonic(), self.opt.evaluate
        for step in range(1, steps + 1):
            if time.monotonic() > self.deadline:
                break
            if step == 10:
                self.evaluate(p, jobs, 1)
                timed = self.now()
            if step == 25:
                steps, evaluate = self.shortened(steps, (self.now() - timed) / 15)
                self.begin_s = self.now() - begin
                print(f"part {self.opt.part}: 25 of {steps} steps after {self.begin_s:.1f} s", flush=True)
            x, y, _ = self.batch(jobs, gens)
            grads = torch.autograd.grad(self.losses(p, x, y).sum(), list(p.values()))
            pace = min(1.0, step / 100) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * step / steps)))
            with torch.no_grad():
                self.update(p, dict(zip(p, grads)), first, second, top * pace, torch.tensor(float(step), device=self.device))
            if step % evaluate == 0 and step < steps:
                curve.append((step, *self.evaluate(p, jobs, 1)))
            if step >= steps:
                break
        curve.append((step, *self.evaluate(p, jobs, 8)))
        return [(step, total.cpu(), loss.cpu()) for step, total, loss in curve]


def share(total):
    return round(float(total[..., 0].sum() / total[..., 1].sum().clamp(min=1)), 4)


def row(job, number, curve, opt, trainer, seconds):
    """What is kept of a job: the curve of its metric and the parts of it at the end."""
    task, (steps, total, loss) = job["task"], curve[-1]
    out = {key: job[key] for key in ("name", "family", "task", "seed", "rate")}
    out |= {"steps": steps, "rows": opt.rows, "layers": opt.layers, "width": opt.width,
            "loss": round(float(loss[number]), 4)}
    if task == "text":
        out["curve"] = [[step, round(float(loss[number]), 4)] for step, _, loss in curve]
    else:
        counted = tasks.COUNTED[task] if tasks.COUNTED[task] is not None else slice(None)
        out["recall"] = share(total[number, counted])
        out["curve"] = [[step, share(total[number, counted])] for step, total, _ in curve]
        parts = range(tasks.CONTEXT // BUCKET) if task in tasks.BY_DISTANCE else (1, 2, 3)
        out["by_distance" if task in tasks.BY_DISTANCE else "hop1_hop2_copy"] = [share(total[number, part]) for part in parts]
    kernels = {} if opt.attention == "flex" else {"attention": opt.attention}
    name = torch.cuda.get_device_name() if trainer.device.type == "cuda" else "CPU"
    return {**out, **kernels, "begin_s": round(trainer.begin_s, 1), "batch_s": round(seconds, 1), "models": opt.models,
            "device": name, "commit": opt.commit}


def jobs_of(opt):
    patterns = json.loads((opt.data / "patterns.json").read_text())
    only = opt.only.split(",") if opt.only else [pattern["name"] for pattern in patterns]
    streams = [(part.split(":")[0], int(seed)) for part in opt.jobs for seed in part.split(":")[1].split(",")]
    return [{**pattern, "task": task, "seed": seed, "rate": rate}
            for task, seed in streams for rate in opt.rates for pattern in patterns if pattern["name"] in only]


def main():
    opt, begin = options(), time.monotonic()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    bits, trainer = numpy.load(opt.data / "masks.npz"), Trainer(opt, device, begin + opt.limit)
    jobs = jobs_of(opt)
    batches = [jobs[at:at + opt.models] for at in range(0, len(jobs), opt.models)][opt.part::opt.of]
    longest = 0.0
    with opt.out.open("a") as out:
        for at, batch in enumerate(batches):
            if not opt.shorten and time.monotonic() - begin + longest > opt.limit:
                print(f"part {opt.part}: no time for {len(batch)} jobs", flush=True)
                continue
            trainer.batches = len(batches) - at
            start, filled = time.monotonic(), batch + batch[:1] * (opt.models - len(batch))
            trainer.load(filled, bits)
            curve = trainer.train(filled, opt.steps)
            seconds = time.monotonic() - start
            longest = max(longest, seconds)
            for number, job in enumerate(batch):
                out.write(json.dumps(row(job, number, curve, opt, trainer, seconds)) + "\n")
            out.flush()
            print(f"part {opt.part}: {len(batch)} jobs in {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
