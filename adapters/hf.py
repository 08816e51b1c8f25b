"""transformers' attention of a model config under the judge. usage: hf.py eager|sdpa [llama|mistral|gemma2 ...]

The model's own mask functions make the mask from its config: causal, or a sliding window of as many tokens as the pattern's.
What is judged is therefore the whole road from config to pairs. Other patterns are not what a config says, and refused.
"""
import sys

import s2_adapter
import torch
import transformers
from transformers import AutoConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.models.llama.modeling_llama import eager_attention_forward

WORD = sys.argv[1] if len(sys.argv) > 1 else "eager"
MODEL = sys.argv[2] if len(sys.argv) > 2 else "mistral"
DEVICE = s2_adapter.pick_device()


class Module(torch.nn.Module):
    """What the attention functions ask of the layer that calls them."""

    def __init__(self, p, config):
        super().__init__()
        self.config, self.num_key_value_groups, self.layer_idx, self.is_causal = config, p.group, 0, True
        self.eval()


def make(p):
    if p.shape not in ("causal", "window"):
        raise s2_adapter.Unsupported("a config says causal attention or a sliding window, nothing else")
    if p.q_tok != p.k_tok:
        raise s2_adapter.Unsupported("fewer queries than keys come from a cache, which this adapter has not")
    config = AutoConfig.for_model(MODEL, hidden_size=p.heads * p.head_dim, num_attention_heads=p.heads,
                                  num_key_value_heads=p.kv_heads, head_dim=p.head_dim)
    config._attn_implementation = WORD
    config.sliding_window = p.window if p.shape == "window" else None
    create = create_sliding_window_causal_mask if p.shape == "window" else create_causal_mask
    hidden = torch.zeros(p.n_seqs, p.q_tok, p.heads * p.head_dim, dtype=p.dtype, device=DEVICE)
    places = torch.arange(p.q_tok, device=DEVICE)[None].expand(p.n_seqs, -1)
    mask = create(config=config, inputs_embeds=hidden, attention_mask=None, past_key_values=None, position_ids=places)
    return Module(p, config), mask


def forward(p):
    module, mask = p.keep("module", lambda: make(p))
    attend = eager_attention_forward if WORD == "eager" else sdpa_attention_forward
    return attend(module, p.q, p.k, p.v, mask, scaling=p.scale, dropout=0.0)[0].transpose(1, 2)


def backward(p):
    return s2_adapter.gradients(p, forward)


s2_adapter.serve(f"hf-{MODEL}-{WORD}", forward, backward, lse=False, rounds="scores", device=DEVICE,
                 versions=s2_adapter.versions_of(torch, transformers, device=DEVICE))
