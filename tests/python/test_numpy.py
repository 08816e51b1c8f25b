"""The package with NumPy alone."""
import ast
import copy
import gc
import hashlib
import inspect
import json
import linecache
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import random
import unittest
import unittest.mock

import numpy

import eager
import s2
from s2 import _lib
from test_fuzz import SEED

SHARDS = "heads 4; kv-heads 2; head-dim 24; block 16; layers 2; layers all: sink 1 | local 2 | stride 4 phase kv; layers 1: dense"
SAMPLES = [SHARDS, "heads 2; kv-heads 2; head-dim 16; block 32; layers all: local 20t | sink 3t; heads 1: none",
           "heads 6; kv-heads 2; head-dim 8; block 16; layers all: chunk 48t | columns 0,3"]


def draw(pattern, batch, tokens, dtype=numpy.float32, seed=1):
    rng = numpy.random.default_rng(seed)
    heads = (pattern.heads, pattern.kv_heads, pattern.kv_heads)
    return [rng.standard_normal((batch, h, tokens, pattern.head_dim)).astype(dtype) for h in heads]


def digest(mask):
    """What docs/pattern-language.md says of bool[heads, nq, nk]."""
    bits = numpy.packbits(mask, axis=-1).reshape(-1)
    pieces = numpy.pad(bits, (0, -bits.size % 64)).reshape(-1, 64)
    first = numpy.flatnonzero(numpy.r_[True, (pieces[1:] != pieces[:-1]).any(1)])
    n = numpy.diff(numpy.r_[first, len(pieces)]).astype("<u8").view("u1").reshape(-1, 8)
    return hashlib.sha256(b"%d %d %d\n" % mask.shape + numpy.hstack([n, pieces[first]]).tobytes()).hexdigest()


class Binding(unittest.TestCase):
    def test_structures_are_those_of_the_header(self):
        listed = pathlib.Path(os.environ["S2_ROOT"], "tests/library/abi.txt").read_text()
        found = {}
        for name, structure in vars(_lib).items():
            if isinstance(structure, type) and issubclass(structure, _lib.Structure) and structure not in (_lib.Structure, _lib._Sized):
                c_name = "s2_api_" + re.sub(r"(?<!^)([A-Z])", r"_\1", name[1:]).lower()
                for member, kind in structure._fields_:
                    found[f"{c_name}.{member}"] = (getattr(structure, member).offset, getattr(structure, member).size)
        wanted = {name: (int(at), int(size)) for name, at, size in re.findall(r"^struct (\S+\.\S+) at (\d+), (\d+) bytes", listed, re.M)}
        self.assertEqual(found, wanted)


    def test_another_libs2_of_the_process_is_not_called(self):
        """As one that a program linked, or that another package loaded for all: it may be of another version."""
        ours = s2._lib._library._name
        with tempfile.TemporaryDirectory() as folder:
            theirs = shutil.copy(ours, os.path.join(folder, "libs2.so.1"))
            code = ("import ctypes, sys; ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL); import numpy, s2\n"
                    "p = s2.Pattern('layers 1; heads 1; head-dim 16; block 16; layers all: local 2'); s2.attention(*[numpy.ones((1, 1, 5, 16), 'f4')] * 3, p)\n"
                    "c = s2.Cache(p, numpy.ones(1, 'f4')); c.append(c.open(), 3); c.close(); print(p.check('rows').verdict)")
            done = subprocess.run([sys.executable, "-c", code, theirs], text=True, capture_output=True, env={**os.environ, "LD_PRELOAD": theirs, "LD_DEBUG": "bindings"})
        self.assertEqual(done.stdout, "holds\n", done.stderr[-500:])
        self.assertEqual([line for line in done.stderr.splitlines() if f"binding file {ours}" in line and f"to {theirs}" in line and "s2_api_" in line], [])
        self.assertIn(f"binding file {ours}", done.stderr)


class Patterns(unittest.TestCase):
    def test_a_pattern_says_what_it_is(self):
        pattern = s2.Pattern(SHARDS)
        self.assertEqual((pattern.layers, pattern.heads, pattern.kv_heads, pattern.head_dim, pattern.block), (2, 4, 2, 24, 16))
        self.assertEqual(s2.Pattern(str(pattern)), pattern)
        self.assertEqual(pattern.kinds(), (0, 1))

    def test_configs_and_files_are_read_and_written(self):
        config = {"model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "hidden_size": 64, "sliding_window": 32}
        pattern = s2.Pattern(config)
        self.assertIn("local 32t", str(pattern))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "mine.s2")
            pattern.write(path)
            self.assertEqual(str(s2.Pattern(path)), str(pattern))
            numpy.save(pathlib.Path(folder, "mask.npy"), numpy.tri(4, dtype=bool))
            path.write_text("heads 2; block 16; layers all: mask \"mask.npy\"")
            self.assertEqual(s2.Pattern(path).limit, 64)
            self.assertTrue((s2.Pattern(path).mask(0, 64)[0] == numpy.tri(64, dtype=bool)).all())
            with self.assertRaisesRegex(s2.RefusedError, "mask"):
                s2.Pattern("heads 2; block 16; layers all: mask \"mask.npy\"")
            s2.Pattern(SHARDS).write(folder, "csr", length=256)
            self.assertGreater(len(list(pathlib.Path(folder).iterdir())), 2)
        self.assertTrue({"hf", "vllm", "csr"} <= {one.name for one in s2.formats()})

    def test_what_was_written_is_read_from_its_folder(self):
        pattern = s2.Pattern("heads 4; kv-heads 2; head-dim 16; block 128; layers 2; layers all: dense; layers 1: local 2")
        read = set()
        for one in (one for one in s2.formats() if one.writes):
            with tempfile.TemporaryDirectory() as top:
                folder = pathlib.Path(top, "made")
                try:
                    pattern.write(folder, one.name, length=1024)
                except s2.UnsupportedError:
                    continue
                for named in (one.name, None) if one.reads else ():
                    again = s2.Pattern(folder, format=named)
                    read.add(one.name)
                    self.assertTrue(all((again.mask(layer, 1024) == pattern.mask(layer, 1024)).all() for layer in range(2)), one.name)
        self.assertTrue({"s2", "csr", "flashinfer", "flex", "cute", "bsa"} <= read, read)

    def test_a_config_that_keeps_a_pattern_is_that_pattern(self):
        config = {"model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 96, "sliding_window": 32}
        kept = s2.Pattern(SHARDS)
        self.assertEqual(s2.Pattern({**config, "s2_pattern": str(kept)}), kept)
        self.assertIn("local 32t", str(s2.Pattern({**config, "s2_pattern": str(kept)}, format="layers")))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(json.dumps({**config, "s2_pattern": str(kept)}))
            self.assertEqual(s2.Pattern(folder), kept)
        with self.assertRaisesRegex(s2.RefusedError, "s2_pattern.*lokal"):
            s2.Pattern({**config, "s2_pattern": "heads 4; layers all: lokal 3"})
        with self.assertRaisesRegex(s2.RefusedError, "s2_pattern.*mask"):
            s2.Pattern({**config, "s2_pattern": 'heads 4; layers all: mask "m.npy"'})

    def test_settings_say_what_a_format_leaves_unsaid(self):
        sizes = {"start_size": 4, "recent_size": 60}
        pattern = s2.Pattern(sizes, format="streamingllm", settings={"layers": 3, "heads": 4, "kv-heads": "2"})
        self.assertEqual((pattern.layers, pattern.heads, pattern.kv_heads), (3, 4, 2))
        for wrong, said in (({"tp": 2}, "layers, heads"), ({"layers": "many"}, "layers"), ({"layers": -1}, "layers"), (["layers"], "settings")):
            with self.assertRaisesRegex(s2.ArgumentError, said):
                s2.Pattern(sizes, format="streamingllm", settings=wrong)
        with self.assertRaisesRegex(s2.ArgumentError, "settings"):
            s2.Pattern(SHARDS, settings={"layers": 3})

    def test_verdicts_and_prices(self):
        self.assertTrue(s2.Pattern("heads 2; layers all: dense").check())
        found = s2.Pattern("heads 4; kv-heads 2; layers all: local 4 | stride 4 phase kv").check("union")
        self.assertFalse(found)
        self.assertEqual(found.findings[0].verdict, "violated")
        self.assertEqual(found.findings[0].witness["layer"], 0)
        price = s2.Pattern(SHARDS).simulate(32768)
        self.assertTrue(0 < price.bound_us < price.time_us and 0 < price.kv_used_bytes <= price.kv_bytes < price.kv_dense_bytes)

    def test_nothing_is_predicted_of_numbers_that_no_kernel_of_a_gpu_takes(self):
        pattern = s2.Pattern(SHARDS)
        for phase in ("prefill", "decode", "train"):
            whole, half = (pattern.simulate(32768, phase=phase, dtype=dtype) for dtype in ("float32", "bfloat16"))
            self.assertTrue(half.predicted and half.measured and half.error_is is not None)
            self.assertFalse(whole.predicted or whole.measured or whole.error_is or whole.error_pct is not None)
            self.assertTrue(half.bound_us <= whole.bound_us <= whole.time_us and whole.kv_bytes == 2 * half.kv_bytes)
        with self.assertRaisesRegex(s2.UnsupportedError, "predictions"):
            pattern.simulate(32768, dtype="float32", device_lists=True)

    def test_a_pattern_is_priced_in_the_model_that_it_names(self):
        text = "layers 24; heads 14; kv-heads 2; head-dim 64; layers all: dense"
        named, told = s2.Pattern("model qwen2.5-0.5b; layers all: dense").simulate(4096), s2.Pattern(text).simulate(4096, model="qwen2.5-0.5b")
        alone = s2.Pattern(text).simulate(4096)
        self.assertEqual((named.end_to_end_us, named.fit_batch), (told.end_to_end_us, told.fit_batch))
        self.assertTrue(named.end_to_end_us > named.time_us == alone.time_us and alone.end_to_end_us == 0)

    def test_blocks_chosen_at_run_time_have_a_price(self):
        pattern = s2.Pattern("heads 8; kv-heads 2; layers all: local 4")
        planned, listed = (pattern.simulate(16384, device_lists=lists) for lists in (False, True))
        self.assertTrue(listed.predicted and listed.time_us != planned.time_us and listed.bound_us == planned.bound_us)
        self.assertEqual(listed.kv_bytes, listed.kv_dense_bytes)
        self.assertLess(planned.kv_bytes, planned.kv_dense_bytes)
        for more in ({"phase": "decode"}, {"phase": "train"}, {"gpu": "l40s"}):
            with self.assertRaisesRegex(s2.UnsupportedError, "lists"):
                pattern.simulate(16384, device_lists=True, **more)

    def test_refusals_have_places(self):
        with self.assertRaisesRegex(s2.RefusedError, "^line 2, column 13: .*lokal") as refused:
            s2.Pattern("heads 4\nlayers all: lokal 3")
        self.assertEqual((refused.exception.line, refused.exception.column), (2, 13))

    def test_a_wrong_format_is_answered_with_the_nearest(self):
        pattern = s2.Pattern("heads 4; layers all: dense")
        for form in s2.formats():
            if form.writes and len(form.name) > 3:
                wrong = form.name[:-1] + "_"
                self.assertRaisesRegex(s2.ArgumentError, f"nearest is {form.name}$", pattern.write, "nowhere", wrong)
                self.assertRaisesRegex(s2.ArgumentError, f"nearest is {form.name}$", s2.Pattern, "{}", format=wrong)

    def test_a_pattern_is_copied_as_itself_and_pickled_as_its_text(self):
        with tempfile.TemporaryDirectory() as top:
            read = []
            for name, mask in (("one", numpy.tri(4, dtype=bool)), ("other", numpy.eye(4, dtype=bool)), ("again", numpy.tri(4, dtype=bool))):
                folder = pathlib.Path(top, name)
                folder.mkdir()
                numpy.save(folder / "mask.npy", mask)
                (folder / "mine.s2").write_text('heads 2; block 16; layers all: mask "mask.npy"')
                read.append(s2.Pattern(folder / "mine.s2"))
            self.assertNotEqual(read[0], read[1])  # a text carries the digests of its files
            self.assertEqual(read[0], read[2])
            self.assertIn(f'"mask.npy" digest {digest(numpy.tri(4, dtype=bool)[None])}\n', str(read[0]))
            for pattern in (*read, *map(s2.Pattern, SAMPLES)):
                self.assertIs(copy.copy(pattern), pattern)
                self.assertIs(copy.deepcopy({"model": [pattern]})["model"][0], pattern)
                if pattern.limit:
                    self.assertRaisesRegex(s2.UnsupportedError, "pattern: it has mask files", pickle.dumps, pattern)
                else:
                    self.assertEqual((pickle.loads(pickle.dumps(pattern)), hash(s2.Pattern(str(pattern)))), (pattern, hash(pattern)))

    def test_a_number_stays_as_long_as_any_pattern_of_its_text(self):
        one = s2.Pattern(SHARDS)
        number, other = one.number, s2.Pattern(SHARDS)
        self.assertEqual((other.number, other.captured is one.captured), (number, True))
        for last in (one, other):
            self.assertIn(sys.modules["s2.pattern"].with_number(number), (one, other))
            del one
            gc.collect()
            one = None
        del other, last
        gc.collect()
        self.assertIsNone(sys.modules["s2.pattern"].with_number(number))

    def test_what_lives_to_the_end_of_the_process_ends_in_silence(self):
        lines = """import ctypes, numpy, s2
pattern = s2.Pattern("heads 2; kv-heads 1; head-dim 8; block 16; layers all: local 2")
q, k = numpy.ones((1, 2, 9, 8), "f4"), numpy.ones((1, 1, 9, 8), "f4")
cache = s2.Cache(pattern, q)
s2.attention(q, k, k, pattern)
ctypes.kept = [pattern, cache, s2.Step(cache, cache.open(), print)]  # a module that is cleared after those of the package
"""
        ended = subprocess.run([sys.executable, "-c", lines], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual((ended.returncode, ended.stdout), (0, ""))

    def test_signals_are_heard_while_a_mask_is_made(self):
        module, made = sys.modules["s2.pattern"], []
        pattern, call = s2.Pattern(SHARDS), _lib.call
        want = pattern.mask(0, 90)
        with unittest.mock.patch.object(module, "PAIRS", 200), unittest.mock.patch.object(_lib, "call", lambda *x: (made.append((x[7] - x[6]) * x[5]), call(*x))):
            for queries in (None, (0, 90), (13, 77), (5, 5)):
                begin, end = queries or (0, 90)
                self.assertTrue(numpy.array_equal(pattern.mask(0, 90, queries=queries), want[:, begin:end]))
        self.assertLessEqual(max(made), 200)

    def test_the_programs_locale_changes_nothing(self):
        """A decimal comma in what is read, priced and written."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", f"{folder}/de_DE.UTF-8"], capture_output=True, check=True)
            except (OSError, subprocess.CalledProcessError):
                self.skipTest("needs localedef and the sources of a locale")
            found = [subprocess.run([sys.executable, pathlib.Path(__file__).with_name("locales.py"), name], env={**os.environ, "LOCPATH": folder}, capture_output=True, text=True, check=True).stdout
                     for name in ("C", "de_DE.UTF-8")]
        self.assertEqual(*(one.split("\n", 1)[1] for one in found))
        self.assertEqual([one.split("\n", 1)[0] for one in found], ["0.5", "0,5"])

    def test_every_call_has_room_on_a_small_stack(self):
        """What docs/library.md says a thread needs."""
        failed = []

        def work():
            try:
                pattern = s2.Pattern(SHARDS)
                pattern.check("rows,union,kv,group", length=4096), pattern.simulate(32768, phase="train"), pattern.deal(2, 4096), pattern.kinds("decode")
                s2.Pattern("model qwen2.5-0.5b; layers all: dense").simulate(4096, phase="decode")
                q, k, v = draw(pattern, 1, 200)
                o, lse = s2.attention(q, k, v, pattern, return_lse=True)
                s2.attention_backward(o, q, k, v, o, lse, pattern)
                cache = s2.Cache(pattern, q)
                row = cache.open()
                cache.append(row, 200)
                cache.write(row, 0, k[0], v[0])
                cache.attend(q[:, :, :1], [row], 0)
                for one in s2.formats():
                    with tempfile.TemporaryDirectory() as folder:
                        try:
                            pattern.write(folder + "/made", one.name, length=256) if one.writes else None
                        except s2.UnsupportedError:
                            pass
                for path in sorted(pathlib.Path(os.environ["S2_ROOT"], "tests/data/foreign").rglob("*.*")):
                    try:
                        s2.Pattern(path)
                    except s2.Error:
                        pass
            except BaseException as failure:
                failed.append(repr(failure))

        before = threading.stack_size(128 << 10)
        try:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        finally:
            threading.stack_size(before)
        self.assertEqual(failed, [])

    def test_patterns_are_shared_between_threads(self):
        pattern, (q, k, v) = s2.Pattern(SHARDS), draw(s2.Pattern(SHARDS), 1, 100)
        want, wrong = s2.attention(q, k, v, pattern), []

        def work():
            for _ in range(5):
                wrong.append(not numpy.array_equal(s2.attention(q, k, v, pattern), want) or not s2.Pattern(str(pattern)) == pattern)

        threads = [threading.Thread(target=work) for _ in range(3)]
        [one.start() for one in threads]
        [one.join() for one in threads]
        self.assertEqual(wrong, [False] * 15)


class Page(unittest.TestCase):
    """docs/python.md and help() speak of what is there."""

    def test_calls_of_the_page_have_their_arguments(self):
        text = pathlib.Path(os.environ["S2_ROOT"], "docs/python.md").read_text()
        known, seen = {"s2": s2, "p": s2.Pattern}, 0
        for code in re.findall(r"`([a-z_0-9]+\.[A-Za-z_.0-9]+\([^`]*\))`", text):
            try:
                call = ast.parse(code, mode="eval").body
            except SyntaxError:  # shortened for the reader
                continue
            if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith(("s2.", "p.")) or "transformers" in code:
                continue
            path = ast.unparse(call.func).split(".")
            made = known[path[0]]
            for name in path[1:]:
                made = getattr(made, name)
            of_object = [None] if path[0] == "p" else []
            inspect.signature(made).bind(*of_object, *call.args, **{one.arg: None for one in call.keywords})
            seen += 1
        self.assertGreater(seen, 10)

    def test_all_that_is_public_is_explained(self):
        for where, names in ((s2, s2.__all__), (s2.parallel, ("Share", "Context", "cut"))):
            for name in names:
                one = getattr(where, name)
                members = {} if not isinstance(one, type) else {key: value for key, value in vars(one).items()
                                                                if not key.startswith("_") and (callable(value) or isinstance(value, property))}
                for label, thing in [(name, one), *((f"{name}.{key}", value) for key, value in members.items())]:
                    said = getattr(thing, "__doc__", None) or ""
                    self.assertTrue(said.strip() and not said.startswith(f"{name}("), label)  # a dataclass without words says its signature


class Shares(unittest.TestCase):
    """What GPUs read of a pattern is what it reads, whoever has which heads."""

    def test_a_share_reads_what_its_heads_read(self):
        rng = random.Random(11)
        for _ in range(12):
            kv_heads, group = rng.choice([2, 4, 8]), rng.choice([1, 2, 4])
            rules = rng.choice(["layers all: local 2 | stride 4 phase head+1", "layers all: sink 3t | local 20t; layers 1: dense",
                                "layers all: local 1 | stride 3 phase kv; kv 0: dense", "layers all: local 2; prefill layers 0: dense"])
            pattern = s2.Pattern(f"layers 3; heads {kv_heads * group}; kv-heads {kv_heads}; head-dim 8; block 16; {rules}")
            ranks = rng.choice([n for n in (1, 2, 4, 8) if kv_heads * group % n == 0])
            deal = rng.choice([None, [rng.sample(range(kv_heads), kv_heads) for _ in range(3)]])
            seen = [[] for _ in range(3)]
            for rank in range(ranks):
                share = s2.parallel.Share(pattern, ranks, rank, deal)
                for layer in range(3):
                    seen[layer] += share.heads[layer]
                    for phase in ("prefill", "decode"):
                        whole = pattern.mask(layer, 90, phase=phase)
                        self.assertTrue(numpy.array_equal(share.pattern.mask(layer, 90, phase=phase), whole[share.heads[layer]]), (rules, ranks, deal))
            self.assertTrue(all(sorted(heads) == list(range(pattern.heads)) for heads in seen))

    def test_heads_are_dealt_out_by_their_work(self):
        pattern = s2.Pattern("heads 32; kv-heads 8; layers 2; kv 0-3: dense; kv 4-7: local 4")
        deal = pattern.deal(2, 32768)
        self.assertEqual(deal, [[0, 2, 4, 6, 1, 3, 5, 7]] * 2)  # as s2 sim --tp 2 has it
        work = [pattern.share(2, rank, deal).simulate(32768).pairs for rank in (0, 1)]
        self.assertEqual(work[0], work[1])
        self.assertEqual(sum(work), pattern.simulate(32768).pairs)

    def test_wrong_shares_are_refused(self):
        whole = s2.Pattern(SHARDS)
        share = s2.parallel.Share(whole, 2, 1)
        for name, call in {"pattern": lambda: s2.parallel.Share(SHARDS, 2, 1), "deal": lambda: s2.parallel.Share(whole, 2, 1, 7),
                           "layers": lambda: whole.share(2, 0, layers=(0, 1, 2)), "layer": lambda: share.take(numpy.zeros((4, 1)), -1),
                           "weight": lambda: share.take(None, 0), "kv": lambda: share.take(numpy.zeros((4, 1)), 0, kv=1),
                           "phase": lambda: whole.deal(2, 64, "bogus")}.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                call()
        pattern = s2.Pattern(SHARDS)
        for name, call in {"ranks": lambda: pattern.share(3, 0), "rank": lambda: pattern.share(2, 2), "layers": lambda: pattern.share(2, 0, layers=(0, 9)),
                           "order": lambda: pattern.share(2, 0, [[0] * pattern.kv_heads] * pattern.layers), "deal": lambda: pattern.share(2, 0, [[0]]),
                           "ranks: ": lambda: pattern.deal(7, 64),
                           "ranks: 3 GPUs cannot share 4 heads": lambda: pattern.share(3, 0), "ranks: 3 GPUs": lambda: pattern.simulate(64, ranks=3),
                           "model: model llama-3.1-8b has": lambda: pattern.simulate(64, model="llama-3.1-8b"), "ranks:3: the number of GPUs": lambda: pattern.check("rows,ranks:2,ranks:3"),
                           "has copies of them": lambda: pattern.deal(2 * pattern.kv_heads, 64)}.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                call()
        with self.assertRaisesRegex(s2.UnsupportedError, "random"):
            s2.Pattern("heads 4; kv-heads 2; layers all: random 2 seed 1").share(2, 0)


class Contexts(unittest.TestCase):
    def test_a_cut_is_the_first_block_at_which_a_rank_has_its_share(self):
        rng = random.Random(4)
        for _ in range(60):
            block, ranks, by = rng.choice([1, 16, 64]), rng.choice([1, 2, 3, 5]), rng.choice(["tokens", "pairs"])
            pattern = s2.Pattern(f"heads 4; block {block}; layers 2; layers all: {rng.choice(['dense', 'local 3', 'local 2 | stride 3 phase head', 'sink 1 | local 40t'])}; "
                                 f"layers 1: {rng.choice(['dense', 'local 7'])}")
            length = block * rng.choice([5, 17, 100]) + rng.choice([0, 3])

            def work(tokens):
                return tokens if by == "tokens" or tokens == 0 else pattern.simulate(tokens).pairs

            bounds = s2.parallel.cut(pattern, ranks, length, by)
            self.assertEqual((bounds[0], bounds[-1], len(bounds)), (0, length, ranks + 1))
            for rank in range(1, ranks):
                first, last = bounds[rank - 1] // block + 1, length // block - (ranks - rank)
                want = next((at for at in range(first, last) if work(at * block) * ranks >= work(length) * rank), max(first, last))
                self.assertEqual(bounds[rank], want * block, (str(pattern), length, ranks, by))

    def test_ranks_are_sent_all_that_they_read_and_what_a_cache_keeps(self):
        rng = random.Random(11)
        for text in [*SAMPLES, "heads 4; kv-heads 2; head-dim 16; block 16; layers 2; layers all: local 2 | stride 4 phase head+1; layers 1: columns 0,3 | local 2"]:
            pattern = s2.Pattern(text)
            for length in (100, 333):
                ranks = rng.choice([1, 2, 3])
                bounds = s2.parallel.cut(pattern, ranks, length, rng.choice(["tokens", "pairs"]))
                for rank in range(ranks):
                    context = s2.parallel.Context(pattern, rank, bounds)
                    context.prove()
                    received = sum(row[rank] for row in context.traffic(pattern.head_dim, 2))
                    kept = pattern.simulate(context.begin, phase="decode", page=max(16, pattern.block)).kv_bytes if rank else 0
                    self.assertEqual(received, kept)
                self.assertEqual(sum(context.work()), pattern.simulate(length).pairs)
                lost = context._needs[-1][0][0]
                if len(lost):
                    read = pattern.mask(0, length, queries=(context.begin, length))[:pattern.heads // pattern.kv_heads].any((0, 1))
                    gone = next(key for key in lost.tolist() if read[key])
                    context._needs[-1][0][0] = lost[lost != gone]
                    self.assertRaisesRegex(s2.ArgumentError, f"reads key {gone}", context.prove)

    def test_cuts_are_even_in_tokens_or_in_pairs(self):
        pattern = s2.Pattern("heads 4; kv-heads 2; head-dim 16; block 64; layers all: dense")
        self.assertEqual(s2.parallel.cut(pattern, 4, 4096), [0, 1024, 2048, 3072, 4096])
        for ranks in (2, 4, 8):
            work = s2.parallel.Context(pattern, 0, s2.parallel.cut(pattern, ranks, 16384, "pairs")).work()
            self.assertLess(max(work), 1.05 * sum(work) / ranks)
        for name, call in {"by": lambda: s2.parallel.cut(pattern, 2, 100, "x"), "ranks": lambda: s2.parallel.cut(pattern, 9, 512),
                           "bounds": lambda: s2.parallel.Context(pattern, 0, [0, 64, 64]), "rank": lambda: s2.parallel.Context(pattern, 2, [0, 64, 128]),
                           "head_dim": lambda: s2.parallel.Context(pattern, 0, [0, 64]).traffic(0, 2)}.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                call()
        with self.assertRaisesRegex(s2.Error, "torch"):
            s2.parallel.Context(pattern, 0, [0, 64]).attention(numpy.zeros((1, 4, 64, 16), "f4"), numpy.zeros((1, 2, 3, 16), "f4"), None)


class Attention(unittest.TestCase):
    def test_outputs_are_those_of_the_mask(self):
        for text in SAMPLES:
            pattern = s2.Pattern(text)
            for tokens, dtype, tolerance in ((1, numpy.float32, 1e-5), (131, numpy.float32, 1e-5), (97, numpy.float16, 4e-3)):
                q, k, v = draw(pattern, 2, tokens, dtype)
                for layer in range(pattern.layers):
                    got, lse = s2.attention(q, k, v, pattern, layer, scale=0.2, return_lse=True)
                    want = eager.forward(q, k, v, pattern.mask(layer, tokens), 0.2)
                    self.assertLess(abs(got - want).max(), tolerance, (text, tokens, layer))
                    empty = ~pattern.mask(layer, tokens).any(-1)
                    self.assertTrue((numpy.isneginf(lse) == empty[None]).all())

    def test_a_row_reads_the_blocks_that_its_list_names(self):
        rng, rules = numpy.random.default_rng(5), "heads 4; kv-heads 2; head-dim 16; block 32; layers all: dense"
        for causal in ("yes", "no"):
            pattern = s2.Pattern(f"causal {causal}; {rules}")
            for queries, tokens, query_block, heads in ((131, 131, 16, 4), (300, 300, 64, 2), (40, 200, 32, 4), (256, 256, 128, 2)):
                q, k, v = draw(pattern, 2, tokens)
                q, first = q[:, :, tokens - queries:], (tokens - queries) // query_block
                n_lists, n_blocks = -(-tokens // query_block) - first, -(-tokens // 32)
                counts = rng.integers(-1, 7, (2, heads, n_lists), numpy.int32)
                blocks = rng.integers(-1, n_blocks + 1, (2, heads, n_lists, 5), numpy.int32)
                got = s2.block_attention(q, k, v, pattern, counts, blocks, query_block=query_block)
                for sequence in range(2):
                    read = numpy.zeros((4, queries, tokens), bool)
                    for head in range(4):
                        for row in range(queries):
                            at = (sequence, head * heads // 4, (tokens - queries + row) // query_block - first)
                            for block in blocks[at][:max(counts[at], 0)]:
                                if block >= 0:
                                    read[head, row, block * 32:(block + 1) * 32] = True
                    if causal == "yes":
                        read &= numpy.arange(tokens)[None, None] <= numpy.arange(tokens - queries, tokens)[None, :, None]
                    one = slice(sequence, sequence + 1)
                    self.assertLess(abs(got[one] - eager.forward(q[one], k[one], v[one], read, 0.25)).max(), 1e-5, (causal, tokens, query_block))

    def test_lists_that_do_not_fit_are_refused(self):
        pattern = s2.Pattern("heads 4; kv-heads 2; head-dim 16; block 32; layers all: dense")
        q, k, v = draw(pattern, 1, 100)
        counts, blocks = numpy.ones((1, 4, 2), numpy.int32), numpy.zeros((1, 4, 2, 3), numpy.int32)
        for name, wrong in {"counts: contiguous": (counts.astype("i8"), blocks, 64), "blocks: contiguous": (counts, blocks[..., ::2], 64), "blocks: shape": (counts, blocks[:, :2].copy(), 64),
                            "counts: 2": (counts.repeat(2, 0), blocks.repeat(2, 0), 64), "query_block": (counts, blocks, 8), "query blocks of 48": (counts, blocks, 48),
                            "heads have lists": (counts[:, :3].copy(), blocks[:, :3].copy(), 64), "counts: a NumPy": ([1], blocks, 64)}.items():
            with self.subTest(name), self.assertRaisesRegex(s2.ArgumentError, name):
                s2.block_attention(q, k, v, pattern, *wrong[:2], query_block=wrong[2])
        with self.assertRaisesRegex(s2.ArgumentError, "dense layer"):
            s2.block_attention(q, k, v, s2.Pattern("heads 4; kv-heads 2; head-dim 16; block 32; layers all: local 1"), counts, blocks)

    def test_caps_and_sinks_are_those_of_the_definition(self):
        pattern = s2.Pattern(SHARDS)
        q, k, v = draw(pattern, 2, 70)
        mask = pattern.mask(0, 70)
        for more in ({"softcap": 0.8}, {"sinks": numpy.array([0.5, -3, -numpy.inf, 4], dtype=numpy.float32)},
                     {"softcap": 3, "sinks": numpy.ones(4, dtype=numpy.float32)}):
            want = eager.forward(q, k, v, mask, 0.2, **more)
            o, lse = s2.attention(q, k, v, pattern, scale=0.2, return_lse=True, **more)
            self.assertLess(abs(o - want).max(), 1e-5, more)
            made = s2.attention_backward(q, q, k, v, o, lse, pattern, scale=0.2, **more)
            self.assertEqual(len(made), 3 + ("sinks" in more))
            if "sinks" in more:
                step = numpy.eye(4) * 1e-4
                sides = [[(eager.forward(q, k, v, mask, 0.2, **{**more, "sinks": more["sinks"] + sign * one}) * q).sum() for one in step]
                         for sign in (1, -1)]
                self.assertLess(abs(made[3] - (numpy.array(sides[0]) - sides[1]) / 2e-4).max(), 1e-3)
            cache = s2.Cache(pattern, q)
            row = cache.open()
            cache.append(row, 69)
            cache.write(row, 0, k[0, :, :69], v[0, :, :69])
            cache.append(row, 1)
            cache.write(row, 0, k[0, :, 69:], v[0, :, 69:])
            self.assertLess(abs(cache.attend(q[:1, :, 69:], [row], 0, scale=0.2, **more) - want[:1, :, 69:]).max(), 1e-5)

    def test_any_stride_will_do_and_nothing_is_copied(self):
        pattern = s2.Pattern(SHARDS)
        q, k, v = draw(pattern, 2, 64)
        turned = [numpy.ascontiguousarray(one.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for one in (q, k, v)]
        self.assertTrue(numpy.array_equal(s2.attention(*turned, pattern), s2.attention(q, k, v, pattern)))
        late = s2.attention(q[:, :, 40:], k, v, pattern)  # the last queries of the keys
        self.assertLess(abs(late - s2.attention(q, k, v, pattern)[:, :, 40:]).max(), 1e-6)

    def test_lengths_may_differ(self):
        pattern = s2.Pattern(SHARDS)
        q, k, v = (one[0] for one in draw(pattern, 1, 100))
        got = s2.attention(q, k, v, pattern, cu_seqlens_q=[0, 30, 31, 100])
        padded = [0, 0, 30, 30, 30, 31, 100, 100]  # sequences without tokens change nothing
        self.assertTrue(numpy.array_equal(s2.attention(q, k, v, pattern, cu_seqlens_q=padded, cu_seqlens_k=padded), got))
        gradients = (s2.attention_backward(got, q, k, v, *s2.attention(q, k, v, pattern, cu_seqlens_q=begins, return_lse=True), pattern, cu_seqlens_q=begins)
                     for begins in ([0, 30, 31, 100], padded))
        self.assertTrue(all(map(numpy.array_equal, *gradients)))
        for begin, end in ((0, 30), (30, 31), (31, 100)):
            one = [numpy.ascontiguousarray(x[None, :, begin:end]) for x in (q, k, v)]
            self.assertLess(abs(got[:, begin:end] - s2.attention(*one, pattern)[0]).max(), 1e-6)

    def test_gradients_are_those_of_differences(self):
        pattern = s2.Pattern("heads 2; kv-heads 1; head-dim 8; block 16; layers all: local 12t | stride 2")
        q, k, v = draw(pattern, 1, 40)
        weight = draw(pattern, 1, 40, seed=2)[0]
        o, lse = s2.attention(q, k, v, pattern, return_lse=True)
        made = s2.attention_backward(weight, q, k, v, o, lse, pattern)
        mask, step = pattern.mask(0, 40), 1e-4
        for which, got in enumerate(made):
            for at in ((0, 0, 3, 1), (0, 0, 39, 7), (0, 0, 17, 0)):
                sides = []
                for sign in (1, -1):
                    moved = [one.astype(numpy.float64) for one in (q, k, v)]
                    moved[which][at] += sign * step
                    sides.append((eager.forward(*moved, mask, 8 ** -0.5) * weight).sum())
                self.assertAlmostEqual(got[at], (sides[0] - sides[1]) / (2 * step), delta=2e-4)

    def test_wrong_calls_name_the_argument(self):
        pattern, other = s2.Pattern(SHARDS), s2.Pattern("heads 8; layers all: dense")
        q, k, v = draw(pattern, 1, 32)
        for name, call in {
            "q": lambda: s2.attention(q.tolist(), k, v, pattern), "k: dtype": lambda: s2.attention(q, k.astype(numpy.float16), v, pattern),
            "q: dtype": lambda: s2.attention(*(one.astype(numpy.float64) for one in (q, k, v)), pattern),
            "v: shape": lambda: s2.attention(q, k, v[:, :, 1:], pattern), "k: shape": lambda: s2.attention(q, k[..., :8], v[..., :8], pattern),
            "k: fewer": lambda: s2.attention(q, k[:, :, :9], v[:, :, :9], pattern), "pattern: it has 8": lambda: s2.attention(q, k, v, other),
            "pattern: an": lambda: s2.attention(q, k, v, "dense"), "layer": lambda: s2.attention(q, k, v, pattern, 2),
            "layer: True": lambda: s2.attention(q, k, v, pattern, True), "scale": lambda: s2.attention(q, k, v, pattern, scale=float("nan")),
            "phase": lambda: s2.attention(q, k, v, pattern, phase="train"), "q: stride": lambda: s2.attention(q[..., ::2], k[..., ::2], v[..., ::2], pattern),
            "q: a stride": lambda: s2.attention(q[:, :, ::-1], k, v, pattern), "q: 3 or 4": lambda: s2.attention(q[0, 0], k, v, pattern),
            "sinks: dtype": lambda: s2.attention(q, k, v, pattern, sinks=numpy.zeros(4)),
            "sinks: float32": lambda: s2.attention(q, k, v, pattern, sinks=numpy.zeros(3, dtype=numpy.float32)),
            "sinks: a": lambda: s2.attention(q, k, v, pattern, sinks=[0.0] * 4),
            "softcap": lambda: s2.attention(q, k, v, pattern, softcap=0), "softcap: nan": lambda: s2.attention(q, k, v, pattern, softcap=float("nan")),
            "q: its data": lambda: s2.attention(q[..., 1:9], k[..., 1:9], v[..., 1:9], pattern),
            "cu_seqlens_q: only": lambda: s2.attention(q, k, v, pattern, cu_seqlens_q=[0, 32]),
            "cu_seqlens_q": lambda: s2.attention(q[0], k[0], v[0], pattern, cu_seqlens_q=[0, 40]),
            "cu_seqlens_q: a sequence has keys": lambda: s2.attention(q[0][:, :20], k[0], v[0], pattern, cu_seqlens_q=[0, 20, 20], cu_seqlens_k=[0, 20, 32]),
            "cu_seqlens_q: (0, 20, 10": lambda: s2.attention(q[0], k[0], v[0], pattern, cu_seqlens_q=[0, 20, 10, 32]),
            "k: fewer": lambda: s2.attention(q[0], k[0][:, :20], v[0][:, :20], pattern, cu_seqlens_q=[0, 20, 32], cu_seqlens_k=[0, 20, 20]),
            "q: ": lambda: s2.attention(q[0][:, :0], k[0][:, :0], v[0][:, :0], pattern, cu_seqlens_q=[0, 0]),
            "gpu": lambda: s2.Pattern(SHARDS).simulate(64, gpu="h2000"), "length": lambda: pattern.check(length=0),
            "source": lambda: s2.Pattern(7), "format": lambda: s2.Pattern(SHARDS, format=7), "properties": lambda: pattern.check(["rows"]),
        }.items():
            with self.subTest(name), self.assertRaises((s2.ArgumentError, s2.UnsupportedError)) as refused:
                call()
            self.assertIn(name.split(":")[0] if name == "gpu" else name, str(refused.exception).replace("h2000", "gpu"))


class Caches(unittest.TestCase):
    def test_decoding_equals_prefill_and_pages_go_back(self):
        for layout in ("pages", "ring", "shared"):
            pattern = s2.Pattern("heads 4; kv-heads 2; head-dim 16; block 16; layers 2; layers all: sink 1 | local 3")
            q, k, v = draw(pattern, 1, 150)
            cache = s2.Cache(pattern, q, layout=layout)
            first, second = cache.open(), None
            for token in range(150):
                now = slice(token, token + 1)
                if token == 90:
                    second = cache.fork(first)
                for sequence in [first] + ([second] if second is not None else []):
                    cache.append(sequence, 1)
                    for layer in range(2):
                        cache.write(sequence, layer, k[0, :, now], v[0, :, now])
                if token % 10 == 9:
                    both = [first] + ([second] if second is not None else [])
                    got = cache.attend(numpy.repeat(q[:, :, now], len(both), 0), both, 1)
                    want = eager.forward(q[:, :, :token + 1], k[:, :, :token + 1], v[:, :, :token + 1], pattern.mask(1, token + 1), 0.25)
                    self.assertLess(abs(got[:, :, 0] - want[:, :, token]).max(), 1e-5, (layout, token))
            cache.drop(second)
            self.assertLess(cache.usage.slots, 2 * 2 * 150)
            if layout == "pages":
                self.assertEqual(cache.usage.bytes, pattern.simulate(150, dtype="float32", page=16, phase="decode").kv_bytes)

    def test_a_closed_cache_and_wrong_steps_are_told(self):
        pattern = s2.Pattern(SHARDS)
        q, k, v = draw(pattern, 1, 20)
        cache = s2.Cache(pattern, q)
        one = cache.open()
        cache.append(one, 4)
        for name, call in {
            "k: shape": lambda: cache.write(one, 0, k[0], v[0]), "sequence": lambda: cache.append(one + 1, 1),
            "layer": lambda: cache.write(one, 2, k[0, :, :4], v[0, :, :4]), "step": lambda: cache.attend(q, [one], 0),
            "sequences": lambda: cache.attend(q[:, :, :1], [one, one], 0), "tokens": lambda: cache.append(one, 0),
            "k: dtype": lambda: cache.write(one, 0, k[0, :, :4].astype(numpy.float16), v[0, :, :4]),
        }.items():
            with self.subTest(name), self.assertRaisesRegex((s2.ArgumentError, s2.UnsupportedError), name):
                call()
        cache.close()
        for call in (cache.open, lambda: cache.append(one, 1), lambda: cache.usage, lambda: cache.attend(q[:, :, :1], [one], 0),
                     lambda: cache.write(one, 0, k[0], v[0]), lambda: cache.tokens(one)):
            self.assertRaises(s2.ReleasedError, call)
        full = s2.Cache(pattern, q, pages=1)
        one = full.open()
        self.assertRaises(s2.MemoryFullError, lambda: full.append(one, 300))
        full.drop(one)

    def test_threads_that_take_turns_with_a_cache_have_devices_of_their_own(self):
        cache, rows = self.filled()
        want, found = self.attend(cache, rows), []
        thread = threading.Thread(target=lambda: found.append((self.attend(cache, rows), sys.modules["s2.attention"].device("cpu"))))
        thread.start()
        thread.join()
        self.assertTrue(numpy.array_equal(found[0][0], want))
        used = {id(plan._device) for plan, _ in cache._plans.values()}
        self.assertEqual(len(used), 1)
        self.assertTrue(used.isdisjoint({id(found[0][1]), id(sys.modules["s2.attention"].device("cpu"))}))

    def test_a_full_pool_says_who_has_room(self):
        pattern = s2.Pattern("heads 4; kv-heads 2; head-dim 24; block 16; layers 2; layers all: dense")
        for room in range(4, 17):
            cache = s2.Cache(pattern, numpy.zeros(1, "f4"), pages=4 * room)
            rows = [cache.open() for _ in range(4)]
            for row in rows[:room]:
                cache.append(row, 16)
            want = dict(cache._held)
            try:
                cache.append(rows, 40)  # three pages more in each of four tables
                self.assertGreaterEqual(room, 16)
                continue
            except s2.MemoryFullError as full:
                lost, *lists = re.match(r"pages: no room for 40 more tokens of sequence (\d), .*; \[(.*)\] have theirs, \[(.*)\] are as before", str(full)).groups()
            have, before = ([int(one) for one in listed.split(", ") if one] for listed in lists)
            self.assertEqual([*have, int(lost), *before], rows)
            self.assertEqual([cache.tokens(one) for one in (*have, *before)], [want[one] + 40 for one in have] + [want[one] for one in before])
            self.assertRaisesRegex(s2.ArgumentError, "can only be dropped", cache.tokens, int(lost))
            cache.drop(int(lost))
            if before:
                cache.append(before[0], 1)

    def filled(self, tokens=(70, 33), **options):
        pattern = s2.Pattern(SHARDS)
        cache = s2.Cache(pattern, numpy.zeros(1, "f4"), **options)
        rows = [cache.open() for _ in tokens]
        for row, count in zip(rows, tokens):
            cache.append(row, count)
            for layer in range(2):
                _, k, v = draw(pattern, 1, count, seed=count + layer)
                cache.write(row, layer, k[0], v[0])
        return cache, rows

    def attend(self, cache, rows, layer=0):
        q = numpy.random.default_rng(9).standard_normal((len(rows), 4, 1, 24)).astype("f4")
        return cache.attend(q, rows, layer)

    def test_an_append_gives_room_to_all_or_to_none(self):
        cache, rows = self.filled()
        want, held = self.attend(cache, rows), cache.usage
        for wrong in ([rows[0], 99], [99, rows[0]], [rows[0], rows[0]]):
            self.assertRaises(s2.ArgumentError, cache.append, wrong, 100000)
        self.assertRaisesRegex(s2.ArgumentError, "tokens", cache.append, rows, 2**24 - 40)
        self.assertEqual((cache.usage, [cache.tokens(one) for one in rows]), (held, [70, 33]))
        self.assertTrue(numpy.array_equal(self.attend(cache, rows), want))

    def test_an_append_that_is_cut_off_leaves_no_sequence_half_done(self):
        class Signal(BaseException):
            pass

        cache, rows = self.filled()
        want = self.attend(cache, rows[1:])
        for at in ("_grow", "_move"):
            twin = cache.fork(rows[0]) if at == "_move" else cache.open()
            with unittest.mock.patch.object(cache, at, side_effect=Signal):
                self.assertRaises(Signal, cache.append, twin, 1 if at == "_move" else 5000)
            if at == "_move":
                for call in (lambda: self.attend(cache, [twin]), lambda: cache.append(twin, 1), lambda: cache.write(twin, 0, None, None), lambda: cache.fork(twin)):
                    self.assertRaisesRegex(s2.ArgumentError, "cut off", call)
            else:  # it has its tokens, and the arrays grow before anybody reads them
                self.attend(cache, [twin])
                self.assertGreaterEqual(cache.keys.shape[0], cache._usage().pool_slots)
            self.assertTrue(numpy.array_equal(self.attend(cache, rows[1:]), want))
            cache.drop(twin)

    def test_neither_side_of_a_fork_changes_the_other(self):
        rng = random.Random(6)
        for layout in ("pages", "ring", "shared"):
            cache, rows = self.filled(layout=layout)
            held = {row: [cache.read(row, layer) for layer in range(2)] for row in rows}
            for _ in range(60):
                row = rng.choice(list(held))
                if rng.random() < 0.3 and len(held) < 6:
                    other = cache.fork(row)
                    held[other] = list(held[row])
                    for one in (row, other):
                        self.assertRaisesRegex(s2.ArgumentError, f"nothing was appended to {one} since it was opened, forked", cache.write, one, 0, None, None)
                    continue
                cache.append(row, rng.choice([1, 3, 20]))
                fresh = cache._fresh[row]
                for layer in range(2):
                    _, k, v = draw(cache.pattern, 1, fresh, seed=rng.randrange(99))
                    cache.write(row, layer, k[0], v[0])
                    held[row][layer] = tuple(numpy.concatenate([old, new[0]], 1) for old, new in zip(held[row][layer], (k, v)))
                for one, layers in held.items():
                    for layer, (keys, values) in enumerate(layers):
                        got = cache.read(one, layer)
                        for head in range(2):
                            there = numpy.array(cache.slots(one, layer, head, 0, cache.tokens(one))) >= 0
                            self.assertTrue(numpy.array_equal(got[0][head][there], keys[head][there]), (layout, one))
                            self.assertTrue(numpy.array_equal(got[1][head][there], values[head][there]), (layout, one))

    def at_each_line(self, make, run, what):
        """For every seventh line of the package that run(made) passes: a fresh one, in which `what(made)` happens at that line; (made, how it ended).
        Python itself lets nothing come between a lock and the block that has it."""
        for stop in range(random.Random(SEED).randrange(7), 100000, 7):
            made, lines = make(), [0]

            def trace(frame, event, _):
                if "/s2/" not in frame.f_code.co_filename:
                    return None
                if event == "line" and not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
                    lines[0] += 1
                    if lines[0] == stop + 1:
                        sys.settrace(None)
                        what(made)
                return trace

            before, ended = sys.gettrace(), None
            sys.settrace(trace)
            try:
                with unittest.mock.patch.object(sys, "unraisablehook", lambda _: None):
                    run(made)
            except BaseException as failure:
                ended = failure
            finally:
                sys.settrace(before)
            if lines[0] <= stop:
                self.assertIsNone(ended)
                return
            yield made, ended

    def runs(self):
        """Calls of a cache (with two sequences, (cache, rows)) that a signal may come in."""
        def write(made):
            _, k, v = draw(made[0].pattern, 2, 1)
            made[0].write(made[1], 0, k, v)

        return {"append": lambda made: made[0].append(made[1][0], 1), "attend": lambda made: self.attend(*made), "write": write, "read": lambda made: made[0].read(made[1][0], 0),
                "fork": lambda made: made[0].fork(made[1][0]), "copy": lambda made: copy.deepcopy(made[0]), "drop": lambda made: made[0].drop(made[1][0])}

    def fresh(self):
        cache, rows = self.filled((17, 33))
        cache.append(rows, 1)
        return cache, rows

    def test_a_handler_that_calls_the_cache_is_refused_inside_of_another_call(self):
        for name, run in self.runs().items():
            for call in (lambda cache: cache.close(), lambda cache: cache.drop(0), lambda cache: cache.append([0, 1], 400)):
                seen = []

                def handler(made):
                    try:
                        call(made[0])
                        seen.append("done")
                    except s2.Error as refused:
                        seen.append(str(refused))

                for made, ended in self.at_each_line(self.fresh, run, handler):
                    self.assertTrue(ended is None or isinstance(ended, s2.Error), (name, ended))
                    self.assertTrue(ended is None or seen[-1] == "done", (name, ended))  # what was refused changed nothing
                self.assertTrue(any("inside of another" in one for one in seen), name)

    def test_a_signal_between_any_two_lines_leaves_the_other_sequences_as_they_were(self):
        class Signal(BaseException):
            pass

        def signal(_):
            raise Signal

        want = self.attend(self.fresh()[0], [1])
        for name, run in self.runs().items():
            for (cache, rows), ended in self.at_each_line(self.fresh, run, signal):
                self.assertTrue(ended is None or isinstance(ended, Signal), name)  # Python goes on behind one in a destructor
                if name != "write":
                    self.assertTrue(numpy.array_equal(self.attend(cache, [1]), want), name)
                cache.append(1, 300)
                self.assertEqual(cache.tokens(1), 334)
                cache.close()

    def test_a_cache_is_copied_whole_or_not_at_all(self):
        for options in ({}, {"layout": "ring", "page": 16}, {"layout": "shared", "step": 4}, {"pages": 100}):
            cache, rows = self.filled(**options)
            cache.drop(cache.fork(cache.open()))
            other = copy.deepcopy(cache)
            for layer in range(2):
                self.assertTrue(numpy.array_equal(self.attend(other, rows, layer), self.attend(cache, rows, layer)))
            other.append(rows, 1)
            self.assertEqual([cache.tokens(one) for one in rows], [70, 33])
        for wrong in (copy.copy, pickle.dumps):
            self.assertRaisesRegex(s2.UnsupportedError, "cache", wrong, cache)

    def test_no_memory_is_said_by_name(self):
        pattern = s2.Pattern(SHARDS)
        self.assertRaisesRegex(s2.MemoryFullError, "pages", s2.Cache, pattern, numpy.zeros(1, "f4"), pages=2**31 - 1)
        self.assertRaisesRegex(s2.MemoryFullError, "queries", pattern.mask, 0, 2**24)

        def rows(heads, batch, tokens):  # all of them one
            return numpy.broadcast_to(numpy.zeros((1, 1, 1, 16), "f4"), (batch, heads, tokens, 16))

        for batch, tokens, kind, why in ((1, 2**24 + 1, s2.ArgumentError, "k: a sequence of 16777217 keys"), (2**16, 2**24, s2.MemoryFullError, "no memory for an array")):
            with self.subTest(why):
                q, k = rows(pattern.heads, batch, tokens), rows(pattern.kv_heads, batch, tokens)
                self.assertRaisesRegex(kind, why, s2.attention, q, k, k, pattern)

    def test_plans_are_kept_and_nothing_leaks(self):
        module = sys.modules["s2.attention"]
        pattern = s2.Pattern(SHARDS)
        q, k, v = draw(pattern, 1, 40)
        s2.attention(q, k, v, pattern)
        before = len(module._kept.plans)
        for _ in range(3):
            s2.attention(q, k, v, pattern)
        self.assertEqual(len(module._kept.plans), before)
        for tokens in range(1, 40):
            s2.attention(q[:, :, :tokens], k[:, :, :tokens], v[:, :, :tokens], pattern)
            s2.attention(q[:, :, :1], k[:, :, :tokens], v[:, :, :tokens], pattern)
        self.assertLessEqual(len(module._kept.plans), module.PLANS)
        gc.collect()
