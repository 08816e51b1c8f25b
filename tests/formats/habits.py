#!/usr/bin/env python3
"""What export/model_types.h says of each model_type where a config says nothing, against the classes of the installed
transformers: one embedding or two, the head dimension, the window, the cap of scores, and learned sink logits.

usage: habits.py        last line: N held, N did not. Exit 1 when one did not, 77 when transformers is missing.
"""
import inspect
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tally import end, hold

try:
    from transformers import CONFIG_MAPPING
except ImportError as why:
    print("skipped: transformers is needed (%s)" % why)
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
ROW = re.compile(r'^    X\("([^"]+)", (\w+), [^,]+, \d+, \d+, (\d+), (\d+), ([^)]*)\)', re.M)
WINDOWED = ("WINDOW", "TYPES", "SWITCHED", "SWITCHED_UPPER", "SWITCHED_EVEN", "UPPER", "LISTED")
INNER = ("qwen2_5_omni_text", "qwen3_vl_moe_text")  # the model around it has its own word, no


def default(kind, name):
    """What the class itself has for the name; what its base class has is no word about this one."""
    return vars(kind).get(name)


def source(kind):
    """The code of the models of this class of configs."""
    path = inspect.getfile(kind).replace("configuration_", "modeling_")
    return open(path, encoding="utf-8").read() if os.path.exists(path) else ""


def same(name, what, ours, theirs):
    hold(ours == theirs, f"{name}: {what} is {theirs}, not {ours}")


def check(name, rule, window, dim, flags):
    kind = CONFIG_MAPPING[name]
    tied, head_dim = default(kind, "tie_word_embeddings"), default(kind, "head_dim")
    if tied is not None and name not in INNER:
        same(name, "one embedding", "S2_TIED" in flags, bool(tied))
    if isinstance(head_dim, int) and rule != "STATES" and default(kind, "kv_lora_rank") is None:
        same(name, "the head dimension", int(dim), head_dim)
    if rule in WINDOWED and isinstance(default(kind, "sliding_window"), int):
        same(name, "the window", int(window), default(kind, "sliding_window"))
    same(name, "the cap", 50 if "S2_CAPPED" in flags else None, default(kind, "attn_logit_softcapping"))
    if rule != "MIMO":
        same(name, "a sink logit", "S2_SINKS" in flags, "module.sinks" in source(kind))


text = open(os.path.join(HERE, "..", "..", "export", "model_types.h"), encoding="utf-8").read()
for row in ROW.findall(text):
    if row[0] in CONFIG_MAPPING:
        check(*row)
end()
