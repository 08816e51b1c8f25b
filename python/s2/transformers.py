"""attn_implementation="s2" for models of transformers, and a cache for generation that gives pages back.

    import s2.transformers
    model = AutoModelForCausalLM.from_pretrained(NAME, attn_implementation="s2")

A model's pattern is what its own config says, or what `use(model, pattern)` gives. Importing this module registers "s2".
"""
from __future__ import annotations

import functools
import inspect
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Optional, Union

import torch
import transformers
from transformers.cache_utils import Cache as _Cache

try:
    from transformers.cache_utils import CacheLayerMixin
    from transformers.masking_utils import AttentionMaskInterface
except ImportError as failure:
    raise ImportError(f"s2.transformers needs transformers 4.56 or later, and this is {transformers.__version__}") from failure

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
        n_layers = getattr(config, "num_hidden_layers", pattern.layers)
        if pattern.layers < n_layers:
            raise UnsupportedError(f"config: its model has {n_layers} layers, and a pattern holds the {pattern.layers} of them that attend or keep a state; "
                                   "attention is called by the model's numbers, which are others then")
        key = id(config)
        known = _read[key] = (weakref.ref(config, lambda _: _read.pop(key, None)), given, pattern)
    return known[2]


def _config_of(model: Any) -> Any:
    try:
        return model.config.get_text_config(decoder=True)
    except AttributeError:
        raise ArgumentError(f"model: a model of transformers is wanted, not {type(model).__name__}") from None


def use(model: Any, pattern: Union[Pattern, Source]) -> Any:
    """Give a model a pattern of its own, one that its shape fits, and set attn_implementation; returns the model."""
    config = _config_of(model)
    pattern = pattern if isinstance(pattern, Pattern) else Pattern(pattern)
    for name, wanted, found in (("layers", config.num_hidden_layers, pattern.layers), ("heads", config.num_attention_heads, pattern.heads),
                                ("KV heads", _kv_heads(config, pattern.kv_heads), pattern.kv_heads)):
        if wanted != found:
            raise ArgumentError(f"pattern: it has {found} {name}, and the model has {wanted}")
    model.set_attn_implementation("s2")
    if config._attn_implementation != "s2":  # transformers warns, and goes on with the model's own
        raise UnsupportedError(f"model: {type(model).__name__} takes no attn_implementation; its own attention would not read by the pattern")
    config.s2_pattern = str(Pattern(str(pattern)))  # what the config's file keeps must be the whole of it
    return model


def _kv_heads(config: Any, found: int) -> int:
    """A config keeps any name that it is given. Where its class does not declare this one, its model may not read it, and attention says what it gets."""
    name, kind = "num_key_value_heads", type(config)
    heads: int = config.num_attention_heads
    count: int = getattr(config, name, None) or heads
    declared = hasattr(kind, name) or name in inspect.signature(kind.__init__).parameters
    return heads if found == heads and not declared else count


def _refuse(module: Any, attention_mask: Any, dropout: float, options: dict[str, Any]) -> None:
    """What the kernels do not compute, by the name of the argument that asks for it."""
    if attention_mask is not None and attention_mask.dim() != 2:
        raise UnsupportedError("attention_mask: a mask beside the pattern's own is not computed, but for padding")
    if dropout and module.training:
        raise UnsupportedError("dropout: attention weights are not dropped out; set attention_dropout to 0")
    if options.get("output_attentions") or getattr(module.config, "output_attentions", False):
        raise UnsupportedError('output_attentions: attention weights are never all there; give the model attn_implementation="eager" for them')
    if options.get("is_causal", getattr(module, "is_causal", True)) is False:
        raise UnsupportedError("is_causal: attention to later tokens is the pattern's own to say (causal no)")


def _has_numbers(one: torch.Tensor) -> bool:
    """A tensor on the meta device and a fake one have a shape alone; what would be looked at in them is taken to be right."""
    return not one.is_meta and not isinstance(one, torch._subclasses.FakeTensor)


class _Padding:
    """Where the tokens of each row of a padded batch begin and end; all else is padding."""

    def __init__(self, mask: torch.Tensor) -> None:
        counts, first, column = mask.sum(-1), mask.int().argmax(-1), torch.arange(mask.shape[1], device=mask.device)
        whole = ((column >= first[:, None]) & (column < (first + counts)[:, None])) == mask
        if not bool(whole.all()):
            raise UnsupportedError("attention_mask: padding between tokens is not computed, only on the left or on the right of them")
        self.mask, self.first, self.columns = mask, first, mask.shape[1]
        self.begins = first.tolist()
        self.ends = [begin + count for begin, count in zip(self.begins, counts.tolist())]

    def queries(self, count: int) -> list[tuple[int, int]]:
        """Of the last `count` columns, those that are tokens."""
        skipped = self.columns - count
        return [(max(begin, skipped) - skipped, max(end, skipped) - skipped) for begin, end in zip(self.begins, self.ends)]


def _padding_of(mask: Optional[torch.Tensor]) -> Optional[_Padding]:
    """Looked at once for all layers: a look waits for a GPU."""
    if mask is None:
        return None
    known = getattr(mask, "_s2_padding", None)
    if known is None or known.mask is not mask:
        known = mask._s2_padding = _Padding(mask)  # type: ignore[attr-defined]
    return known


_POSITIONS = ("position_ids: the tokens are not the last positions of all keys; packed batches are not computed, and neither are "
              "caches with empty places (static ones) or that shorten themselves: use S2Cache")


def _check_positions(query: torch.Tensor, n_keys: int, position_ids: Optional[torch.Tensor], padding: Optional[_Padding]) -> None:
    """Keys 0 to n_keys, and the queries the last of them: what a shortened cache or a packed batch would break."""
    if position_ids is None or not _has_numbers(position_ids):
        return
    last, *about = _positions.checked
    count = query.shape[2]
    counted = not position_ids.is_inference()  # what is written to others is not counted: they are looked at in each layer
    now = [n_keys, count, position_ids._version if counted else None, padding]
    if counted and last is not None and last() is position_ids and about == now:
        return  # the layers of one pass have one tensor
    found = position_ids.reshape(-1, position_ids.shape[-1])
    wanted = torch.arange(n_keys - count, n_keys, device=position_ids.device)
    right = found == wanted if found.shape[-1] == count else torch.zeros(1, dtype=torch.bool)
    if padding is not None and found.shape[-1] == count:  # counted from a row's first token or from its padding
        right = right | (found == wanted - padding.first[:, None]) | ~padding.mask[:, padding.columns - count:]
    if not bool(right.all()):
        raise UnsupportedError(_POSITIONS)
    _positions.checked = (weakref.ref(position_ids), *now)


class _Positions(threading.local):
    checked: tuple[Any, ...] = (None,)


_positions = _Positions()


def _of_tokens(query: torch.Tensor, keys: list[torch.Tensor], values: list[torch.Tensor], queries: list[tuple[int, int]], pattern: Pattern, layer: int,
               extra: dict[str, Any]) -> torch.Tensor:
    """Attention of the tokens alone, sequence by sequence without their padding, where there are zeros."""
    rows = [row for row, (begin, end) in enumerate(queries) if end > begin]
    ends_q, ends_k, count = [0], [0], query.shape[2]
    for row in rows:
        ends_q.append(ends_q[-1] + queries[row][1] - queries[row][0])
        ends_k.append(ends_k[-1] + keys[row].shape[1])
    if not rows:
        return torch.zeros_like(query)
    q = torch.cat([query[row, :, queries[row][0]:queries[row][1]] for row in rows], 1)
    o = attention(q, torch.cat([keys[row] for row in rows], 1), torch.cat([values[row] for row in rows], 1), pattern, layer,
                  cu_seqlens_q=ends_q, cu_seqlens_k=ends_k, **extra)
    made = [torch.zeros_like(query[0])] * query.shape[0]
    for row, begin, end in zip(rows, ends_q, ends_q[1:]):
        made[row] = torch.nn.functional.pad(o[:, begin:end], (0, 0, queries[row][0], count - queries[row][1]))
    return torch.stack(made)


def _of_batch(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: Optional[_Padding], pattern: Pattern, layer: int,
              extra: dict[str, Any]) -> torch.Tensor:
    if padding is None:
        o: torch.Tensor = attention(query, key, value, pattern, layer, **extra)
        return o
    keys, values = ([one[row, :, begin:end] for row, (begin, end) in enumerate(zip(padding.begins, padding.ends))] for one in (key, value))
    return _of_tokens(query, keys, values, padding.queries(query.shape[2]), pattern, layer, extra)


_compiled: dict[str, Pattern] = {}  # by their texts: they must live as long as compiled code does


def _kept_pattern(text: str) -> Pattern:
    return _compiled.setdefault(text, Pattern(text))


_compiler: Any = torch.compiler  # which gives its functions no types
_of_text: Callable[[str], Pattern] = _compiler.assume_constant_result(_kept_pattern)  # code is made anew where a config has another text


def _attend_in_graph(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, text: str, scaling: Optional[float],
                     options: dict[str, Any]) -> tuple[torch.Tensor, None]:
    """Of a whole batch without a cache of ours, in compiled code: there nobody may look at the numbers of a tensor, so the device does."""
    positions = options.get("position_ids")
    if positions is not None:
        wanted = torch.arange(key.shape[2] - query.shape[2], key.shape[2], device=positions.device)
        torch._assert_async((positions == wanted).all(), _POSITIONS)
    sinks = options.get("s_aux")
    o: torch.Tensor = attention(query, key, value, _of_text(text), module.layer_idx, scale=scaling,
                                softcap=options.get("softcap"), sinks=None if sinks is None else sinks.float())
    return o.transpose(1, 2).contiguous(), None


def _attend(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Optional[torch.Tensor],
            scaling: Optional[float] = None, dropout: float = 0.0, **options: Any) -> tuple[torch.Tensor, None]:
    _refuse(module, attention_mask, dropout, options)
    if torch.compiler.is_compiling() and attention_mask is None and getattr(key, "_s2_layer", None) is None:
        text = getattr(module.config.get_text_config(decoder=True), "s2_pattern", None)
        if text is not None:
            return _attend_in_graph(module, query, key, value, text, scaling, options)
    made: tuple[torch.Tensor, None] = _outside(module, query, key, value, attention_mask, scaling, options)
    return made


def _attend_eagerly(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Optional[torch.Tensor],
                    scaling: Optional[float], options: dict[str, Any]) -> tuple[torch.Tensor, None]:
    pattern = pattern_of(module.config)
    held: Optional[_Layer] = getattr(key, "_s2_layer", None)
    if key.shape[1] != pattern.kv_heads:
        raise UnsupportedError(f"model: {type(module).__name__} hands its attention {key.shape[1]} KV heads, and the pattern has {pattern.kv_heads}: its code "
                               "repeats them by itself, or reads no num_key_value_heads")
    n_keys = key.shape[2] if held is None else held.get_seq_length()
    padding = _padding_of(attention_mask)
    if padding is not None and (padding.columns, padding.mask.shape[0]) != (n_keys, query.shape[0]):
        raise ArgumentError(f"attention_mask: shape {tuple(padding.mask.shape)}, and ({query.shape[0]}, {n_keys}) is wanted: all tokens so far")
    _check_positions(query, n_keys, options.get("position_ids"), padding)
    sinks = options.get("s_aux")
    extra = {"scale": scaling, "softcap": options.get("softcap"), "sinks": None if sinks is None else sinks.float()}
    if held is not None:
        o = held.owner.attend(held, query, key, value, padding, pattern, extra)
    else:
        o = _of_batch(query, key, value, padding, pattern, module.layer_idx, extra)
    return o.transpose(1, 2).contiguous(), None


_outside: Any = _compiler.disable(_attend_eagerly)


# What a pattern says itself, by the names that transformers gives its functions of masks.
_BASES = frozenset(("causal_mask_function", "sliding_window_overlay.<locals>.inner_mask", "chunked_overlay.<locals>.inner_mask"))


def _check_mask(function: Any) -> None:
    """Refuse what a model's code asks for beside its windows: image tokens that see each other, prefixes, packed batches."""
    name = getattr(function, "__qualname__", "")
    if name in _BASES:
        return
    inside = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()))) if hasattr(function, "__code__") else {}
    if name in ("and_masks.<locals>.and_mask", "or_masks.<locals>.or_mask"):
        for one in inside["mask_functions"]:
            _check_mask(one)
    elif name == "remap_positions_for_packed_sequence.<locals>.inner_mask":
        _check_mask(inside["mask_function"])
    elif name == "packed_sequence_mask_function.<locals>.inner_mask":
        which = inside["packed_sequence_mask"]  # transformers 4 gives one of a single sequence too
        if _has_numbers(which) and bool((which != which[:, :1]).any()):
            raise UnsupportedError(_POSITIONS)
    elif name != "blockwise_overlay.<locals>.inner_mask" or (
            _has_numbers(inside["block_sequence_ids"]) and bool((inside["block_sequence_ids"] >= 0).any())):  # a text alone has no block
        raise UnsupportedError(_OTHER_MASK)


_OTHER_MASK = ("attention_mask: the model asks for a mask beside the pattern's own (image tokens or a prefix that see later ones); that is not computed")


def _probe_mask(function: Any, batch: int, n_queries: int, n_keys: int, has_window: bool, device: Any) -> None:
    """In compiled code, where nobody may look at what a function was made of, the device asks it of each query's neighbours: that the next key is hidden, which
    tokens that see each other would read, and the last one seen, which a packed sequence's first token would not read."""
    query = torch.arange(n_keys - n_queries, n_keys - 1, device=device)[None]
    row, head = torch.arange(batch, device=device)[:, None], torch.zeros_like(query)
    torch._assert_async(torch.logical_not(function(row, head, query, query + 1)).all(), _OTHER_MASK)
    if not has_window:  # a chunk's first token sees none before it
        torch._assert_async(function(row, head, query + 1, query).all(), _POSITIONS)


def _check_in_graph(function: Any, ends: Any, q_length: int, kv_length: int, more: dict[str, Any]) -> None:
    if isinstance(ends, torch.Tensor):
        torch._assert_async((ends == kv_length).all(), _POSITIONS)
    elif ends not in (None, kv_length):
        raise UnsupportedError(_POSITIONS)
    if function is not None and q_length > 1:
        _probe_mask(function, more.get("batch_size", 1), q_length, kv_length, more.get("local_size") is not None, more.get("device"))


def _mask(*, kv_length: int, kv_offset: int = 0, q_length: int = 0, q_offset: Any = None, cache_position: Optional[torch.Tensor] = None, mask_function: Any = None,
          attention_mask: Optional[torch.Tensor] = None, **more: Any) -> Optional[torch.Tensor]:
    """No mask is made: the pattern is one. Where there is padding, which columns are none. Not every model tells its attention of
    positions, so what they would show is looked for here too."""
    if getattr(more.get("config"), "index_topk", None):
        raise UnsupportedError("model: its layers choose keys by an indexer of their own (index_topk), which wants a mask of the model's; that is not computed")
    if isinstance(kv_offset, int) and kv_offset > 0:
        raise UnsupportedError("past_key_values: this cache has dropped keys by a rule of its own; use S2Cache")
    # transformers 4 hands over the positions of the queries
    ends = cache_position[-1] + 1 if cache_position is not None else None if q_offset is None else q_offset + q_length
    if torch.compiler.is_compiling():
        if cache_position is not None:
            q_length, more["device"] = cache_position.shape[0], cache_position.device
        _check_in_graph(mask_function, ends, q_length, kv_length, more)
    else:
        if mask_function is not None:
            _check_mask(mask_function)
        if ends is not None and (not isinstance(ends, torch.Tensor) or _has_numbers(ends)) and int(ends) != kv_length:
            raise UnsupportedError(_POSITIONS)
    if attention_mask is None or not _has_numbers(attention_mask) or bool(attention_mask.all()):
        return None
    return attention_mask[:, :kv_length].bool()


_NO_CROP = "past_key_values: tokens cannot be taken back from an S2Cache, whose pages went back; copy.deepcopy() it before"


class _Layer(CacheLayerMixin):  # type: ignore[no-untyped-call,unused-ignore]
    """One layer's view of an S2Cache."""

    is_sliding = False
    is_initialized = False  # transformers 4.56 has no such thing

    def __init__(self, owner: "S2Cache", index: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.owner, self.index, self.seen, self.written = owner, index, 0, 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: Optional[torch.Tensor] = None) -> None:
        self.owner.begin(key_states)
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention writes them, which knows of padding; it finds the layer by this mark."""
        if torch.is_grad_enabled() and (key_states.requires_grad or value_states.requires_grad):
            raise UnsupportedError("past_key_values: gradients do not pass through a cache; generate under torch.no_grad()")
        if self.owner.config._attn_implementation != "s2":
            raise UnsupportedError(f"past_key_values: the model's attention is {self.owner.config._attn_implementation!r}, which cannot read an S2Cache; "
                                   'give it attn_implementation="s2"')
        if self.seen != self.written:
            raise ArgumentError("past_key_values: the pass before ended in an error; reset() begins anew")
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.seen += key_states.shape[2]
        key_states = key_states.view_as(key_states)
        key_states._s2_layer = self  # type: ignore[attr-defined]
        return key_states, value_states

    def get_seq_length(self) -> int:
        return self.seen

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        """transformers 4 hands over the positions of the queries."""
        return self.seen + (query_length if isinstance(query_length, int) else query_length.shape[0]), 0

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # as transformers 4 calls it

    def reset(self) -> None:
        self.owner.reset()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        raise UnsupportedError("beam_idx: layers of an S2Cache share their sequences; its own reorder_cache reorders all")

    def crop(self, *_: Any) -> None:
        raise UnsupportedError(_NO_CROP)


class S2Cache(_Cache):
    """Keys and values of a model's pattern: `model.generate(..., past_key_values=S2Cache(model))`.

    `usage` is what the pages in use hold. A call may have any number of tokens; up to `step` of them are read from the pages, more after
    the first call from a copy. Rows may be padded on the left; beams share pages.
    """

    def __init__(self, model: Any, *, step: int = 1, layout: str = "pages", page: int = 0, pages: int = 0) -> None:
        self.config = _config_of(model)
        self.pattern = pattern_of(self.config)
        self._options: dict[str, Any] = {"step": step, "layout": layout, "page": page, "pages": pages}
        self.kept: Any = None
        self.sequences: list[int] = []
        self._before: list[int] = []  # forks of them, while a pass of more tokens than a step lasts
        self._tokens = 0
        self._own = [_Layer(self, index) for index in range(self.pattern.layers)]
        super().__init__(layers=list(self._own))

    def begin(self, key_states: torch.Tensor) -> None:
        """Room for a batch of these keys."""
        if self.kept is None:
            self.kept = Cache(self.pattern, key_states, head_dim=key_states.shape[-1], **self._options)
            self.sequences = [self.kept.open() for _ in range(key_states.shape[0])]

    def _check(self, layer: _Layer, fresh: int, batch: int, padding: Optional[_Padding], pattern: Pattern) -> None:
        if pattern != self.pattern:
            raise ArgumentError("past_key_values: it was made for another pattern than the model has now")
        if batch != len(self.sequences):
            raise ArgumentError(f"past_key_values: {len(self.sequences)} sequences, and the batch has {batch}")
        if padding is None:
            if layer.written == self._tokens and any(self.kept.tokens(one) != layer.written for one in self.sequences):
                raise ArgumentError("attention_mask: the first call's padding is missing from it")
            return
        if any(end != padding.columns or begin == end for begin, end in zip(padding.begins, padding.ends)):
            raise UnsupportedError("attention_mask: a row of an S2Cache ends with a token; pad on the left, and give each row one at least")
        if layer.written and layer.written == self._tokens:
            for one, begin in zip(self.sequences, padding.begins):
                if self.kept.tokens(one) != layer.written - begin:
                    raise ArgumentError("attention_mask: its padding is not the first call's")

    def _make_room(self, fresh: int, padding: Optional[_Padding]) -> None:
        """The first layer of a pass makes room for all."""
        if self._tokens == 0 and padding is not None:
            for one, begin in zip(self.sequences, padding.begins):
                self.kept.append(one, fresh - begin)
        else:
            if self._tokens and fresh > self.kept.step:
                self._before = [self.kept.fork(one) for one in self.sequences]  # what the first of these tokens read may go back
            self.kept.append(self.sequences, fresh)
        self._tokens += fresh

    def attend(self, layer: _Layer, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: Optional[_Padding], pattern: Pattern,
               extra: dict[str, Any]) -> torch.Tensor:
        """Write a layer's new keys and values, and read from all of them."""
        fresh, first = key.shape[2], layer.written == 0
        if layer.written == layer.seen:
            raise UnsupportedError(f"past_key_values: layer {layer.index} attends to the same keys twice, with values of its own each time; an S2Cache has one of each")
        self._check(layer, fresh, key.shape[0], padding, pattern)
        if layer.written == self._tokens:
            self._make_room(fresh, padding)
        key, value = _aligned(key), _aligned(value)
        if first and padding is not None:
            for row, (one, begin) in enumerate(zip(self.sequences, padding.begins)):
                self.kept.write(one, layer.index, *(_aligned(rows[row, :, begin:]) for rows in (key, value)))
        else:
            self.kept.write(self.sequences, layer.index, key, value)
        layer.written += fresh
        if first:
            return _of_batch(query, key, value, padding, self.pattern, layer.index, extra)
        if self._before:
            return self._attend_copy(layer, query, key, value, extra)
        o: torch.Tensor = self.kept.attend(query, self.sequences, layer.index, **extra)
        return o

    def _attend_copy(self, layer: _Layer, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, extra: dict[str, Any]) -> torch.Tensor:
        """More tokens than a step, of keys as they were before it."""
        old = [self.kept.read(one, layer.index) for one in self._before]
        keys, values = ([torch.cat([one[nth], rows[row]], 1) for row, one in enumerate(old)] for nth, rows in ((0, key), (1, value)))
        o = _of_tokens(query, keys, values, [(0, query.shape[2])] * len(old), self.pattern, layer.index, {**extra, "phase": "decode"})
        if layer.index == len(self.layers) - 1:
            for one in self._before:
                self.kept.drop(one)
            self._before = []
        return o

    def _take(self, indices: list[int]) -> None:
        """Sequences in this order: one that comes again is a fork, one that does not is dropped."""
        if self.kept is None:
            return
        wanted, unused = [], set(self.sequences)
        for index in indices:
            one = self.sequences[index]
            wanted.append(one if one in unused else self.kept.fork(one))
            unused.discard(one)
        for one in unused:
            self.kept.drop(one)
        self.sequences = wanted

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Row n goes on from what row beam_idx[n] has."""
        self._take(beam_idx.tolist())

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """These rows alone, in this order."""
        chosen = torch.arange(len(self.sequences))[indices.cpu()] if self.kept is not None else torch.arange(0)
        self._take(chosen.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row so many times, sharing its pages until they differ."""
        self._take([row for row in range(len(self.sequences)) for _ in range(repeats)])

    def crop(self, *_: Any) -> None:
        """Refused: pages that went back are gone."""
        raise UnsupportedError(_NO_CROP)

    def reset(self) -> None:
        """Every page goes back; the next prompt begins anew."""
        if self.kept is not None:
            self.kept.close()
        self.kept, self.sequences, self._before, self._tokens = None, [], [], 0
        for layer in self._own:
            layer.seen = layer.written = 0
            layer.is_initialized = False

    @property
    def usage(self) -> Any:
        """The cache's s2.Usage; None before the first token."""
        return None if self.kept is None else self.kept.usage


def _aligned(rows: torch.Tensor) -> torch.Tensor:
    """What the package takes: d contiguous, 16-byte aligned."""
    return rows if rows.stride(-1) == 1 and rows.data_ptr() % 16 == 0 else rows.clone(memory_format=torch.contiguous_format)


_kind = transformers.PreTrainedModel
_chosen: Callable[..., str] = _kind.get_correct_attn_implementation
_chosen = getattr(_chosen, "_s2_instead_of", _chosen)  # where this module is loaded again


def _no_attention(*_: Any, **named: Any) -> Any:
    """An entry of a table from which a model takes its attention's class."""
    raise UnsupportedError('attn_implementation: a part of this model takes its attention from a table of its own, which knows no "s2"; '
                           'give that part another one, as {"": "s2", "vision_config": "eager"}')


@functools.wraps(_chosen)
def _choose(model: Any, *asked: Any, **named: Any) -> str:
    """transformers asks this before a model is built. One with attention of its own would end in a KeyError, or go on with it and without the mask
    that "s2" makes unnecessary: its tokens would see later ones."""
    made = _chosen(model, *asked, **named)
    if made != "s2":
        stated = asked[0] if asked else named.get("requested_attention")
        if stated is None and getattr(model.config, "s2_pattern", None) is not None:
            warnings.warn(f'the config has a pattern (s2_pattern), and the model is made with {made}, which does not read it: give attn_implementation="s2", '
                          f'or name {made} if that is meant', stacklevel=2)
        return made
    kind = type(model)
    reads = hasattr(model.config, "vocab_size") and model.config.get_text_config(decoder=True) is model.config  # no eyes, and none that has its text in another
    if reads and not kind._can_set_attn_implementation():
        raise UnsupportedError(f'attn_implementation: {kind.__name__} (model_type "{model.config.model_type}") has attention of its own alone, which "s2" cannot '
                               'replace; give it "eager"')
    for table in vars(sys.modules[kind.__module__]).values():
        if isinstance(table, dict) and "eager" in table and all(isinstance(one, type) for one in table.values()):
            table["s2"] = _no_attention
    return made


setattr(_choose, "_s2_instead_of", _chosen)
setattr(_kind, _chosen.__name__, _choose)
transformers.AttentionInterface.register("s2", _attend)
AttentionMaskInterface.register("s2", _mask)
