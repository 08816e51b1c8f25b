"""The shape of every pattern that is trained, and the files that list them: `name ~ family ~ rules` a line."""
import pathlib

LAYERS, HEADS, KV_HEADS, BLOCK, CONTEXT = 4, 8, 4, 4, 256
SHAPE = f"layers {LAYERS}; heads {HEADS}; kv-heads {KV_HEADS}; head-dim 32; block {BLOCK}; "


def read_patterns(path):
    for line in pathlib.Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            name, family, rules = (part.strip() for part in line.split("~"))
            yield {"name": name, "family": family, "text": SHAPE + rules}
