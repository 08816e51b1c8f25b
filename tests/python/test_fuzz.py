"""Calls with anything at all: an answer or one of the package's exceptions, in a process that lives on."""
import copy
import inspect
import os
import random
import tempfile
import time
import unittest

import numpy

import s2

CASES = min(int(os.environ.get("S2_CASES", 1500)), int(os.environ.get("S2_CASES_MAX", 1500)))
MINUTES = float(os.environ.get("S2_MINUTES", 0))  # of calls to everything that is public; 0: CASES of them
SEED = int(os.environ.get("S2_SEED", 3))
TEXT = "heads 2; kv-heads 1; head-dim 8; block 16; layers 2; layers all: local 2 | stride 3 phase head; layers 1: dense"


def odd(rng):
    """Something that a caller might hand over by mistake."""
    array = numpy.zeros((rng.choice([0, 1, 2, 3]), rng.choice([1, 2, 5]), rng.choice([1, 7, 33]), rng.choice([1, 8, 9])),
                        dtype=rng.choice(["f4", "f2", "f8", "i4", "?", ">f4", "S4"]))
    return rng.choice([None, 0, 1, -1, 2**31, 2**63, 2**70, 10**5000, 0.5, float("nan"), "", "cpu", "rows", "\0", "ä\ud800", TEXT, b"x", [], [0, 1], {},
                       object(), True, array, array[..., ::-1], array[::2], array.T, numpy.broadcast_to(array[:1], array.shape), numpy.int64(3)])


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(SEED)
        print(f"seed {SEED}")

    def attempt(self, call, arguments, options, share):
        """Some of the arguments replaced; whatever is raised must be ours, or Python's own TypeError of a signature."""
        arguments = [odd(self.rng) if self.rng.random() < share else one for one in arguments]
        options = {name: odd(self.rng) if self.rng.random() < share else one for name, one in options.items()}
        try:
            return call(*arguments, **options)
        except s2.Error as refused:
            self.assertTrue(str(refused))
            return None

    def test_patterns(self):
        marks = TEXT.replace(";", "\n") + "{}[]:,\"'|\0äx0129"
        for _ in range(CASES):
            cut = self.rng.randrange(len(TEXT))
            text = TEXT[:cut] + "".join(self.rng.choices(marks, k=self.rng.randrange(6))) + TEXT[cut + self.rng.randrange(8):] + ";"
            pattern = self.attempt(s2.Pattern, [text], {"format": None}, 0.1)
            if pattern is not None and pattern.layers * pattern.heads <= 64:
                self.attempt(pattern.mask, [0, 40], {"phase": "prefill", "queries": (0, 3)}, 0.3)
                self.attempt(pattern.check, ["rows"], {"length": 64}, 0.2)

    def test_attention_and_gradients(self):
        pattern = s2.Pattern(TEXT)
        q, k = numpy.ones((2, 2, 33, 8), "f4"), numpy.ones((2, 1, 33, 8), "f4")
        lse, counts, blocks = numpy.zeros((2, 2, 33), "f4"), numpy.ones((2, 1, 3), "i4"), numpy.zeros((2, 1, 3, 2), "i4")
        options = {"scale": 0.3, "phase": "prefill", "cu_seqlens_q": None, "cu_seqlens_k": None, "softcap": None, "sinks": None, "deterministic": True}
        for _ in range(CASES):
            share = self.rng.choice([0.02, 0.1, 0.4])
            self.attempt(s2.attention, [q, k, k, pattern, 0], {**options, "return_lse": False}, share)
            self.attempt(s2.attention_backward, [q, q, k, k, q, lse, pattern, 1], options, share)
            self.attempt(s2.block_attention, [q, k, k, pattern, counts, blocks, 1], {
                "query_block": 16, "scale": 0.3, "cu_seqlens_q": None, "cu_seqlens_k": None, "return_lse": False, "softcap": None, "sinks": None}, share)
            self.attempt(pattern.simulate, [64], {"gpu": "h200", "phase": "decode", "batch": 1, "dtype": "bfloat16"}, share)

    def test_shares_and_files(self):
        for _ in range(CASES // 5):
            pattern = s2.Pattern(TEXT.replace("kv-heads 1", "kv-heads 2"))
            share = self.rng.choice([0.0, 0.2, 0.5])
            deal = self.attempt(pattern.deal, [2, 64], {"phase": "decode"}, share)
            self.attempt(pattern.share, [2, 1], {"deal": deal, "layers": self.rng.choice([None, (0, 2), (1, 1), (0, 1, 2)])}, share)
            of = self.attempt(s2.parallel.Share, [pattern, 2, 0, deal], {}, share)
            if of is not None:
                self.attempt(of.take, [numpy.zeros((16, 3)), 0], {"kv": False}, 0.4)
            bounds = self.attempt(s2.parallel.cut, [pattern, self.rng.choice([1, 2, 3]), 100], {"by": "pairs"}, share)
            context = self.attempt(s2.parallel.Context, [pattern, 1, bounds], {"page": 0}, share)
            if context is not None:
                self.attempt(context.traffic, [8, 2], {"batch": 1}, share)
                self.attempt(context.prove, [], {}, 0)
                self.attempt(context.attention, [numpy.zeros((1, 2, 50, 8), "f4")] * 3, {"layer": 0}, 0.5)
            self.attempt(pattern.kinds, ["prefill"], {}, share)
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "file")
                format = self.rng.choice([one.name for one in s2.formats()])
                written = self.attempt(pattern.write, [path, format], {"length": 64}, share if share < 0.5 else 0)
                if written is not None and os.path.exists(path):
                    self.attempt(s2.Pattern, [path], {"format": format}, share)

    def test_caches(self):
        pattern, rng = s2.Pattern(TEXT), self.rng
        cache = s2.Cache(pattern, numpy.zeros(1, "f4"), pages=40)
        rows = [numpy.ones((1, n, 8), "f4") for n in range(9)]
        for _ in range(CASES):
            number = rng.randrange(4)
            some = rng.sample(range(5), rng.randrange(1, 4))
            calls = [(cache.open, []), (cache.append, [rng.choice([number, some]), rng.choice([1, 1, 1, 8, 300])]), (s2.Step, [cache, some, lambda: None]),
                     (copy.deepcopy, [cache]), (cache.write, [some, 0, rng.choice(rows)[None], rng.choice(rows)[None]]),
                     (cache.attend, [numpy.ones((len(some), 2, 1, 8), "f4"), some, 1]), (cache.fork, [number]), (cache.drop, [number]),
                     (cache.write, [number, 0, rng.choice(rows), rng.choice(rows)]), (cache.tokens, [number]),
                     (cache.slots, [number, 0, 0, 0, rng.randrange(40)]), (cache.attend, [numpy.ones((1, 2, 1, 8), "f4"), [number], 0])]
            call, arguments = rng.choice(calls)
            made = self.attempt(call, arguments, {}, 0.1)
            if isinstance(made, s2.Step):
                self.attempt(made, [], {}, 0)
            if rng.random() < 0.02:
                self.attempt(cache.close, [], {}, 0)
                self.attempt(call, arguments, {}, 0.1)
                cache = self.attempt(s2.Cache, [pattern, rows[1]], {"layout": "ring", "page": 16, "step": 1, "pages": 40}, 0.0)

    def test_what_the_library_was_told_cannot_be_changed(self):
        pattern = s2.Pattern(TEXT.replace("kv-heads 1", "kv-heads 2"))
        q = numpy.random.default_rng(1).standard_normal((1, 2, 40, 8)).astype("f4")
        cache = s2.Cache(pattern, q)
        row = cache.open()
        cache.append(row, 3)
        step, context = s2.Step(cache, [row], lambda: None), s2.parallel.Context(pattern, 1, [0, 32, 64])
        want = s2.attention(q, q, q, pattern)
        for one in (pattern, cache, step, context):
            self.assertGreater(len(one._fixed), 2)
            for name in one._fixed:
                self.assertRaisesRegex(s2.ArgumentError, name, setattr, one, name, odd(self.rng))
                self.assertRaisesRegex(s2.ArgumentError, name, delattr, one, name)
            names = {name for name, value in vars(one).items() if not name.startswith("_") and isinstance(value, (int, str, tuple, s2.Pattern))}
            self.assertEqual(names - one._fixed - {"captures"}, set())  # a new member is thought of
        self.assertRaisesRegex(s2.ArgumentError, "heads|number|_handle", pattern.__init__, TEXT)
        self.assertTrue(numpy.array_equal(s2.attention(q, q, q, pattern), want))


class Surface(unittest.TestCase):
    """Everything that is public, also what comes to it later, with arguments that are right, or that belong elsewhere, or are anything."""

    def array(self, value):
        return value

    def anything(self, rng):
        return odd(rng)

    def world(self, rng):
        """Right arguments by their names, and the objects whose methods are called."""
        pattern = s2.Pattern(TEXT.replace("kv-heads 1", "kv-heads 2"))
        q, one = self.array(numpy.ones((2, 2, 33, 8), "f4")), self.array(numpy.ones((2, 2, 1, 8), "f4"))
        cache = s2.Cache(pattern, q, pages=60)
        rows = [cache.open(), cache.open()]
        cache.append(rows, 5)
        cache.append(rows, 1)
        step = s2.Step(cache, rows, lambda: None)
        share, context = s2.parallel.Share(pattern, 2, 1), s2.parallel.Context(pattern, 1, [0, 48, 100])
        dense = s2.Pattern("heads 2; kv-heads 2; head-dim 8; block 16; layers all: dense")
        named = {"q": q, "k": q, "v": q, "o": q, "d_o": q, "lse": self.array(numpy.zeros((2, 2, 33), "f4")), "pattern": rng.choice([pattern, dense]),
                 "layer": rng.choice([0, 1]), "source": TEXT, "length": 64, "n": 40, "queries": (0, 3), "ranks": 2, "rank": 1, "bounds": [0, 48, 100],
                 "cache": cache, "like": q, "sequence": rng.choice([rows[0], rows]), "sequences": rows, "tokens": rng.choice([1, 1, 2, 300]), "body": lambda: None,
                 "counts": self.array(numpy.ones((2, 2, 3), "i4")), "blocks": self.array(numpy.zeros((2, 2, 3, 2), "i4")), "query_block": 16,
                 "properties": "rows,union", "gpu": "h200", "phase": "decode", "dtype": "float32", "batch": 2, "by": "pairs", "path": "file", "format": "hf",
                 "weight": self.array(numpy.ones((16, 3), "f4")), "kv": True, "deal": None, "head_dim": 8, "itemsize": 2, "begin": 0, "end": 3, "kv_head": 1,
                 "scale": 0.3, "return_lse": True, "softcap": 2.0, "sinks": self.array(numpy.zeros(2, "f4")), "page": 16, "step": 1, "layers": (0, 1),
                 "cu_seqlens_q": None, "cu_seqlens_k": None, "deterministic": True, "layout": "ring", "pages": 9, "model": None}
        if rng.random() < 0.5:
            named.update(q=one, k=one, v=one)
        return named, (pattern, cache, step, share, context)

    def callables(self, objects):
        for name in s2.__all__:
            one = getattr(s2, name)
            if callable(one) and not (isinstance(one, type) and issubclass(one, BaseException)):
                yield name, one
        yield from ((name, getattr(s2.parallel, name)) for name in ("Share", "Context", "cut"))
        for each in objects:
            names = [name for name in dir(type(each)) if not name.startswith("_") and callable(getattr(type(each), name))]
            yield from ((f"{type(each).__name__}.{name}", getattr(each, name)) for name in [*names, *(["__call__"] if callable(each) else [])])

    def call(self, rng, one, named):
        wrong = rng.choice([0.0, 0.1, 0.5])

        def value(name):
            if name in named and rng.random() >= wrong:
                return named[name]
            return self.anything(rng) if rng.random() < 0.5 else rng.choice(list(named.values()))

        arguments, options = [], {}
        for name, parameter in inspect.signature(one).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or (parameter.default is not parameter.empty and rng.random() < 0.6):
                continue
            options[name] = value(name)
        try:
            one(*arguments, **options)
            return "answered"
        except s2.Error as refused:
            named_first = str(refused).split(":")[0]
            if isinstance(refused, s2.ArgumentError):  # by its name in the signature, or a member of the object
                known = {*inspect.signature(one).parameters, *getattr(getattr(one, "__self__", None), "__dict__", ())}
                self.assertLessEqual(set(named_first.split(", ")), known, f"{getattr(one, '__qualname__', one)}: {refused}")
            self.assertTrue(named_first)
            return "refused"

    def test_everything_that_is_public_answers_or_refuses(self):
        rng, begin, done = random.Random(SEED), time.monotonic(), {}
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                while sum(map(sum, (one.values() for one in done.values()))) < CASES or time.monotonic() - begin < 60 * MINUTES:
                    named, objects = self.world(rng)
                    every = list(self.callables(objects))
                    for _ in range(40):
                        name, one = rng.choice(every)
                        counted = done.setdefault(name, {"answered": 0, "refused": 0})
                        counted[self.call(rng, one, named)] += 1
            finally:
                os.chdir(before)
        for name, counted in done.items():
            if sum(counted.values()) > 60 and name != "Context.attention":  # which needs the other ranks
                self.assertGreater(counted["answered"], 0, name)  # else the right arguments are not right
        print(f"{sum(sum(one.values()) for one in done.values())} calls of {len(done)} callables")
