#!/usr/bin/env python3
"""The bytes of a cache as s2 counts them, against the caches that transformers' own models fill, type by type.

Each model_type of export/model_types.h, and each that has a format of its own, is built from its default config in
bfloat16, without memory (torch's meta device; small ones for which that cannot be done on the CPU with random weights), and
reads a prompt and two more tokens. What its cache then holds is added up, layer by layer, and s2 must say the same of the
same config and length, to the byte. Where transformers stores otherwise than the engines that s2 speaks of, the rule below
says so and is applied to transformers' side:

    windows        transformers drops the oldest of its window as soon as the last query has read it, s2 with the next one
    chunks         transformers keeps the last tokens, as of a window; s2 those of the chunk
    latents        transformers stores K and V of all heads, made of the latent; the latent is what s2 counts
    states         transformers stores them in the type of activations, s2 counts a matrix in 32 bits
    index keys     transformers stores them in 16 bits; engines, and s2, in 8 with a scale of 32 for each
    no positions   a layer without rotary keys keeps none; s2 counts one, and import says so
    cross layers   of an encoder: not counted

usage: caches.py S2_PROGRAM [TYPE...]
Last line: N held, N did not. Exit 1 when one did not, 77 when transformers is missing.
"""
import json
import os
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
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
    from transformers.cache_utils import EncoderDecoderCache
except ImportError as why:
    print("skipped: transformers and torch are needed (%s)" % why)
    sys.exit(77)

OWN_FORMATS = ["deepseek_v32", "glm_moe_dsa", "minimax_m3_vl_text", "axk2", "hy_v4", "mistral_large4_text"]
KEPT_WHOLE = ("gpt_neo",)  # whose local layers transformers keeps whole
SMALL = 1 << 29  # parameters of a model that may be built with memory
LAYERS = ("num_hidden_layers", "decoder_layers", "encoder_layers", "num_decoder_layers", "num_encoder_layers")
PROMPT, MORE = 300, 2  # tokens


def build(kind, changes):
    """(config, model) of a type."""
    config = AutoConfig.for_model(PARTS.get(kind, kind), **changes)
    for maker, own in ((AutoModelForCausalLM, config), (AutoModel, config.get_text_config())):
        try:
            with torch.device("meta"):
                return own, maker.from_config(own, dtype=torch.bfloat16).eval()
        except ValueError:  # the type has no such class
            continue
    raise ValueError("no class for it")


def fill(model, n_prompt, device):
    with torch.no_grad():
        cache = model(input_ids=torch.ones(1, n_prompt, dtype=torch.long, device=device), use_cache=True).past_key_values
        for _ in range(MORE):
            cache = model(input_ids=torch.ones(1, 1, dtype=torch.long, device=device), use_cache=True,
                          past_key_values=cache).past_key_values
    return cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache


def filled(kind, changes, n_prompt):
    """(config, the cache after n_prompt + MORE tokens)"""
    config, model = build(kind, changes)
    try:
        return config, fill(model, n_prompt, "meta")
    except (NotImplementedError, RuntimeError):
        if sum(p.numel() for p in model.parameters()) > SMALL:
            raise
    own = config.to_dict()
    config = type(config).from_dict({**own, **{key: 2 for key in LAYERS if isinstance(own.get(key), int)}})
    return config, fill(type(model)(config).to(torch.bfloat16).eval(), n_prompt, "cpu")


def values(states):
    """Of one tensor, or of several by number."""
    return [s for s in (states.values() if isinstance(states, dict) else [states]) if s is not None]


def is_latent(config):
    return getattr(config, "kv_lora_rank", None) is not None


def layer_bytes(layer, config, n_tok):
    """What s2 should count of what one layer of the cache holds, by the rules above."""
    total = 0
    keys, held = getattr(layer, "keys", None), getattr(layer, "values", None)
    if keys is not None and keys.numel() > 0:
        kept, width = keys.shape[-2], keys.shape[1] * keys.shape[-1] + held.shape[1] * held.shape[-1]
        window = getattr(layer, "sliding_window", None)
        if window is not None and n_tok >= window:
            chunk = getattr(config, "attention_chunk_size", None)
            kept = (n_tok - 1) % window + 1 if chunk == window else kept + 1
        if is_latent(config):
            width = config.kv_lora_rank + config.qk_rope_head_dim
        total += 2 * kept * width
        index = getattr(layer, "indexer_keys", None)
        total += n_tok * (index.shape[-1] + 4) if index is not None else 0
    for state in values(getattr(layer, "recurrent_states", None)):
        total += state.numel() * (4 if state.dim() > 2 else state.element_size())
    for state in values(getattr(layer, "conv_states", None)):
        total += state.numel() * state.element_size()
    return total


def cache_bytes(cache, config, n_tok):
    apart = [state for state in getattr(cache, "linear_cache", []) if hasattr(state, "numel")]  # MiniMax
    return sum(layer_bytes(layer, config, n_tok) for layer in cache.layers) + 4 * sum(s.numel() for s in apart)


def counted(program, text, n_tok):
    """(bytes that s2 counts, None) or (None, why it refuses)"""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([program, "sim", file.name, "--len", str(n_tok), "--phase", "decode", "--gpu", "h200",
                               "--no-db", "--bounds", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return json.loads(done.stdout.splitlines()[0])["kv"]["used"], None


def compare(program, kind, changes, n_prompt):
    """The largest window of its cache; None: it was not compared."""
    try:
        config, cache = filled(kind, changes, n_prompt)
    except Exception as why:  # whatever stops transformers from running its own model is no word about s2
        apart.append("%s (%s)" % (kind, type(why).__name__))
        return None
    if cache is None or not hasattr(cache, "layers"):
        apart.append("%s (no cache)" % kind)
        return None
    n_tok = n_prompt + MORE
    expected = cache_bytes(cache, config.get_text_config(), n_tok)
    ours, why = counted(program, text_of(config), n_tok)
    if ours is None:
        refused.append(kind)
    else:
        hold(ours == expected, "%s %s, %d tokens: the cache holds %d bytes, s2 counts %d" %
             (kind, changes or "", n_tok, expected, ours))
    return max([getattr(layer, "sliding_window", None) or 0 for layer in cache.layers] + [0])


apart, refused = [], []
for kind in sys.argv[2:] or [kind for kind, rule in rules().items() if rule != "ENCODER" and kind not in KEPT_WHOLE] + OWN_FORMATS:
    for changes in [{}] + MIXED.get(kind, []):
        widest = compare(sys.argv[1], kind, changes, PROMPT)
        if widest is not None and widest >= PROMPT:
            compare(sys.argv[1], kind, changes, widest + 44)
print("not run: " + ", ".join(apart))
print("refused by s2: " + ", ".join(refused))
end()
