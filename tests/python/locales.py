"""Prints all that a program with this locale reads, prices and writes. usage: locales.py LOCALE"""
import locale
import os
import pathlib
import sys
import tempfile

import s2

locale.setlocale(locale.LC_ALL, sys.argv[1])
print(locale.str(0.5))
TEXT = "heads 4; kv-heads 2; head-dim 16; block 16; layers 2; layers all: local 2 | stride 4 phase kv"


def said(call):
    try:
        return call()
    except s2.Error as refused:
        return f"{type(refused).__name__} {refused}"


for phase in ("prefill", "decode", "train"):
    print(said(lambda: s2.Pattern("model qwen2.5-0.5b; layers all: local 4").simulate(4096, phase=phase)), s2.Pattern(TEXT).check("rows,union", length=512).json)
print(s2.Pattern(TEXT).share(2, 1), s2.Pattern(TEXT).hash)
for one in s2.formats():
    with tempfile.TemporaryDirectory() as folder:
        print(one.name, said(lambda: s2.Pattern(TEXT).write(f"{folder}/made", one.name, length=256)).__repr__().replace(folder, ""))
        for path in sorted(pathlib.Path(folder).rglob("*")):
            print(path.name, path.read_bytes() if path.is_file() else "")
for path in sorted(pathlib.Path(os.environ["S2_ROOT"], "tests/data/foreign").rglob("*.*")):
    print(path.name, said(lambda: str(s2.Pattern(path))), said(lambda: s2.Pattern(path).notes))
