"""PyTorch's operator of cuDNN's attention with a kernel for the CPU, so that its two halves meet
there too. As on a GPU, its dropout draws from a state of its own, which is none of Kiln's."""

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


_kernels = torch.library.Library("aten", "IMPL")
_kernels.impl("_scaled_dot_product_cudnn_attention", _forward, "CPU")
_kernels.impl("_scaled_dot_product_cudnn_attention_backward", _backward, "CPU")
