"""Attention by its definition, for comparison."""
import numpy


def forward(q, k, v, mask, scale, softcap=None, sinks=None):
    """q (batch, heads, tokens, d), mask (heads, tokens, keys), sinks (heads); in float64."""
    group = q.shape[1] // k.shape[1]
    k, v = (numpy.repeat(one, group, 1).astype(numpy.float64) for one in (k, v))
    score = numpy.einsum("bhqd,bhkd->bhqk", q.astype(numpy.float64), k) * scale
    score = numpy.where(mask[None], score if softcap is None else softcap * numpy.tanh(score / softcap), -numpy.inf)
    peak = score.max(-1, keepdims=True)
    weight = numpy.where(mask[None], numpy.exp(score - numpy.where(numpy.isfinite(peak), peak, 0)), 0)
    total = weight.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + numpy.exp(sinks[None, :, None, None] - numpy.where(numpy.isfinite(peak), peak, 0))
    return numpy.einsum("bhqk,bhkd->bhqd", weight / numpy.where(total > 0, total, 1), v)
