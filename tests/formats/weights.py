#!/usr/bin/env python3
"""The weights that s2 counts around attention, against the parameters of transformers' own models, type by type.

Each model_type of export/model_types.h is built from its default config, without memory for its weights (torch's meta
device), and its matrices are added up; norms, biases and routers, of which s2 knows nothing, are small beside them. For a
pattern of the model's own shape s2 must count as many, to 2 %, or refuse the config. A model that cannot be built is skipped.

usage: weights.py S2_PROGRAM [TYPE...]
Last line: N held, N did not. Exit 1 when one did not, 77 when transformers is missing.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from tally import end, hold

try:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
except ImportError as why:
    print("skipped: transformers and torch are needed (%s)" % why)
    sys.exit(77)

NEAR = 0.02
# transformers keeps weights for experts that give back their input; the published checkpoint has none.
OWN_WAY = ("longcat_flash",)
LEAST = 80  # that are not refused
TOWERS = re.compile("audio|image|multi_modal|vision|visual")  # what sees and hears beside the language model


def counted(kind):
    """(the text of the default config, elements of the model's matrices); None: it cannot be built."""
    try:
        config = AutoConfig.for_model(kind)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        model.tie_weights()
    except Exception:  # whatever stops transformers from building its own model is no word about s2
        return None
    own = {id(p): p.numel() for name, p in model.named_parameters() if p.dim() > 1 and not TOWERS.search(name)}
    return json.dumps(config.to_dict(), default=str), sum(own.values())


def run(program, *words):
    return subprocess.run([program, *words, "--no-db"], capture_output=True, text=True)


def priced(program, path):
    """Weights of a dense pattern of the model's shape; None: refused."""
    read = run(program, "import", path).stdout

    def number(word, default):
        found = re.search(rf"^{word} (\d+)$", read, re.M)
        return int(found[1]) if found else default

    heads = number("heads", 1)
    text = "layers %d; heads %d; kv-heads %d; head-dim %d; layers all: dense" % (
        number("layers", 1), heads, number("kv-heads", heads), number("head-dim", 128))
    priced = run(program, "sim", text, "--model", path, "--len", "4k", "--phase", "decode", "--gpu", "h200", "--json")
    found = re.search(r'"weight_bytes":([\d.e+]+)', priced.stdout)
    return float(found[1]) / 2 if found else None


table = open(os.path.join(HERE, "../../export/model_types.h"), encoding="utf-8").read()
kinds = sys.argv[2:] or [kind for kind in re.findall(r'^    X\("([^"]+)"', table, re.M) if kind not in OWN_WAY]
n_priced = n_built = 0
for kind in kinds:
    built = counted(kind)
    if built is None:
        continue
    n_built += 1
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(built[0])
        file.flush()
        ours = priced(sys.argv[1], file.name)
    hold(ours is None or abs(ours - built[1]) <= NEAR * built[1],
         "%s: %.4g weights of matrices, s2 counts %.4g" % (kind, built[1], ours or 0))
    n_priced += ours is not None
print("%d priced, %d refused" % (n_priced, n_built - n_priced))
hold(n_priced >= (0 if sys.argv[2:] else LEAST), "only %d of %d types have a price" % (n_priced, len(kinds)))
end()
