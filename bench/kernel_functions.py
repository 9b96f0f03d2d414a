"""The functions of the kernel families: what the benchmarks compile."""

from __future__ import annotations

import torch
import torch.nn.functional as F

DROPOUT = 0.1


def chain(x, y):
    return torch.relu(x * y + 0.5) * 2.0


def add_transposed(x, y):
    return x + y.t()


def add_own_transpose(x):
    return x + x.t()


def transposed_copy(x):
    return x.t().contiguous()


def to_channels_last(x):
    return x.permute(0, 2, 3, 1).contiguous()


def bias_gelu(x, bias):
    return F.gelu(x + bias)


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def gelu(x):
    return F.gelu(x)


def bias_dropout_residual(x, bias, residual):
    return F.dropout(x + bias, DROPOUT, True) + residual


def layernorm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


def rmsnorm(x, weight):
    """As the Llama of Hugging Face has it."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def softmax(x):
    return torch.softmax(x, -1)


def log_softmax(x):
    return torch.log_softmax(x, -1)


def cross_entropy(logits, target):
    return F.cross_entropy(logits, target)


def row_sum(x):
    return x.sum(-1)


def column_sum(x):
    return x.sum(0)


def full_sum(x):
    return x.sum()


def batchnorm(x, weight, bias, mean, variance):
    return F.batch_norm(x, mean, variance, weight, bias, True)


def groupnorm(x, weight, bias):
    return F.group_norm(x, min(32, x.shape[1]), weight, bias)


def cat_relu(a, b, c, d):
    return torch.relu(torch.cat((a, b, c, d), -1))


def embedding(weight, indices):
    return F.embedding(indices, weight)


def index_add(table, indices, source):
    return table.index_add(0, indices, source)


def cumsum_of_rows(x):
    return torch.cumsum(x, -1)


def cumsum_of_columns(x):
    return torch.cumsum(x, 0)


def sort(x):
    values, indices = torch.sort(x)
    return values, indices


def argsort(x):
    return torch.argsort(x)


def topk(x):
    values, indices = torch.topk(x, 50)
    return values, indices


def argmax(x):
    return x.argmax(-1)


def maxpool(x):
    return F.max_pool2d(x, 3, 2, 1)


def avgpool(x):
    return F.avg_pool2d(x, 3, 2, 1)


def rope(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


def swiglu(gate, up):
    return F.silu(gate) * up


def optimizer_step(optimizer):
    optimizer.step()


def upsample(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def sin_cos(x):
    return torch.sin(x) * torch.cos(x)


def linear_gelu(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias))


def conv_relu(x, weight, bias):
    return torch.relu(F.conv2d(x, weight, bias, padding=1))


def add_gelu(x, y):
    return F.gelu(x + y)


def add_biases(x, row, column):
    return x + row + column[:, None]


def batch_statistics(x):
    variance, mean = torch.var_mean(x, (0, 2), correction=0)
    return variance, mean


def cat(x, y):
    return torch.cat((x, y), -1)
