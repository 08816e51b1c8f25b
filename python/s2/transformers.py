"""attn_implementation="s2" for models of transformers, and a cache for generation that gives pages back.

    import s2.transformers
    model = AutoModelForCausalLM.from_pretrained(NAME, attn_implementation="s2")

A model's pattern is what its own config says, or what `use(model, pattern)` gives. Importing this module registers "s2".
"""
from __future__ import annotations

import threading
import weakref
from typing import Any, Optional, Union

import torch
import transformers
from transformers.cache_utils import Cache as _Cache
from transformers.cache_utils import CacheLayerMixin
from transformers.masking_utils import AttentionMaskInterface

from . import attention
from ._lib import ArgumentError, UnsupportedError
from .cache import Cache
from .pattern import Pattern, Source

_read: dict[int, tuple[Any, Optional[str], Pattern]] = {}  # by a config's id: a weak reference to it, its s2_pattern, the pattern


def pattern_of(config: Any) -> Pattern:
    """The pattern that a config has: its field s2_pattern, which `use` sets and files keep, else what its other fields say."""
    config = config.get_text_config(decoder=True)
    given = getattr(config, "s2_pattern", None)
    known = _read.get(id(config))
    if known is None or known[0]() is not config or known[1] != given:
        pattern = Pattern(config.to_dict() if given is None else given)
        key = id(config)
        known = _read[key] = (weakref.ref(config, lambda _: _read.pop(key, None)), given, pattern)
    return known[2]


def use(model: Any, pattern: Union[Pattern, Source]) -> Any:
    """Give a model a pattern of its own, one that its shape fits, and set attn_implementation; returns the model."""
    pattern = pattern if isinstance(pattern, Pattern) else Pattern(pattern)
    config = model.config.get_text_config(decoder=True)
    for name, wanted, found in (("layers", config.num_hidden_layers, pattern.layers), ("heads", config.num_attention_heads, pattern.heads),
                                ("KV heads", _kv_heads(config), pattern.kv_heads)):
        if wanted != found:
            raise ArgumentError(f"pattern: it has {found} {name}, and the model has {wanted}")
    config.s2_pattern = str(Pattern(str(pattern)))  # what the config's file keeps must be the whole of it
    model.set_attn_implementation("s2")
    return model


def _kv_heads(config: Any) -> int:
    return getattr(config, "num_key_value_heads", None) or config.num_attention_heads


def _refuse(module: Any, attention_mask: Any, dropout: float, options: dict) -> None:
    """What the kernels do not compute, by the name of the argument that asks for it."""
    if attention_mask is not None:
        raise UnsupportedError("attention_mask: a mask beside the pattern's own is not computed")
    if dropout and module.training:
        raise UnsupportedError("dropout: attention weights are not dropped out; set attention_dropout to 0")
    if options.get("is_causal", getattr(module, "is_causal", True)) is False:
        raise UnsupportedError("is_causal: attention to later tokens is the pattern's own to say (causal no)")


def _check_positions(query: torch.Tensor, n_keys: int, position_ids: Optional[torch.Tensor]) -> None:
    """Keys 0 to n_keys, and the queries the last of them: what a shortened cache or a packed batch would break."""
    if position_ids is None:
        return
    last, *about = _positions.checked
    now = [n_keys, query.shape[2], position_ids._version]
    if last is not None and last() is position_ids and about == now:
        return  # the layers of one pass have one tensor, and a look at it waits for a GPU
    wanted = torch.arange(n_keys - query.shape[2], n_keys, device=position_ids.device)
    if position_ids.shape[-1] != query.shape[2] or not bool((position_ids.reshape(-1, query.shape[2]) == wanted).all()):
        raise UnsupportedError("position_ids: the tokens are not the last positions of all keys; batches that are packed or padded "
                               "on the left are not computed, and caches that shorten themselves are not: use S2Cache")
    _positions.checked = (weakref.ref(position_ids), *now)


class _Positions(threading.local):
    checked: tuple = (None,)


_positions = _Positions()


def _attend(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Optional[torch.Tensor],
            scaling: Optional[float] = None, dropout: float = 0.0, **options: Any) -> tuple[torch.Tensor, None]:
    _refuse(module, attention_mask, dropout, options)
    pattern = pattern_of(module.config)
    held: Optional[_Layer] = getattr(key, "_s2_layer", None)
    n_keys = key.shape[2] if held is None else held.get_seq_length()
    _check_positions(query, n_keys, options.get("position_ids"))
    sinks = options.get("s_aux")
    extra = {"scale": scaling, "softcap": options.get("softcap"), "sinks": None if sinks is None else sinks.float()}
    if held is not None:
        o = held.owner.kept.attend(query, held.owner.sequences, module.layer_idx, **extra)
    else:
        o = attention(query, key, value, pattern, module.layer_idx, **extra)
    return o.transpose(1, 2).contiguous(), None


def _mask(batch_size: int, q_length: int, kv_length: int, kv_offset: int = 0, attention_mask: Optional[torch.Tensor] = None,
          **_: Any) -> None:
    """No mask is made: the pattern is one. What a mask would have said besides is refused."""
    if attention_mask is not None and not bool(attention_mask.all()):
        raise UnsupportedError("attention_mask: padded tokens are not computed; give sequences of one length")
    if isinstance(kv_offset, int) and kv_offset > 0:
        raise UnsupportedError("past_key_values: this cache has dropped keys by a rule of its own; use S2Cache")


class _Layer(CacheLayerMixin):
    """One layer's view of an S2Cache."""

    is_sliding = False

    def __init__(self, owner: "S2Cache", index: int) -> None:
        super().__init__()
        self.owner, self.index, self.seen = owner, index, 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.owner.begin(key_states)
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if torch.is_grad_enabled() and (key_states.requires_grad or value_states.requires_grad):
            raise UnsupportedError("past_key_values: gradients do not pass through a cache; generate under torch.no_grad()")
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        first = self.seen == 0
        self.owner.write(self, key_states, value_states)
        if not first:  # later steps read the pages; attention finds them by this mark
            key_states = key_states.view_as(key_states)
            key_states._s2_layer = self  # type: ignore[attr-defined]
        return key_states, value_states

    def get_seq_length(self) -> int:
        return self.seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def reset(self) -> None:
        self.owner.reset()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        raise UnsupportedError("num_beams: beams are not reordered")


class S2Cache(_Cache):
    """Keys and values of a model's pattern: `model.generate(..., past_key_values=S2Cache(model))`.

    `usage` is what the pages in use hold. The first call may have any number of tokens, later ones at most `step`.
    """

    def __init__(self, model: Any, *, step: int = 1, layout: str = "pages", page: int = 0, pages: int = 0) -> None:
        self.pattern = pattern_of(model.config)
        self._options: dict[str, Any] = {"step": step, "layout": layout, "page": page, "pages": pages}
        self.kept: Any = None
        self.sequences: list[int] = []
        self._tokens = 0
        super().__init__(layers=[_Layer(self, index) for index in range(self.pattern.layers)])

    def begin(self, key_states: torch.Tensor) -> None:
        """Room for a batch of these keys."""
        if self.kept is None:
            self.kept = Cache(self.pattern, key_states, head_dim=key_states.shape[-1], **self._options)
            self.sequences = [self.kept.open() for _ in range(key_states.shape[0])]

    def write(self, layer: _Layer, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """The first layer of a step makes room for all."""
        fresh = key_states.shape[2]
        if key_states.shape[0] != len(self.sequences):
            raise ArgumentError(f"past_key_values: {len(self.sequences)} sequences, and the batch has {key_states.shape[0]}")
        if layer.seen == self._tokens:
            if layer.seen > 0 and fresh > self.kept.step:
                raise UnsupportedError(f"past_key_values: {fresh} tokens at once after the first call; S2Cache(step=) allows up to 16")
            self.kept.append(self.sequences, fresh)
            self._tokens += fresh
        self.kept.write(self.sequences, layer.index, _aligned(key_states), _aligned(value_states))
        layer.seen += fresh

    def reset(self) -> None:
        if self.kept is not None:
            self.kept.close()
        self.kept, self.sequences, self._tokens = None, [], 0
        for layer in self.layers:
            layer.seen, layer.is_initialized = 0, False

    @property
    def usage(self) -> Any:
        return None if self.kept is None else self.kept.usage


def _aligned(rows: torch.Tensor) -> torch.Tensor:
    """What the package takes: d contiguous, 16-byte aligned."""
    return rows if rows.stride(-1) == 1 and rows.data_ptr() % 16 == 0 else rows.clone(memory_format=torch.contiguous_format)


transformers.AttentionInterface.register("s2", _attend)
AttentionMaskInterface.register("s2", _mask)
