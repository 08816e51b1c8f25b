"""Models of transformers, tiny and random, on the CPU: equal to eager attention with the same mask."""
import contextlib
import io
import os
import pathlib
import re
import tempfile
import unittest

import torch
import transformers

import s2
import s2.transformers

SMALL = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXTRA = {"Llama": {}, "Mistral": {"sliding_window": 32}, "Phi3": {"sliding_window": 32},
         "Qwen2": {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1},
         "Gemma2": {"sliding_window": 32, "attn_logit_softcapping": None, "head_dim": 16}}
CAPS_AND_SINKS = [("Gemma2", {"attn_logit_softcapping": 0.5}),
                  ("GptOss", {"head_dim": 16, "sliding_window": 32, "num_local_experts": 2, "num_experts_per_tok": 1})]


def model_of(kind, **more):
    torch.manual_seed(0)
    config = getattr(transformers, kind + "Config")(**{**SMALL, **EXTRA.get(kind, {}), **more})
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def generate(model, ids, **options):
    return model.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=None, **options)


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
    def test_a_pattern_of_its_own_equals_eager_attention_with_its_mask(self):
        model, text = model_of("Llama"), "layers 2; heads 4; kv-heads 2; head-dim 16; block 16; layers all: local 2 | stride 2; layers 1: dense"
        masks = [torch.from_numpy(s2.Pattern(text).mask(layer, 70)) for layer in range(2)]

        def hook(layer):
            def replace(module, args, kwargs):
                kwargs["attention_mask"] = torch.zeros(2, 4, 70, 70).masked_fill(~masks[layer], float("-inf"))
                return args, kwargs
            return replace

        hooks = [one.self_attn.register_forward_pre_hook(hook(n), with_kwargs=True) for n, one in enumerate(model.model.layers)]
        want = model(self.ids, use_cache=False).logits
        [one.remove() for one in hooks]
        s2.transformers.use(model, text)
        self.assertLess((model(self.ids, use_cache=False).logits - want).abs().max(), 1e-5)
        with tempfile.TemporaryDirectory() as folder:  # the config's file keeps it
            model.save_pretrained(folder)
            again = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="s2").eval()
            self.assertEqual(s2.transformers.pattern_of(again.config), s2.Pattern(text))
            self.assertTrue(torch.equal(again(self.ids, use_cache=False).logits, model(self.ids, use_cache=False).logits))

    def test_what_is_not_computed_is_refused_by_name(self):
        with torch.no_grad():
            model = s2.transformers.use(model_of("Llama"), "layers 2; heads 4; kv-heads 2; layers all: local 2")
            padded = torch.ones_like(self.ids)
            padded[0, :5] = 0
            self.assertRaisesRegex(s2.UnsupportedError, "attention_mask", model, self.ids, attention_mask=padded)
            packed = torch.cat([torch.arange(30), torch.arange(40)])[None].expand(2, -1)
            self.assertRaisesRegex(s2.UnsupportedError, "position_ids", model, self.ids, position_ids=packed, use_cache=False)
            cache = s2.transformers.S2Cache(model)
            model(self.ids, past_key_values=cache)
            self.assertRaisesRegex(s2.UnsupportedError, "step", model, self.ids[:, :5], past_key_values=cache)
            mistral = model_of("Mistral")  # whose default cache drops keys by itself
            mistral.set_attn_implementation("s2")
            self.assertRaisesRegex(s2.UnsupportedError, "S2Cache", generate, mistral, self.ids)
        self.assertRaisesRegex(s2.ArgumentError, "pattern: it has 8 heads", s2.transformers.use, model, "layers 2; heads 8; layers all: dense")
        self.assertRaisesRegex(s2.UnsupportedError, "past_key_values", model, self.ids, past_key_values=s2.transformers.S2Cache(model))

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
