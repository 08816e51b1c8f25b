#!/usr/bin/env python3
"""The weights that s2 counts around attention, against the parameters of transformers' own models, type by type.

Each model_type of export/model_types.h is built from its default config, without memory for its weights (torch's meta
device), and its matrices are added up; norms, biases and routers, of which s2 knows nothing, are small beside them. For a
pattern of the model's own shape s2 must count as many, to 2 %, or refuse the config. A model that cannot be built is skipped.

usage: weights.py S2_PROGRAM [TYPE...]
Last line: N held, N did not. Exit 1 when one did not, 77 when transformers is missing.
"""
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
from kinds import MIXED, PARTS, rules, text_of
from tally import end, hold

try:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
except ImportError as why:
    print("skipped: transformers and torch are needed (%s)" % why)
    sys.exit(77)

NEAR = 0.02
# transformers keeps weights for experts that give back their input; the published checkpoint has none.
OWN_WAY = ("longcat_flash",)
LEAST = 130  # that are not refused
TOWERS = re.compile("audio|image|multi_modal|projector|vision|visual")  # what sees and hears beside the language model


def counted(kind, changes):
    """(the text of the config, elements of the model's matrices); None: it cannot be built."""
    try:
        config = AutoConfig.for_model(PARTS.get(kind, kind), **changes)
        with torch.device("meta"):
            model = (AutoModelForImageTextToText if kind in PARTS else AutoModelForCausalLM).from_config(config)
        model.tie_weights()
    except Exception:  # whatever stops transformers from building its own model is no word about s2
        return None
    own = {id(p): p.numel() for name, p in model.named_parameters() if p.dim() > 1 and not TOWERS.search(name)}
    return text_of(config), sum(own.values())


def run(program, *words):
    return subprocess.run([program, *words, "--no-db"], capture_output=True, text=True)


def priced(program, path):
    """Weights of the model of a config; None: refused."""
    priced = run(program, "sim", path, "--model", path, "--len", "4k", "--phase", "decode", "--gpu", "h200", "--json")
    found = re.search(r'"weight_bytes":([\d.e+]+)', priced.stdout)
    return float(found[1]) / 2 if found else None


kinds = sys.argv[2:] or [kind for kind in rules() if kind not in OWN_WAY]
n_priced = n_built = 0
refused = []
for kind, changes in [(kind, changes) for kind in kinds for changes in [{}] + MIXED.get(kind, [])]:
    built = counted(kind, changes)
    if built is None:
        hold(not changes, "%s cannot be built with %s" % (kind, changes))
        continue
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(built[0])
        file.flush()
        ours = priced(sys.argv[1], file.name)
    hold((ours is None and not changes) or (ours is not None and abs(ours - built[1]) <= NEAR * built[1]),
         "%s %s: %.4g weights of matrices, s2 counts %.4g" % (kind, changes or "", built[1], ours or 0))
    n_built += not changes
    n_priced += ours is not None and not changes
    refused += [kind] if ours is None else []
print("refused: " + ", ".join(refused))
print("%d priced, %d refused" % (n_priced, n_built - n_priced))
hold(n_priced >= (0 if sys.argv[2:] else LEAST), "only %d of %d types have a price" % (n_priced, len(kinds)))
end()
