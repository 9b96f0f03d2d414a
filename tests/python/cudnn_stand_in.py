"""PyTorch's operators of attention on a GPU with kernels for the CPU, so that their two halves meet
there too. As on a GPU, their dropout draws from a state of its own, which is none of Kiln's."""

import math

import torch


def _scores(q, k, bias, causal, scale):
    scores = q @ k.mT * (scale or 1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores).bool().tril(), -math.inf)
    return scores


def _kept(seed, offset, p, shape):
    """0 where a weight is dropped."""
    drawn = torch.Generator().manual_seed(int(seed) + int(offset))
    return (torch.rand(shape, generator=drawn) >= p) / (1 - p)


def _forward(q, k, v, bias, saves, dropout_p=0.0, is_causal=False, debug=False, *, scale=None):
    scores = _scores(q, k, bias, is_causal, scale)
    logsumexp = scores.logsumexp(-1, keepdim=True)
    seed, offset = torch.empty((), dtype=torch.int64).random_(), torch.tensor(4)
    weights = (scores - logsumexp).exp() * _kept(seed, offset, dropout_p, scores.shape)
    lengths = (None, None, q.shape[2], k.shape[2])
    return weights @ v, logsumexp, *lengths, seed, offset, None


def _backward(
    grad, q, k, v, out, logsumexp, seed, offset, bias, _, __, ___, ____, dropout_p, is_causal, *, scale=None
):
    weights = (_scores(q, k, bias, is_causal, scale) - logsumexp).exp()
    kept = _kept(seed, offset, dropout_p, weights.shape)
    inner = weights * (grad @ v.mT * kept - (grad * out).sum(-1, keepdim=True))
    inner = inner * (scale or 1 / math.sqrt(q.shape[-1]))
    return inner @ k, inner.mT @ q, (weights * kept).mT @ grad


def _flash(q, k, v, dropout_p=0.0, is_causal=False, debug=False, *, scale=None):
    out, logsumexp, *_, seed, offset, _ = _forward(q, k, v, None, True, dropout_p, is_causal, scale=scale)
    state = torch.stack([seed, offset]).view(torch.uint64)
    unused, mask = torch.empty((), dtype=torch.uint64), q.new_empty(0)
    return out, logsumexp.squeeze(-1), None, None, q.shape[2], k.shape[2], state, unused, mask


def _flash_backward(
    grad, q, k, v, out, logsumexp, _, __, m, n, dropout_p, is_causal, state, unused, *, scale=None
):
    assert state.dtype == unused.dtype == torch.uint64
    seed, offset = state.view(torch.int64)
    lengths = (None, None, m, n)
    sums = logsumexp.unsqueeze(-1)
    return _backward(grad, q, k, v, out, sums, seed, offset, None, *lengths, dropout_p, is_causal, scale=scale)


def _efficient(q, k, v, bias, saves, dropout_p=0.0, is_causal=False, *, scale=None):
    out, logsumexp, *_, seed, offset, _ = _forward(q, k, v, bias, saves, dropout_p, is_causal, scale=scale)
    rows = torch.nn.functional.pad(logsumexp.squeeze(-1), (0, -q.shape[2] % 32), value=math.inf)
    return out, rows, seed, offset


def _efficient_backward(
    grad, q, k, v, bias, out, logsumexp, seed, offset, dropout_p, asked, is_causal=False, *, scale=None
):
    assert seed.dtype == offset.dtype == torch.int64
    sums, lengths = logsumexp[..., : q.shape[2], None], (None, None, q.shape[2], k.shape[2])
    grads = _backward(grad, q, k, v, out, sums, seed, offset, bias, *lengths, dropout_p, is_causal, scale=scale)
    return *grads, None


_kernels = torch.library.Library("aten", "IMPL")
_kernels.impl("_scaled_dot_product_cudnn_attention", _forward, "CPU")
_kernels.impl("_scaled_dot_product_cudnn_attention_backward", _backward, "CPU")
_kernels.impl("_scaled_dot_product_flash_attention", _flash, "CPU")
_kernels.impl("_scaled_dot_product_flash_attention_backward", _flash_backward, "CPU")
_kernels.impl("_scaled_dot_product_efficient_attention", _efficient, "CPU")
_kernels.impl("_scaled_dot_product_efficient_attention_backward", _efficient_backward, "CPU")
