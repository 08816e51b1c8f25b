#!/usr/bin/env python3
"""What export/model_types.h says of each model_type where a config says nothing, against the classes of the installed
transformers: one embedding or two, the head dimension, the window, the cap of scores, learned sink logits, whether KV heads have a
number of their own, and which layers are full where their number is any.

usage: habits.py S2_PROGRAM        last line: N held, N did not. Exit 1 when one did not, 77 when transformers is missing.
"""
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile

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
LAYERED = ("TYPES", "LISTED", "CHUNKS", "HALVES", "UPPER", "SWITCHED_UPPER", "SWITCHED_EVEN", "SWITCHED_ROTARY")
GROUPS = re.compile(r"key_value_heads|kv_heads|n_heads_kv|num_kv|query_groups|multi_query")
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
    if rule != "STATES" and name != "mpt":  # whose own code has them; that of transformers does not
        same(name, "a KV head for each head", "S2_UNGROUPED" in flags, GROUPS.search(source(kind) + inspect.getsource(kind)) is None)


def full_layers(program, config, n):
    """The layers that s2 reads as dense; None: it refuses the config."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        done = subprocess.run([program, "import", "--no-db", file.name], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    full = [False] * n
    for words, body in re.findall(r"^layers ([^ ]+): ((?:dense|local|chunk).*)$", done.stdout, re.M):
        for word in words.replace("all", "0:").split(","):
            first, _, last = word.partition("-")
            part = slice(int(first), int(last) + 1) if last else slice(*(int(at) if at else None for at in word.split(":")))
            for layer in range(n)[part] if last or ":" in word else [int(word)]:
                full[layer] = body == "dense"
    return full


def check_layers(program, name):
    kind = CONFIG_MAPPING[name]
    if "layer_types" not in vars(kind):
        return
    for n, more in ((2, {}), (5, {"sliding_window": 33}), (7, {}), (9, {"layer_types": ["sliding_attention"] * 9})):
        config = dict(more, num_hidden_layers=n, num_attention_heads=8, num_key_value_heads=4, hidden_size=512, head_dim=64)
        kinds = kind(**json.loads(json.dumps(config))).layer_types  # a class may change a list that it is given
        full = full_layers(program, dict(config, model_type=name), n)
        if full is not None and set(kinds) <= {"full_attention", "sliding_attention", "chunked_attention"}:
            same(name, f"of {n} layers {more}, full", full, [word == "full_attention" for word in kinds])


text = open(os.path.join(HERE, "..", "..", "export", "model_types.h"), encoding="utf-8").read()
for row in ROW.findall(text):
    if row[0] in CONFIG_MAPPING:
        check(*row)
    if row[0] in CONFIG_MAPPING and row[1] in LAYERED:
        check_layers(sys.argv[1], row[0])
end()
