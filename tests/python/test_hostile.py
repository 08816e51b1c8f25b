"""Files that are broken and calls that are wrong, at the readers, the writers and what cuts a sequence: an answer, or an error of the package's."""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import types
import unittest

import numpy

import s2
from test_fuzz import CASES, SEED, odd

FOREIGN = pathlib.Path(os.environ.get("S2_ROOT", pathlib.Path(__file__).parents[2]), "tests/data/foreign")
PATTERNS = ["heads 4; kv-heads 2; head-dim 16; block 16; layers 2; layers all: local 2 | stride 3 phase head",
            "heads 4; kv-heads 2; head-dim 16; block 64; layers 2; layers all: dense; layers 1: local 64t",
            "heads 2; block 16; layers all: chunk 2 | stride 2"]
WORDS = [b"-1", b"0", b"1e999", b"NaN", b"-Infinity", b"9" * 400, b"2147483648", b"18446744073709551616", b"null", b"true", b"[]", b"{}", b'""', b"[[[[",
         b'"\\ud800"', b"\0", b"\xff\xfe", b"0.5", b"[1,2", b"layers", b"../../etc/passwd", b"16777217"]


def broken(rng, content):
    """Some of the bytes changed, taken out, put in, or a number or a word replaced."""
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        at, n = rng.randrange(len(content) + 1), rng.choice([1, 2, 8, 64])
        numbers = list(re.finditer(rb"-?\d+(\.\d+)?", content))
        way = rng.randrange(6)
        if way == 0:
            content = content[:at]
        elif way == 1:
            content = content[:at] + bytes(rng.randrange(256) for _ in range(n)) + content[at + n:]
        elif way == 2:
            content = content[:at] + content[at + n:]
        elif way == 3:
            content = content[:at] + content[max(0, at - n):at] * rng.choice([1, 3, 200]) + content[at:]
        elif way == 4 and numbers:
            one = rng.choice(numbers)
            content = content[:one.start()] + rng.choice(WORDS) + content[one.end():]
        else:
            content = content[:at] + rng.choice(WORDS) + content[at:]
    return content


class Hostile(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(SEED)
        self.done = {"answered": 0, "refused": 0}
        print(f"seed {SEED}")

    def attempt(self, call):
        try:
            made = call()
            self.done["answered"] += 1
            return made
        except s2.Error as refused:
            self.assertTrue(str(refused))
            self.done["refused"] += 1
            return None

    def use(self, pattern):
        """What was read is a pattern."""
        if pattern is None:
            return
        self.assertEqual(s2.Pattern(str(pattern)).hash, pattern.hash) if not pattern.limit else None
        if pattern.layers * pattern.heads <= 256:
            self.attempt(lambda: pattern.mask(pattern.layers - 1, 90, queries=(80, 90)))
            self.attempt(lambda: pattern.check("rows", length=256))
            self.attempt(lambda: pattern.simulate(256, phase="decode"))

    def test_broken_files_of_every_format(self):
        files = sorted(one for one in FOREIGN.rglob("*") if one.is_file())
        names = [one.name for one in s2.formats() if one.reads]
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(CASES):
                one = self.rng.choice(files)
                path = pathlib.Path(folder, one.name)
                path.write_bytes(broken(self.rng, one.read_bytes()))
                format = self.rng.choice([None, one.relative_to(FOREIGN).parts[0], self.rng.choice(names)])
                settings = self.rng.choice([None, None, {"layers": 2, "heads": 4}, {self.rng.choice(["len", "block", "tp", "rule"]): self.rng.choice(["8k", -1, 10**30, "", 0.5])}])
                source = path if self.rng.random() < 0.7 else path.read_bytes().decode("utf-8", "surrogateescape")
                self.use(self.attempt(lambda: s2.Pattern(source, format=format, settings=settings)))
                path.unlink()
        self.assertGreater(self.done["answered"], CASES // 20)
        self.assertGreater(self.done["refused"], CASES // 20)

    def test_broken_folders(self):
        texts = [s2.Pattern(text) for text in PATTERNS]
        folders = [one.name for one in s2.formats() if one.reads and one.writes]
        for _ in range(CASES // 5):
            with tempfile.TemporaryDirectory() as top:
                folder, format = pathlib.Path(top, "made"), self.rng.choice(folders)
                folder.mkdir()
                if self.attempt(lambda: self.rng.choice(texts).write(folder, format, length=256)) is None:
                    continue
                seal = folder / "s2.sha256"
                if seal.exists() and self.rng.random() < 0.9:
                    seal.unlink()  # else it says that a file was changed
                one = self.rng.choice(sorted(folder.iterdir()))
                way = self.rng.randrange(5)
                if way == 0:
                    one.unlink()
                elif way == 1:
                    one.unlink()
                    one.mkdir()
                elif way == 2:
                    one.unlink()
                    one.symlink_to(one)
                else:
                    one.write_bytes(broken(self.rng, one.read_bytes()))
                self.use(self.attempt(lambda: s2.Pattern(folder, format=self.rng.choice([None, format]))))
        self.assertGreater(self.done["refused"], 0)

    def test_what_is_empty_is_no_source(self):
        """Also where the current folder has what could be read."""
        class Nowhere(os.PathLike):
            def __fspath__(self):
                return ""

        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}')
            os.chdir(folder)
            try:
                self.assertEqual(s2.Pattern(".").layers, 2)
                for empty in ("", " ", "\t", Nowhere()):
                    self.assertRaisesRegex(s2.ArgumentError, "source: it is empty", s2.Pattern, empty)
            finally:
                os.chdir(here)

    def test_a_config_may_have_numbers_that_json_has_not(self):
        config = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
        for odd in (float("inf"), float("-inf"), float("nan")):
            self.assertEqual(s2.Pattern({**config, "time_step_limit": (0.0, odd), "more": {"at": [odd]}}), s2.Pattern(config))
            self.assertRaisesRegex(s2.RefusedError, "num_attention_heads", s2.Pattern, {**config, "num_attention_heads": odd})

    def test_a_library_of_another_version_is_refused_by_name(self):
        import s2._lib as lib

        header = pathlib.Path(os.environ["S2_ROOT"], "library/s2.h").read_text()
        self.assertEqual(lib.LEAST_VERSION, int(re.search(r"define S2_API_VERSION (\d+)", header).group(1)))
        whole = {f"s2_api_{name}": lambda: lib.LEAST_VERSION for name in ("version", "text_free", "plan_kernel", *lib._CLOSING, *lib._FALLIBLE)}
        self.assertIsNone(lib._lack_of(types.SimpleNamespace(**whole)))
        for version in (lib.LEAST_VERSION - 1, 2000, 7, 0, -1):
            self.assertRegex(lib._lack_of(types.SimpleNamespace(**{**whole, "s2_api_version": lambda: version})), f"version {version}, and this package needs")
        for name in whole:
            self.assertEqual(lib._lack_of(types.SimpleNamespace(**{one: what for one, what in whole.items() if one != name})), f"it has no {name}")
        strange = subprocess.run([sys.executable, "-c", "import s2"], env={**os.environ, "S2_LIBRARY": "libm.so.6"}, capture_output=True, text=True)
        self.assertRegex(strange.stderr, "ImportError: .*libm.so.6: it has no s2_api_version")

    def test_objects_that_are_no_source(self):
        class Config(dict):
            def to_dict(self):
                return dict(self)

        class Path:
            def __init__(self, path):
                self.path = path

            def __fspath__(self):
                return self.path

        deep, circle = {}, {}
        at = circle["self"] = circle
        for _ in range(5000):
            at["more"] = at = {}
        at = deep
        for _ in range(5000):
            at["more"] = at = {}
        config = {"model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
        values = [None, -1, 0, 10**400, 10**5000, float("nan"), float("inf"), "\ud800", "\0", [], {}, b"x", object(), {1: 2}, {(1,): 2}, numpy.zeros(3), 1 << 62]
        for value in values:
            for key in [*config, "sliding_window", "layer_types", "blocksparse_vert_stride", "s2_pattern"]:
                self.use(self.attempt(lambda: s2.Pattern(Config({**config, key: value}))))
        for source in (deep, circle, Config, Path(3), Path(b"/nowhere"), Path("a\0b"), "[" * 100000, '{"a":' * 100000, "x" * 5000, "", b"heads 2", None, 3,
                       "heads 2; " * 200000, "/dev/zero", "/dev/null", "/proc/self/mem", "/", ".", numpy.zeros(3), "\ud800; heads", "\ufeffheads 2; layers all: dense"):
            self.use(self.attempt(lambda: s2.Pattern(source)))
        for settings in ([], 3, {"": 1}, {"a=b": 1}, {3: 1}, {"layers": None}, {"layers": True}, {"layers": "\0"}, {"layers": "\ud800"}, {"layers": 10**5000}):
            self.assertRaises(s2.Error, s2.Pattern, {"start_size": 4, "recent_size": 60}, format="streamingllm", settings=settings)

    def test_places_that_cannot_be_written(self):
        pattern = s2.Pattern(PATTERNS[0])
        names = [one.name for one in s2.formats() if one.writes]
        with tempfile.TemporaryDirectory() as top:
            pathlib.Path(top, "file").write_text("x")
            places = [top, f"{top}/none/there", f"{top}/file/below", "", "/dev/full", "/proc/self/nothing", f"{top}/" + "a" * 5000, "a\0b", pathlib.Path(top), 3, None, b"x",
                      f"{top}/\udcff"]
            for place in places:
                for name in [*names, "nothing", "", 3, None, "\0"]:
                    self.attempt(lambda: pattern.write(place, name, length=self.rng.choice([64, 256, 1, 0, -1, 2**31, 2**70, 0.5, None, True])))
            self.assertEqual(pathlib.Path(top, "file").read_text(), "x")

    def test_a_sequence_that_is_cut_in_any_way(self):
        for _ in range(CASES // 5):
            pattern = s2.Pattern(self.rng.choice(PATTERNS))

            def some(right):
                return odd(self.rng) if self.rng.random() < 0.3 else right

            ranks, length = self.rng.choice([1, 2, 3, 7]), self.rng.choice([1, 15, 16, 17, 64, 100, 999])
            bounds = self.attempt(lambda: s2.parallel.cut(pattern, some(ranks), some(length), some(self.rng.choice(["tokens", "pairs"]))))
            if bounds is None or self.rng.random() < 0.3:  # uneven, empty, backwards, not of blocks
                bounds = self.rng.choice([[0, 1, 2], [0, 3, 100], [0, 0, 5], [0, 9, 4], [5, 9], [0], [], [0, 2**24], [0, 2**70], [0, 1.5], (0, 17, 18, 19), numpy.array([0, 16, 40]),
                                          "0,1", None, [0, True], [[0, 1]], range(0, 50, 7)])
            context = self.attempt(lambda: s2.parallel.Context(pattern, some(self.rng.choice([0, 0, 1, 2])), bounds, page=some(self.rng.choice([0, 16, 64]))))
            if context is None:
                continue
            if context.end <= 4096:
                context.prove()  # whatever the cut
            traffic = self.attempt(lambda: context.traffic(some(8), some(2), some(1)))
            self.attempt(lambda: context.work() if context.end <= 4096 else None)
            if traffic is not None:
                self.assertTrue(all(size == 0 or source < target for source, row in enumerate(traffic) for target, size in enumerate(row)))
            rows = numpy.zeros((1, 4, context.end - context.begin if context.end <= 4096 else 1, 16), "f4")
            self.attempt(lambda: context.attention(some(rows), some(rows), some(rows), some(0), process_group=some(None), **{self.rng.choice(["scale", "phase"]): some(None)}))

    def test_threads_share_what_a_cut_says_and_read_files_at_once(self):
        pattern = s2.Pattern(PATTERNS[0])
        context, failed = s2.parallel.Context(pattern, 1, [0, 48, 100]), []
        want = (context.traffic(8, 2), context.work())
        path = FOREIGN / "dsa/deepseek.json"

        def work(seed):
            rng = random.Random(seed)
            try:
                for _ in range(20):
                    if (context.traffic(8, 2), context.work()) != want:
                        failed.append("another answer")
                    context.prove()
                    content = broken(rng, path.read_bytes())
                    try:
                        s2.Pattern(content.decode("utf-8", "surrogateescape"), format="dsa")
                    except s2.Error:
                        pass
            except BaseException as failure:
                failed.append(repr(failure))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failed, [])
