"""The kernel families that the benchmarks measure, as data.

GPU has those of training on a GPU, without products, attention and convolution; CPU has those of
the CPU. sweep_families has the same at any size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch

import kernel_functions as f

BF16, F32 = torch.bfloat16, torch.float32
# A family's backward: in the timed call after the forward, or timed alone.
WITH, ALONE = "with", "alone"
MI = 2**20


class Maker:
    """Makes inputs on a device. `tiny` divides all sizes, for tests."""

    def __init__(self, device: str, tiny: bool = False) -> None:
        self.device, self._tiny = device, tiny

    def size(self, size: int) -> int:
        return size if size <= 8 or not self._tiny else max(8, size // 40)

    def normal(self, *sizes: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        return torch.randn(*map(self.size, sizes), dtype=dtype, device=self.device)

    def indices(self, limit: int, *sizes: int) -> torch.Tensor:
        return torch.randint(0, self.size(limit), [*map(self.size, sizes)], device=self.device)


@dataclasses.dataclass(frozen=True)
class Family:
    """`make` gives the inputs of `function`. A family with a backward differentiates by all inputs
    in floating point but the last `buffers`."""

    name: str
    make: Callable[[Maker], Sequence]
    function: Callable
    backward: str = ""  # or WITH, ALONE
    buffers: int = 0
    irregular: bool = False  # scans, sorts and scatters, of which no share of a copy is expected
    # (inputs, output) -> what the backward reads beside the gradient; all inputs if None.
    saved: Callable | None = None
    # (inputs, results) -> bytes, where it is not the size of all inputs and outputs.
    traffic: Callable | None = None
    # (inputs, results) -> what is wrong with the results, where they cannot be compared one by one.
    check: Callable | None = None
    tolerance: float = 0.0  # of the results, where it is larger than that of their type
    # (*inputs) -> tensors that a call changes: the results, of a function that returns none.
    state: Callable | None = None


def nbytes(*tensors: torch.Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


# Inputs of several families.


def normals(*shapes: tuple[int, ...], dtype: torch.dtype = BF16) -> Callable:
    return lambda m: tuple(m.normal(*shape, dtype=dtype) for shape in shapes)


def norm_inputs(rows: int, length: int, dtype: torch.dtype = BF16) -> Callable:
    return normals((rows, length), (length,), (length,), dtype=dtype)


def scaled(rows: int, length: int, dtype: torch.dtype = BF16) -> Callable:
    return normals((rows, length), (length,), dtype=dtype)


def matrix(rows: int, length: int, dtype: torch.dtype = BF16) -> Callable:
    return normals((rows, length), dtype=dtype)


def twice(rows: int, length: int, dtype: torch.dtype = BF16) -> Callable:
    return normals((rows, length), (rows, length), dtype=dtype)


def logits(rows: int, classes: int, dtype: torch.dtype = BF16) -> Callable:
    return lambda m: (m.normal(rows, classes, dtype=dtype), m.indices(classes, rows))


def table(words: int, length: int, indices: int, dtype: torch.dtype = BF16) -> Callable:
    return lambda m: (m.normal(words, length, dtype=dtype), m.indices(words, indices))


def batchnorm_inputs(*sizes: int, dtype=BF16, memory_format=torch.contiguous_format) -> Callable:
    """Weights and running statistics are float32, as under autocast."""

    def make(m: Maker) -> tuple:
        x = m.normal(*sizes, dtype=dtype).contiguous(memory_format=memory_format)
        weight, bias = normals((sizes[1],), (sizes[1],), dtype=F32)(m)
        return x, weight, bias, torch.zeros_like(weight), torch.ones_like(weight)

    return make


def adamw(count: int, length: int, dtype: torch.dtype = F32) -> Callable:
    """An optimizer of `count` parameters that has made a step. On a GPU its numbers are tensors
    there, so that a compiled step neither waits for the host nor is compiled again for another
    learning rate."""

    def make(m: Maker) -> tuple:
        parameters = [m.normal(length, dtype=dtype) for _ in range(m.size(count))]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        gpu = m.device == "cuda"
        rate = torch.tensor(0.1, device=m.device) if gpu else 0.1
        optimizer = torch.optim.AdamW(parameters, lr=rate, foreach=True, capturable=gpu)
        optimizer.step()
        return (optimizer,)

    return make


def adamw_state(optimizer: torch.optim.Optimizer) -> tuple:
    parameters = optimizer.param_groups[0]["params"]
    moments = [optimizer.state[p][n] for p in parameters for n in ("exp_avg", "exp_avg_sq")]
    return (*parameters, *moments)


# What is read and written where that is not all inputs and outputs; checks.


def gather_traffic(inputs: tuple, results: tuple) -> int:
    return 2 * nbytes(results[0]) + nbytes(inputs[1])


def adamw_traffic(_: tuple, results: tuple) -> int:
    """Each of a parameter and its two moments is read and written, its gradient read."""
    return 2 * nbytes(*results) + nbytes(*results) // 3


def check_order(inputs: tuple, results: tuple) -> str:
    """Of sort and topk: the values are exact; of equal values any may be named."""
    values, indices = results
    (x,) = inputs
    expected = x.sort().values if values.shape == x.shape else x.topk(values.shape[-1]).values
    if not torch.equal(values, expected):
        return "values are not eager mode's"
    return "" if torch.equal(x.gather(-1, indices), values) else "indices do not name the values"


def check_dropout(inputs: tuple, results: tuple) -> str:
    """Each element is dropped or kept and scaled, and the right share of them is dropped."""
    x, bias, residual = (t.float() for t in inputs)
    kept = (x + bias) / (1 - f.DROPOUT) + residual
    far, near = (results[0].float() - kept).abs(), (results[0].float() - residual).abs()
    error = (torch.minimum(far, near).norm() / kept.norm()).item()
    share = (near < far).float().mean().item()
    if not error <= 1e-2:
        return f"relative error {error:.1e}, allowed 1e-02"
    spread = 5 * (f.DROPOUT * (1 - f.DROPOUT) / kept.numel()) ** 0.5
    # Rounded to bf16, the elements near zero look the same dropped and kept.
    if abs(share - f.DROPOUT) > spread + 0.005:
        return f"{share:.3f} of the elements are dropped, expected {f.DROPOUT}"
    return ""


def saves_output(_: tuple, output: torch.Tensor) -> tuple:
    return (output,)


def saves_indices(inputs: tuple, _: torch.Tensor) -> tuple:
    return (inputs[1],)


ORDER = dict(irregular=True, check=check_order)
_BATCH = (64, 256, 56, 56)
_LAST = torch.channels_last
GPU = (
    Family("pointwise chain f32 64M", normals((64 * MI,), (64 * MI,), dtype=F32), f.chain),
    Family("pointwise chain bf16 64M", normals((64 * MI,), (64 * MI,)), f.chain),
    Family("x + y.T 8k bf16", twice(8192, 8192), f.add_transposed),
    Family("transpose copy 8k f32", matrix(8192, 8192, F32), f.transposed_copy),
    Family("permute NCHW->NHWC bf16", normals(_BATCH), f.to_channels_last),
    Family("bias+gelu 16k x 3072", scaled(16384, 3072), f.bias_gelu),
    Family("bias+gelu bwd 16k x 3072", scaled(16384, 3072), f.bias_gelu, ALONE),
    Family(
        "bias+dropout+residual", normals((16384, 3072), (3072,), (16384, 3072)),
        f.bias_dropout_residual, check=check_dropout,
    ),
    Family("layernorm 32k x 4k", norm_inputs(32768, 4096), f.layernorm),
    Family("layernorm fwd+bwd 32k x 4k", norm_inputs(32768, 4096), f.layernorm, WITH),
    Family("layernorm 262k x 768", norm_inputs(262144, 768), f.layernorm),
    Family("layernorm fwd+bwd 65k x 768", norm_inputs(65536, 768), f.layernorm, WITH),
    Family("rmsnorm fwd+bwd 32k x 4k", scaled(32768, 4096), f.rmsnorm, WITH),
    Family("softmax 32k x 4k", matrix(32768, 4096), f.softmax),
    Family("softmax fwd+bwd 32k x 4k", matrix(32768, 4096), f.softmax, WITH, saved=saves_output),
    Family("log_softmax 8k x 50257", matrix(8192, 50257), f.log_softmax),
    Family("cross entropy 16k x 32000", logits(16384, 32000), f.cross_entropy),
    Family("cross entropy fwd+bwd 8k x 50257", logits(8192, 50257), f.cross_entropy, WITH),
    Family("row sum 32k x 4k bf16", matrix(32768, 4096), f.row_sum),
    Family("row sum 64 x 4M f32", matrix(64, 4 * MI, F32), f.row_sum),
    Family("col sum 32k x 4k bf16", matrix(32768, 4096), f.column_sum),
    Family("col sum 8k x 768 bf16", matrix(8192, 768), f.column_sum),
    Family("full sum 256M f32", normals((256 * MI,), dtype=F32), f.full_sum),
    Family("batchnorm train fwd 64x256x56x56", batchnorm_inputs(*_BATCH), f.batchnorm),
    Family("batchnorm train fwd+bwd", batchnorm_inputs(*_BATCH), f.batchnorm, WITH, buffers=2),
    Family(
        "batchnorm channels-last bf16 fwd+bwd", batchnorm_inputs(*_BATCH, memory_format=_LAST),
        f.batchnorm, WITH, buffers=2,
    ),
    Family("groupnorm 32x320x64x64", normals((32, 320, 64, 64), (320,), (320,)), f.groupnorm),
    Family("cat 4 x 16M + relu", normals(*4 * [(4096, 4096)]), f.cat_relu),
    Family(
        "embedding 50257x768, 64k", table(50257, 768, 65536), f.embedding, traffic=gather_traffic
    ),
    Family(
        "embedding bwd", table(50257, 768, 65536),
        f.embedding, ALONE, irregular=True, saved=saves_indices,
    ),
    Family(
        "index_add 64k x 768",
        lambda m: (m.normal(50257, 768), m.indices(50257, 65536), m.normal(65536, 768)),
        f.index_add, irregular=True,
    ),
    Family("cumsum 4k x 8k f32", matrix(4096, 8192, F32), f.cumsum_of_rows, irregular=True),
    Family("sort 4k x 8k f32", matrix(4096, 8192, F32), f.sort, **ORDER),
    Family("topk 4k x 32000", matrix(4096, 32000), f.topk, **ORDER),
    Family("argmax 8k x 50257", matrix(8192, 50257), f.argmax),
    Family("maxpool 64x64x112x112", normals((64, 64, 112, 112)), f.maxpool),
    Family("rope 4x32x4096x128", normals((4, 32, 4096, 128), *2 * [(4096, 128)]), f.rope),
    Family("swiglu 16k x 11008", twice(16384, 11008), f.swiglu),
    Family(
        "AdamW foreach, 100 parameters of 512 K f32", adamw(100, 512 * 1024),
        f.optimizer_step, traffic=adamw_traffic, state=adamw_state,
    ),
)  # fmt: skip

_SQUARE = matrix(4096, 4096, F32)
_IMAGES = (16, 64, 128, 128)
CPU = (
    Family("layernorm", norm_inputs(4096, 4096, F32), f.layernorm),
    Family("softmax", _SQUARE, f.softmax),
    Family(
        "embedding bwd", table(4096, 4096, 4096, F32),
        f.embedding, ALONE, irregular=True, saved=saves_indices,
    ),
    Family("column sum", _SQUARE, f.column_sum),
    Family("tanh-gelu", _SQUARE, f.tanh_gelu),
    Family("cumsum of columns", _SQUARE, f.cumsum_of_columns, irregular=True),
    Family("bilinear upsampling", normals((16, 64, 64, 64), dtype=F32), f.upsample),
    Family("sort of rows of 512", matrix(32768, 512, F32), f.sort, **ORDER),
    Family("x + x.T", _SQUARE, f.add_own_transpose),
    Family("embedding", table(4096, 4096, 4096, F32), f.embedding, traffic=gather_traffic),
    Family("sin cos", _SQUARE, f.sin_cos),
    Family("row sum", _SQUARE, f.row_sum),
    Family(
        "linear + gelu", normals((4096, 4096), (4096, 4096), (4096,), dtype=F32), f.linear_gelu
    ),
    Family("gelu bwd", _SQUARE, f.gelu, ALONE),
    Family("max pool", normals(_IMAGES, dtype=F32), f.maxpool),
    Family("layernorm fwd+bwd", norm_inputs(4096, 4096, F32), f.layernorm, WITH),
    Family(
        "conv 3x3 + relu 16x64x56x56",
        normals((16, 64, 56, 56), (64, 64, 3, 3), (64,), dtype=F32), f.conv_relu,
    ),
    Family(
        "batchnorm fwd+bwd", batchnorm_inputs(*_IMAGES, dtype=F32), f.batchnorm, WITH, buffers=2
    ),
    Family("cumsum of rows", _SQUARE, f.cumsum_of_rows, irregular=True),
    Family("cross entropy fwd+bwd", logits(4096, 4096, F32), f.cross_entropy, WITH),
    Family("argmax", _SQUARE, f.argmax),
)  # fmt: skip
