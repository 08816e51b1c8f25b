import torch, transformers
import s2, s2.transformers

config = transformers.LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                  num_key_value_heads=2)  # or from_pretrained: any model whose shape the pattern fits
model = transformers.AutoModelForCausalLM.from_config(config).eval()
s2.transformers.use(model, "layers 2; heads 4; kv-heads 2; head-dim 16; block 16; layers all: sink 1 | local 3")
cache = s2.transformers.S2Cache(model)
tokens = model.generate(torch.randint(3, 256, (1, 200)), max_new_tokens=40, eos_token_id=None, past_key_values=cache)
print(tokens.shape[1], "tokens;", cache.usage.slots, "keys held, a dense cache holds", 2 * 2 * tokens.shape[1])
