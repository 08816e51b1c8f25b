"""The shapes of the patterns that are trained, and the files that list them: `name ~ family ~ rules` a line.

A shape is its number of layers: the model that judged the figures has 4, the larger one, twice as deep and wide, 8.
"""
import pathlib

LAYERS, HEADS, KV_HEADS, BLOCK, CONTEXT = 4, 8, 4, 4, 256
LARGER = 8


def shape(layers=LAYERS):
    return f"layers {layers}; heads {HEADS}; kv-heads {KV_HEADS}; head-dim {8 * layers}; block {BLOCK}; "


def read_patterns(path, layers=LAYERS):
    for line in pathlib.Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            name, family, rules = (part.strip() for part in line.split("~"))
            yield {"name": name, "family": family, "text": shape(layers) + rules}
