"""Models of transformers, tiny and random, on the CPU: equal to eager attention with the same mask."""
import contextlib
import copy
import importlib
import inspect
import io
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch
import transformers
from transformers.models.llama.modeling_llama import LlamaAttention

import s2
import s2.transformers

SMALL = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXTRA = {"Llama": {}, "Mistral": {"sliding_window": 32}, "Phi3": {"sliding_window": 32},
         "Qwen2": {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1},
         "Qwen3": {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1, "head_dim": 16},
         "Gemma2": {"sliding_window": 32, "attn_logit_softcapping": None, "head_dim": 16},
         "Gemma3Text": {"sliding_window": 32, "head_dim": 16, "layer_types": ["sliding_attention", "full_attention"]}}
# Phi-3-small's fields, as its config.json has them
ROTATED = {"blocksparse_block_size": 16, "blocksparse_homo_head_pattern": False, "blocksparse_num_local_blocks": 2,
           "blocksparse_triton_kernel_block_size": 16, "blocksparse_vert_stride": 3, "dense_attention_every_n_layers": 2}
CAPS_AND_SINKS = [("Gemma2", {"attn_logit_softcapping": 0.5}),
                  ("GptOss", {"head_dim": 16, "sliding_window": 32, "num_local_experts": 2, "num_experts_per_tok": 1})]


# Of all types of models, what is small: the names that they give it. Of each type those that it knows are taken, then fewer, until it can be built.
NAMED = {**dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4), "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_group": 1, "topk_group": 1,
         **dict.fromkeys(("decoder_layers", "encoder_layers", "num_layers"), 2), **dict.fromkeys(("decoder_ffn_dim", "encoder_ffn_dim", "d_ff"), 96), "d_model": 64,
         **dict.fromkeys(("decoder_attention_heads", "encoder_attention_heads", "num_heads"), 4), "head_dim": 16, "rotary_dim": 8, "d_kv": 16, "embedding_size": 32,
         "word_embed_proj_dim": 64, "linear_num_value_heads": 4, "linear_num_key_heads": 2, "sliding_window": 8, "window_size": 8, "vocab_size_per_layer_input": 97,
         "attention_types": [[["global", "local"], 1]], "is_decoder": True, "layer_types": None}
LEFT_OUT = ((), ("layer_types", "sliding_window"), ("layer_types", "sliding_window", "head_dim"))
MOST = 6_000_000  # weights

# What layers call a cache: transformers 5.24 renamed it, and takes the old name of `generate` and of models with a warning.
CACHE = "cache" if "cache" in inspect.signature(LlamaAttention.forward).parameters else "past_key_values"


def model_of(kind, **more):
    torch.manual_seed(0)
    config = getattr(transformers, kind + "Config")(**{**SMALL, **EXTRA.get(kind, {}), **more})
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def known(config, name):
    """Whether a config has a value by this name, or anything that is not read at once."""
    try:
        return getattr(config, name, None) is not None or name in SMALL and hasattr(config, name)
    except Exception:
        return True


def any_model(kind, left_out, how):
    """A small one of a model type; raises what its classes raise."""
    torch.manual_seed(0)
    probe = transformers.AutoConfig.for_model(kind)
    text = probe.get_text_config(decoder=True)
    names = {name: value for name, value in {**SMALL, **NAMED}.items() if name not in left_out and known(text, name)}
    if text.model_type != probe.model_type:
        names = {next(name for name in probe.sub_configs if getattr(probe, name) is text): {**names, "model_type": text.model_type}}
    config = transformers.AutoConfig.for_model(kind, **names)
    with torch.device("meta"):
        if sum(one.numel() for one in transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").parameters()) > MOST:
            raise ValueError("not small")
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=how).eval()


def first_that_runs(kind, ids):
    """What was left out for it, and its logits; None: no model of this type is built here."""
    for left_out in LEFT_OUT:
        try:
            return left_out, any_model(kind, left_out, "eager")(ids, use_cache=False).logits
        except Exception:  # of any library that these types want
            continue
    return None


def rotation(config, layer, n):
    """[head, query, key], by the rule that Phi-3-small's authors publish."""
    query, key = torch.arange(n)[:, None], torch.arange(n)[None]
    block, stride = config.blocksparse_block_size, config.blocksparse_vert_stride
    masks = []
    for head in range(config.num_attention_heads):
        turn = 0 if config.blocksparse_homo_head_pattern else head * max(1, stride // config.num_attention_heads)
        read = (query // block - key // block < config.blocksparse_num_local_blocks) | ((key // block + turn + 1) % stride == 0)
        dense = config.dense_attention_every_n_layers and (layer + 1) % config.dense_attention_every_n_layers == 0
        masks.append((key <= query) & (read | bool(dense)))
    return torch.stack(masks)


def sighted():
    """Gemma 3 with eyes."""
    torch.manual_seed(0)
    text = transformers.Gemma3TextConfig(**{**SMALL, **EXTRA["Gemma3Text"]})
    sight = transformers.SiglipVisionConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
    config = transformers.Gemma3Config(text_config=text, vision_config=sight, mm_tokens_per_image=4)
    return transformers.Gemma3ForConditionalGeneration._from_config(config, attn_implementation="eager").eval()


@contextlib.contextmanager
def masked(model, masks):
    """The model with a mask [head, query, key] of each layer, the last rows of it where a cache has the keys before."""
    def hook(mask):
        def replace(module, args, kwargs):
            queries = kwargs["hidden_states"].shape[1] if "hidden_states" in kwargs else args[0].shape[1]
            cache = kwargs.get(CACHE)
            keys = queries + (0 if cache is None else cache.get_seq_length(module.layer_idx))
            kwargs["attention_mask"] = torch.zeros(1, mask.shape[0], queries, keys).masked_fill(~mask[:, keys - queries:keys, :keys], float("-inf"))
            return args, kwargs
        return replace

    hooks = [one.self_attn.register_forward_pre_hook(hook(mask), with_kwargs=True) for one, mask in zip(model.model.layers, masks)]
    yield
    [one.remove() for one in hooks]


def takes_s2(model):
    """In transformers 4 some classes have attention of their own alone, of which it warns."""
    model.set_attn_implementation("s2")
    return model.config._attn_implementation == "s2"


def generate(model, ids, **options):
    if "past_key_values" in options:
        options[CACHE] = options.pop("past_key_values")
    return model.generate(ids, **{"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, **options})


class Models(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.ids = torch.randint(3, 97, (2, 70))

    @torch.no_grad()
    def test_a_models_own_pattern_gives_what_eager_attention_gives(self):
        for kind, more in [*((kind, {}) for kind in EXTRA), *CAPS_AND_SINKS]:
            with self.subTest(kind, **more):
                model = model_of(kind, **more)
                logits, tokens = model(self.ids, use_cache=False).logits, generate(model, self.ids)
                model.set_attn_implementation("s2")
                self.assertLess((model(self.ids, use_cache=False).logits - logits).abs().max(), 1e-5)
                cache = s2.transformers.S2Cache(model, page=16)
                self.assertTrue(torch.equal(generate(model, self.ids, past_key_values=cache), tokens))
                tokens_held = cache.get_seq_length()
                if kind != "Llama":
                    self.assertLess(cache.usage.slots, 2 * 2 * 2 * tokens_held)
                pattern = s2.transformers.pattern_of(model.config)
                priced = pattern.simulate(tokens_held, dtype="float32", page=16, batch=2, phase="decode")
                self.assertEqual(cache.usage.bytes, priced.kv_bytes)

    @torch.no_grad()
    def test_phi_3_smalls_rotation_is_read_from_the_config(self):
        for kind, more in (("Phi3", {}), ("Llama", {"blocksparse_homo_head_pattern": True}), ("Llama", {"num_key_value_heads": 4, "num_hidden_layers": 3}),
                           ("Qwen2", {"blocksparse_vert_stride": 9, "dense_attention_every_n_layers": None})):
            with self.subTest(kind, **more):
                model = model_of(kind, **{**ROTATED, "sliding_window": None, **more})
                config = model.config
                with masked(model, [rotation(config, layer, 90) for layer in range(config.num_hidden_layers)]):
                    want, tokens = model(self.ids, use_cache=False).logits, generate(model, self.ids)
                with tempfile.TemporaryDirectory() as folder:
                    model.save_pretrained(folder)
                    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="s2").eval()
                self.assertLess((model(self.ids, use_cache=False).logits - want).abs().max(), 1e-5)
                cache = s2.transformers.S2Cache(model, page=16)
                self.assertTrue(torch.equal(generate(model, self.ids, past_key_values=cache), tokens))
                pattern = s2.transformers.pattern_of(model.config)
                priced = pattern.simulate(cache.get_seq_length(), dtype="float32", page=16, batch=2, phase="decode")
                self.assertEqual(cache.usage.bytes, priced.kv_bytes)

    @torch.no_grad()
    def test_a_pattern_of_its_own_equals_eager_attention_with_its_mask(self):
        model, text = model_of("Llama"), "layers 2; heads 4; kv-heads 2; head-dim 16; block 16; layers all: local 2 | stride 2; layers 1: dense"
        with masked(model, [torch.from_numpy(s2.Pattern(text).mask(layer, 70)) for layer in range(2)]):
            want = model(self.ids, use_cache=False).logits
        s2.transformers.use(model, text)
        self.assertLess((model(self.ids, use_cache=False).logits - want).abs().max(), 1e-5)
        with tempfile.TemporaryDirectory() as folder:  # the config's file keeps it
            model.save_pretrained(folder)
            again = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="s2").eval()
            self.assertEqual(s2.transformers.pattern_of(again.config), s2.Pattern(text))
            self.assertTrue(torch.equal(again(self.ids, use_cache=False).logits, model(self.ids, use_cache=False).logits))

    @torch.no_grad()
    def test_padded_rows_are_what_eager_attention_makes_of_them(self):
        left, right = torch.ones(3, 70, dtype=torch.long), torch.ones(3, 70, dtype=torch.long)
        left[0, :33], left[2, :69], right[1, 40:] = 0, 0, 0
        ids = torch.randint(3, 97, (3, 70))
        for kind, more in [*((kind, {}) for kind in EXTRA), *CAPS_AND_SINKS]:
            with self.subTest(kind, **more):
                model = model_of(kind, **more)
                want = [model(ids, attention_mask=mask, use_cache=False).logits for mask in (left, right)]
                tokens = generate(model, ids, attention_mask=left)
                model.set_attn_implementation("s2")
                for mask, wanted in zip((left, right), want):
                    got = model(ids, attention_mask=mask, use_cache=False).logits
                    self.assertLess((got - wanted)[mask.bool()].abs().max(), 1e-5)
                cache = s2.transformers.S2Cache(model, page=16)
                self.assertTrue(torch.equal(generate(model, ids, attention_mask=left, past_key_values=cache), tokens))
                self.assertEqual([cache.kept.tokens(one) for one in cache.sequences], [48, 81, 12])

    @torch.no_grad()
    def test_a_padded_row_is_what_it_is_alone(self):
        model = model_of("Llama", **ROTATED)  # blocks are counted from a row's first token
        model.set_attn_implementation("s2")
        mask = torch.ones_like(self.ids)
        mask[1, :29] = 0
        alone = self.ids[1:, 29:]
        self.assertLess((model(self.ids, attention_mask=mask, use_cache=False).logits[1:, 29:] - model(alone, use_cache=False).logits).abs().max(), 1e-5)
        both, one = (generate(model, ids, past_key_values=s2.transformers.S2Cache(model, page=16), **more)
                     for ids, more in ((self.ids, {"attention_mask": mask}), (alone, {})))
        self.assertTrue(torch.equal(both[1, 29:], one[0]))

    @torch.no_grad()
    def test_beams_and_later_turns_are_eager_attentions(self):
        for kind, more in (("Llama", {}), ("Gemma3Text", {}), CAPS_AND_SINKS[1]):
            with self.subTest(kind):
                model = model_of(kind, **more)
                beams = generate(model, self.ids, num_beams=3, num_return_sequences=2)
                turns, past = self.ids, transformers.DynamicCache()
                for fresh in (1, 5, 33):
                    turns = torch.cat([generate(model, turns, past_key_values=past), torch.randint(3, 97, (2, fresh), generator=torch.Generator().manual_seed(fresh))], 1)
                last = generate(model, turns, past_key_values=past)
                model.set_attn_implementation("s2")
                cache = s2.transformers.S2Cache(model, page=16)
                self.assertTrue(torch.equal(generate(model, self.ids, num_beams=3, num_return_sequences=2, past_key_values=cache), beams))
                self.assertEqual(len(cache.kept._held), 6)  # those of lost beams were dropped
                for step in ((1, 4) if kind == "Llama" else (1,)):
                    again, past = self.ids, s2.transformers.S2Cache(model, page=16, step=step)
                    for fresh in (1, 5, 33):
                        again = torch.cat([generate(model, again, past_key_values=past), torch.randint(3, 97, (2, fresh), generator=torch.Generator().manual_seed(fresh))], 1)
                    self.assertTrue(torch.equal(again, turns))
                    twin = copy.deepcopy(past)  # a prompt that is used again
                    for one in (past, twin):
                        self.assertTrue(torch.equal(generate(model, turns, past_key_values=one), last))
                    self.assertEqual((len(past.kept._held), past.usage.bytes), (2, twin.usage.bytes))

    @torch.no_grad()
    def test_other_ways_to_generate_are_eager_attentions_or_refused(self):
        """Drawn tokens, several answers, drafts of another model or of the prompt; padded on the left, or not."""
        padded = torch.ones_like(self.ids)
        padded[0, :9] = 0
        ways = {"drawn": {"do_sample": True, "num_return_sequences": 3}, "beams": {"do_sample": True, "num_beams": 3}, "penalty": {"repetition_penalty": 1.3},
                "padded": {"attention_mask": padded, "do_sample": True, "num_return_sequences": 2}}
        drafts = {"lookup": {"prompt_lookup_num_tokens": 3, "eos_token_id": 2}, "assistant": {"assistant_model": model_of("Llama", num_hidden_layers=1)},
                  "drawn": {"assistant_model": model_of("Llama", num_hidden_layers=1), "do_sample": True}}

        def answer(model, ids, **options):
            torch.manual_seed(5)
            return generate(model, ids, **options)

        for kind in ("Llama", "Mistral"):
            model = model_of(kind)
            wanted = {name: answer(model, self.ids, **options) for name, options in ways.items()}
            drafted = {name: answer(model, self.ids[:1, :20], **options) for name, options in drafts.items()}
            model.set_attn_implementation("s2")
            cached = lambda: s2.transformers.S2Cache(model)
            for name, options in ways.items():
                self.assertTrue(torch.equal(answer(model, self.ids, past_key_values=cached(), **options), wanted[name]), (kind, name))
            for name, options in drafts.items():  # of which tokens are taken back
                self.assertRaisesRegex((s2.UnsupportedError, ValueError), "crop|taken back", answer, model, self.ids[:1, :20], past_key_values=cached(), **options)
                if kind == "Llama":
                    self.assertTrue(torch.equal(answer(model, self.ids[:1, :20], **options), drafted[name]), name)
            self.assertRaisesRegex(s2.UnsupportedError, "position_ids: .*static|past_key_values: ", answer, model, self.ids, cache_implementation="static")

    @torch.no_grad()
    def test_a_cache_serves_its_own_model_alone(self):
        model = s2.transformers.use(model_of("Llama"), "layers 2; heads 4; kv-heads 2; layers all: local 2")
        cache = s2.transformers.S2Cache(model)
        model.set_attn_implementation("eager")
        self.assertRaisesRegex(s2.UnsupportedError, "past_key_values: the model's attention is 'eager'", model, self.ids, past_key_values=cache)
        s2.transformers.use(model, "layers 2; heads 4; kv-heads 2; layers all: local 3")
        self.assertRaisesRegex(s2.ArgumentError, "another pattern", model, self.ids, past_key_values=cache)
        self.assertRaisesRegex(s2.ArgumentError, "ended in an error", model, self.ids, past_key_values=cache)
        cache = s2.transformers.S2Cache(model)
        model(self.ids, past_key_values=cache)
        for wrong, name in ((lambda: model(self.ids[:1, :1], past_key_values=copy.deepcopy(cache)), "past_key_values: 2 sequences"), (lambda: cache.crop(-1), "taken back"),
                            (lambda: cache.layers[0].reorder_cache(torch.tensor([0])), "beam_idx")):
            self.assertRaisesRegex(s2.Error, name, wrong)
        mask = torch.ones(2, 71, dtype=torch.long)
        mask[0, :9] = 0
        self.assertRaisesRegex(s2.ArgumentError, "attention_mask: its padding", model, self.ids[:, :1], attention_mask=mask, past_key_values=cache)
        cache.reset()
        self.assertIsNone(cache.usage)
        model(self.ids, past_key_values=cache)

    def test_what_is_not_computed_is_refused_by_name(self):
        with torch.no_grad():
            model = s2.transformers.use(model_of("Llama"), "layers 2; heads 4; kv-heads 2; layers all: local 2")
            holed = torch.ones_like(self.ids)
            holed[0, 5:9] = 0
            self.assertRaisesRegex(s2.UnsupportedError, "attention_mask: padding between", model, self.ids, attention_mask=holed)
            full = torch.zeros(1, 1, 70, 70)
            self.assertRaisesRegex(s2.UnsupportedError, "attention_mask: a mask beside", model, self.ids, attention_mask=full)
            right = torch.ones_like(self.ids)
            right[0, 60:] = 0
            self.assertRaisesRegex(s2.UnsupportedError, "attention_mask: a row", model, self.ids, attention_mask=right, past_key_values=s2.transformers.S2Cache(model))
            for call in (lambda: model(self.ids, output_attentions=True), lambda: generate(model, self.ids, output_attentions=True, return_dict_in_generate=True)):
                self.assertRaisesRegex(s2.UnsupportedError, 'output_attentions: .*"eager"', call)
            watched = model_of("Llama")
            watched.config.output_attentions = True  # which later refuses what is not eager
            watched.set_attn_implementation("s2")
            self.assertRaisesRegex(s2.UnsupportedError, "output_attentions", watched, self.ids)
            packed = torch.cat([torch.arange(30), torch.arange(40)])[None].expand(2, -1)
            self.assertRaisesRegex(s2.UnsupportedError, "position_ids", model, self.ids, position_ids=packed, use_cache=False)
            with self.assertRaisesRegex(s2.UnsupportedError, r"empty places \(static ones\).*use S2Cache"):
                generate(model, self.ids, cache_implementation="static")
            mistral = model_of("Mistral")  # whose default cache drops keys by itself
            mistral.set_attn_implementation("s2")
            self.assertRaisesRegex(s2.UnsupportedError, "S2Cache", generate, mistral, self.ids)
        self.assertRaisesRegex(s2.ArgumentError, "pattern: it has 8 heads", s2.transformers.use, model, "layers 2; heads 8; layers all: dense")
        self.assertRaisesRegex(s2.UnsupportedError, "past_key_values", model, self.ids, past_key_values=s2.transformers.S2Cache(model))

    @torch.no_grad()
    def test_masks_that_models_make_themselves_are_refused(self):
        """Also where a model does not tell its attention of positions."""
        packed = torch.cat([torch.arange(30), torch.arange(40)])[None].expand(2, -1)
        for kind, more in (("Llama", {}), ("GPTBigCode", {}), ("Persimmon", {"num_key_value_heads": 4})):
            with self.subTest(kind):
                model = model_of(kind, **more)
                logits = model(self.ids, use_cache=False).logits
                model.set_attn_implementation("s2")
                if hasattr(model.base_model, "_update_causal_mask"):  # in transformers 4, which makes a whole mask
                    self.assertRaisesRegex(s2.UnsupportedError, "attention_mask: a mask beside", model, self.ids, use_cache=False)
                    continue
                self.assertLess((model(self.ids, use_cache=False).logits - logits).abs().max(), 1e-5)
                self.assertRaisesRegex(s2.UnsupportedError, "position_ids", model, self.ids, position_ids=packed, use_cache=False)
                with self.assertRaisesRegex(s2.UnsupportedError, r"empty places \(static ones\).*use S2Cache"):
                    generate(model, self.ids, cache_implementation="static")
        model = sighted()
        kinds = torch.zeros_like(self.ids)
        logits = model(self.ids, token_type_ids=kinds, use_cache=False).logits
        model.set_attn_implementation("s2")
        if "block_sequence_ids" in inspect.signature(transformers.masking_utils.create_causal_mask).parameters:  # else nobody can tell that there are no images
            self.assertLess((model(self.ids, token_type_ids=kinds, use_cache=False).logits - logits).abs().max(), 1e-5)
        kinds[0, 20:30] = 1  # an image's tokens see each other
        self.assertRaisesRegex(s2.UnsupportedError, "attention_mask: the model asks for a mask", model, self.ids, token_type_ids=kinds, use_cache=False)

    @torch.no_grad()
    def test_masks_that_models_make_themselves_are_refused_in_a_graph(self):
        """By the device, which is asked what neighbours see."""
        packed = torch.cat([torch.arange(30), torch.arange(40)])[None].expand(2, -1)
        for kind, more, kv_heads in (("GPTBigCode", {"num_key_value_heads": 1}, 1), ("Persimmon", {"num_key_value_heads": 4}, 4)):
            with self.subTest(kind):
                model = model_of(kind, **more)
                if hasattr(model.base_model, "_update_causal_mask"):  # in transformers 4, which makes a whole mask
                    continue
                logits = model(self.ids, use_cache=False).logits
                s2.transformers.use(model, f"layers 2; heads 4; kv-heads {kv_heads}; head-dim 16; layers all: dense")
                compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
                self.assertLess((compiled(self.ids, use_cache=False).logits - logits).abs().max(), 1e-5)
                self.assertRaisesRegex(RuntimeError, "position_ids", compiled, self.ids, position_ids=packed, use_cache=False)
        model, kinds = sighted(), torch.zeros_like(self.ids)
        logits = model(self.ids, token_type_ids=kinds, use_cache=False).logits
        s2.transformers.use(model, "layers 2; heads 4; kv-heads 2; head-dim 16; block 16; layers 0: local 32t; layers 1: dense")
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        self.assertLess((compiled(self.ids, token_type_ids=kinds, use_cache=False).logits - logits).abs().max(), 1e-5)
        kinds[0, 20:30] = 1
        self.assertRaisesRegex(RuntimeError, "attention_mask: the model asks for a mask", compiled, self.ids, token_type_ids=kinds, use_cache=False)

    @torch.no_grad()
    def test_kv_heads_that_a_model_does_not_have_are_named(self):
        """A config keeps any field; GPT-2's code reads no num_key_value_heads, and JetMoe's repeats its KV heads by itself."""
        model = model_of("GPT2", num_key_value_heads=2)
        logits = model(self.ids, use_cache=False).logits
        s2.transformers.use(model, "layers 2; heads 4; kv-heads 2; layers all: dense")
        self.assertRaisesRegex(s2.UnsupportedError, "model: GPT2Attention hands its attention 4 KV heads, and the pattern has 2", model, self.ids, use_cache=False)
        s2.transformers.use(model, "layers 2; heads 4; layers all: dense")
        self.assertLess((model(self.ids, use_cache=False).logits - logits).abs().max(), 1e-5)
        self.assertRaisesRegex(s2.RefusedError, 'a model of type "gpt2" has a KV head for each of its 4 heads', s2.Pattern, {**model.config.to_dict(), "s2_pattern": None})
        model = model_of("JetMoe", kv_channels=16, num_local_experts=4, num_experts_per_tok=2)
        if takes_s2(model):
            self.assertRaisesRegex(s2.UnsupportedError, "model: JetMoeAttention hands its attention 4 KV heads", model, self.ids, use_cache=False)

    def test_layers_that_a_pattern_does_not_have_are_named(self):
        """Feed-forward layers of their own have numbers too, so the third layer of a model is another one of its pattern."""
        if "nemotron_h" not in transformers.CONFIG_MAPPING:
            self.skipTest("this transformers has no Nemotron-H")
        config = transformers.AutoConfig.for_model(
            "nemotron_h", layers_block_type=["linear_attention", "mlp", "full_attention", "mlp"], hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=16, n_groups=2, vocab_size=128, intermediate_size=64)
        with self.assertRaisesRegex(s2.UnsupportedError, "4 layers, and a pattern holds the 2 of them"):
            s2.transformers.pattern_of(config)

    @torch.no_grad()
    def test_a_model_that_would_not_use_its_pattern_is_refused(self):
        bloom = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=97, hidden_size=64, n_layer=2, n_head=4))  # has attention of its own alone
        self.assertRaisesRegex(s2.UnsupportedError, "model: BloomForCausalLM takes no attn_implementation", s2.transformers.use, bloom, "layers 2; heads 4; all: local 2")
        self.assertFalse(hasattr(bloom.config, "s2_pattern"))
        twice = model_of("DiffLlama", head_dim=16)  # attends to the same keys with two sets of values
        said = "layer 0 attends to the same keys twice" if takes_s2(twice) else "the model's attention is 'eager'"
        self.assertRaisesRegex(s2.UnsupportedError, f"past_key_values: {said}", twice, self.ids, past_key_values=s2.transformers.S2Cache(twice))
        for kind in ("DiffLlama", "JetMoe"):
            if not takes_s2(model_of(kind)):
                self.assertRaisesRegex(s2.UnsupportedError, f"model: {kind}ForCausalLM takes no attn_implementation", s2.transformers.use, model_of(kind),
                                       "layers 2; heads 4; kv-heads 2; all: local 2")

    @torch.no_grad()
    def test_every_type_of_model_is_what_it_is_with_eager_attention_or_refused(self):
        """Also where its code has attention of its own, which would go on without a mask. S2_CASES=999: of all types, else of some."""
        own, every = ["falcon", "gpt_neo", "bloom", "mpt", "xglm", "trocr"], list(transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
        seed = int(os.environ.get("S2_SEED", "3"))
        drawn = random.Random(seed).sample(every, min(int(os.environ.get("S2_CASES", "25")), len(every)))
        refused, same = set(), 0
        for kind in [*own, *(one for one in drawn if one not in own)]:
            found = first_that_runs(kind, self.ids[:, :24])
            if found is None:
                continue
            with self.subTest(kind, seed=seed):
                try:
                    logits = any_model(kind, found[0], "s2")(self.ids[:, :24], use_cache=False).logits
                except s2.Error as error:
                    refused.add(str(error).partition(":")[0] + f" {kind}")
                    continue
                self.assertLess((logits - found[1]).abs().max(), 1e-5)
                same += 1
        self.assertGreater(same, 3)
        self.assertLessEqual({f"attn_implementation {kind}" for kind in own}, refused)

    def test_tables_of_attention_that_know_no_s2_say_so(self):
        """transformers has such tables beside the text of models, too: in their eyes."""
        kind = transformers.SamVisionConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=16, mlp_dim=32, output_channels=8,
                                            global_attn_indexes=[0])
        self.assertRaisesRegex(s2.UnsupportedError, "attn_implementation: a part of this model .* table", transformers.SamVisionModel._from_config, kind,
                               attn_implementation="s2")
        with_eyes = transformers.GotOcr2Config(text_config={**SMALL, "model_type": "qwen2"})  # whose eyes have attention of their own, and need no mask
        with torch.device("meta"):
            for how in ("s2", {"": "s2", "vision_config": "eager"}):
                model = transformers.GotOcr2ForConditionalGeneration._from_config(with_eyes, attn_implementation=how)
                self.assertEqual(model.config.text_config._attn_implementation, "s2")

    def test_a_transformers_that_is_too_old_is_named(self):
        code = "import sys, transformers; sys.modules['transformers.masking_utils'] = None; import s2.transformers"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], text=True, capture_output=True)
        self.assertIn(f"ImportError: s2.transformers needs transformers 4.56 or later, and this is {transformers.__version__}", done.stderr)

    def test_what_is_no_model_is_refused(self):
        for call in (lambda one: s2.transformers.use(one, "layers 2; heads 4; all: local 2"), s2.transformers.S2Cache):
            for one in (torch.nn.Linear(2, 2), None, "gpt2"):
                self.assertRaisesRegex(s2.ArgumentError, "model: a model of transformers is wanted", call, one)

    def test_a_compiled_model_is_what_it_is_without(self):
        """One graph with a pattern of its own, that of the text which the config has at the time; else, and with padding or a cache, what it can be."""
        text = "layers 2; heads 4; kv-heads 2; head-dim 16; block 16; layers all: local 2"
        model = s2.transformers.use(model_of("Llama"), text)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        for changed in (text, text.replace("local 2", "local 1")):
            s2.transformers.use(model, changed)
            for ids, more in ((self.ids, {"use_cache": False}), (self.ids[:, :40], {})):
                self.assertTrue(torch.equal(compiled(ids, **more).logits, model(ids, **more).logits))
        for each in (model, compiled):
            each(self.ids, labels=self.ids, use_cache=False).loss.backward()
        gradients = [one.grad for one in model.parameters()]  # of both
        model.zero_grad()
        model(self.ids, labels=self.ids, use_cache=False).loss.backward()
        self.assertTrue(all(torch.allclose(both, 2 * one.grad, atol=1e-5) for both, one in zip(gradients, model.parameters())))
        with self.assertRaisesRegex(RuntimeError, "position_ids"):
            compiled(self.ids, use_cache=False, position_ids=torch.arange(70)[None] % 35)
        with torch.no_grad():
            own = model_of("Mistral", sliding_window=32)
            own.set_attn_implementation("s2")
            mask = torch.ones_like(self.ids)
            mask[0, :5] = 0
            for one, more in ((model, {"attention_mask": mask}), (own, {"use_cache": False}), (own, {"attention_mask": mask, "use_cache": False})):
                self.assertTrue(torch.equal(torch.compile(one, backend="aot_eager")(self.ids, **more).logits, one(self.ids, **more).logits))
            tokens = generate(model, self.ids, past_key_values=s2.transformers.S2Cache(model))
            model.forward = torch.compile(model.forward, backend="aot_eager")
            self.assertTrue(torch.equal(generate(model, self.ids, past_key_values=s2.transformers.S2Cache(model)), tokens))

    def own(self, kind="Llama"):
        """One that was given a pattern."""
        return s2.transformers.use(model_of(kind), "layers 2; heads 4; kv-heads 2; head-dim 16; block 16; layers all: sink 1 | local 2")

    def test_models_without_numbers_give_shapes(self):
        """On the meta device and of fake tensors, as programs make them that reckon memory: forward, gradients, masks that tell of padding."""
        ids = torch.randint(3, 97, (2, 40))
        mask = torch.ones_like(ids)
        try:
            model_of("Llama").to("meta")(ids.to("meta"))
        except RuntimeError as failure:  # transformers 4
            self.skipTest(f"eager attention cannot, either: {failure}")
        for kind in ("Llama", "Gemma3Text"):
            want = self.own(kind)(ids).logits
            with torch.device("meta"):
                model = self.own(kind).train()
            for more in ({}, {"attention_mask": mask.to("meta")}, {"position_ids": torch.arange(40, device="meta")[None]}):
                loss = model(ids.to("meta"), labels=ids.to("meta"), **more).loss
                loss.backward()
            self.assertTrue(loss.is_meta and all(one.grad.is_meta for one in model.parameters()))
            self.assertEqual(model(ids.to("meta")).logits.shape, want.shape)
            with torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True) as fake:
                model = self.own(kind)
                for more in ({}, {"attention_mask": fake.from_tensor(mask)}):
                    self.assertEqual(model(fake.from_tensor(ids), **more).logits.shape, want.shape)
            with self.assertRaisesRegex(s2.ArgumentError, "meta"), torch.no_grad():
                self.own(kind).to("meta")(ids.to("meta"), **{CACHE: s2.transformers.S2Cache(self.own(kind))})

    def test_inference_mode_is_as_no_grad(self):
        """Also where a cache is filled in one and read in the other."""
        model, ids = self.own(), torch.randint(3, 97, (2, 50))
        mask = torch.ones_like(ids)
        mask[0, :7] = 0
        with torch.no_grad():
            want, padded = model(ids).logits, model(ids, attention_mask=mask).logits
        with torch.inference_mode():
            positions = torch.arange(50)[None]
            self.assertTrue(torch.equal(model(ids, position_ids=positions).logits, want))
            self.assertTrue(torch.equal(model(ids, attention_mask=mask).logits, padded))
            positions += 1  # which no counter tells
            self.assertRaisesRegex(s2.UnsupportedError, "position_ids", model, ids, position_ids=positions)
        for first, then in ((torch.inference_mode, torch.no_grad), (torch.no_grad, torch.inference_mode)):
            cache = s2.transformers.S2Cache(model)
            with first():
                model(ids[:, :30].clone(), **{CACHE: cache})
            with then():
                for column in range(30, 50):
                    made = model(ids[:, column:column + 1].clone(), **{CACHE: cache}).logits[:, -1]
                self.assertLess((made - want[:, -1]).abs().max(), 1e-5)

    def test_what_notebooks_do_to_a_model(self):
        """Copies, other types, files, and the module loaded again."""
        model, ids = self.own(), torch.randint(3, 97, (1, 50))
        want = model(ids).logits
        other = s2.transformers.use(copy.deepcopy(model), "layers 2; heads 4; kv-heads 2; head-dim 16; block 16; layers all: local 1")
        self.assertFalse(torch.equal(other(ids).logits, want))
        self.assertTrue(torch.equal(model(ids).logits, want))
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        self.assertTrue(torch.equal(torch.load(file, weights_only=False)(ids).logits, want))
        for kind in (torch.float16, torch.bfloat16):
            self.assertLess((copy.deepcopy(model).to(kind)(ids).logits - want).abs().max(), 0.1)
        self.assertRaisesRegex(s2.ArgumentError, "float64", copy.deepcopy(model).double(), ids)
        for _ in range(3):
            importlib.reload(s2.transformers)
        self.assertTrue(torch.equal(self.own()(ids).logits, want))
        self.assertRaisesRegex(ImportError, "a new process", importlib.reload, s2.torch_ops)
        self.assertTrue(torch.equal(model(ids).logits, want))

    def test_a_saved_pattern_that_is_not_read_is_said(self):
        model, ids = self.own(), torch.randint(3, 97, (1, 60))
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model.save_pretrained(folder)
            load = transformers.AutoModelForCausalLM.from_pretrained
            self.assertTrue(torch.equal(load(folder, attn_implementation="s2").eval()(ids).logits, model(ids).logits))
            load(folder, attn_implementation="eager")
            self.assertNotIn("s2_pattern", " ".join(str(one.message) for one in said))
            load(folder)
            self.assertIn("s2_pattern", " ".join(str(one.message) for one in said))

    def test_it_trains(self):
        model = s2.transformers.use(model_of("Llama"), "layers 2; heads 4; kv-heads 2; head-dim 16; block 16; layers all: local 2")
        model.train()
        model(self.ids, labels=self.ids, use_cache=False).loss.backward()
        self.assertTrue(all(one.grad is not None and one.grad.isfinite().all() for one in model.parameters()))

    def test_the_documented_lines_generate(self):
        root = pathlib.Path(os.environ["S2_ROOT"])
        lines = (root / "docs/examples/generate.py").read_text()
        shown = re.search(r"```python\n# docs/examples/generate.py\n(.*?)```", (root / "docs/python.md").read_text(), re.S).group(1)
        self.assertEqual(shown, lines)
        self.assertLessEqual(len([line for line in lines.splitlines() if line.strip()]), 10)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(lines, "generate.py", "exec"), {})
        tokens, held, dense = map(int, re.findall(r"\d+", said.getvalue()))
        self.assertEqual((tokens, dense), (240, 960))
        self.assertLess(held, dense / 2)
