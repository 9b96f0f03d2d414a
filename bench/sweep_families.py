"""The families of kernel_families.GPU at any size, for kernel_sweep.

A family has the lengths that fit it: rows of numbers have 64 to 262,144, images are 7 to 512 points
wide, a vocabulary has thousands of words, a model's parameter a million elements. A point takes one
length and a count of rows of that length, which the family makes into its sizes: the rows of a
matrix, the samples and channels of images, the heads and tokens of rope.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

import kernel_families as k
import kernel_functions as f
from kernel_families import ALONE, WITH, Family, Maker

DTYPES = {"float32": 4, "float16": 2, "bfloat16": 2}
LEAST_BYTES, MOST_BYTES, MOST_ROWS = 1e6, 512e6, 1_000_000
LENGTHS = (
    *(64, 100, 127, 256, 768, 1000, 1024, 2047, 4096, 5000, 8192, 11008, 16384, 32000),
    *(50257, 65536, 131072, 262144),
)
HIDDEN = (64, 100, 127, 256, 768, 1000, 1024, 1280, 2047, 4096, 5000, 8192)
VOCABULARIES = (2047, 4096, 5000, 8192, 16384, 32000, 50257, 65536, 128256, 151936, 262144)
SIDES = (7, 14, 15, 28, 31, 56, 65, 100, 112, 128, 224, 299, 512)
HEADS = (64, 80, 96, 128, 256)
PARAMETERS = (65536, 262144, 524288, 589824, 1_000_003, 2_359_296, 7_077_888, 16_777_216)
CHANNELS = (3, 16, 32, 64, 100, 128, 255, 256, 320, 512, 1024, 2048)
# Multiples of the groups, also where tests divide the sizes.
GROUPED_CHANNELS = (32, 64, 96, 128, 256, 320, 512, 640, 960, 1280)
MOST_SAMPLES = 1024
# The compiles of a step with n parameters take n times as long as those of one.
LEAST_PARAMETERS, MOST_PARAMETERS = 4, 24
# How many indices name a row of an embedding's table, at most, in the mean.
MOST_REPEATS = 32


# The sizes of a family by (draw, count, length, bytes of an element).


def _rows(_: random.Random, count: int, length: int, __: int) -> tuple[int, ...]:
    return count, length


def _elements(_: random.Random, count: int, length: int, __: int) -> tuple[int, ...]:
    return (count * length,)


def _table_sizes(draw: random.Random, count: int, length: int, itemsize: int) -> tuple[int, ...]:
    """Of a table and the number of indices. Each of its rows is named a few times."""
    least = max(1000, count // MOST_REPEATS)
    most = max(least, min(131072, int(MOST_BYTES / (length * itemsize))))
    return _between(draw, least, most), length, count


def _image_sizes(
    draw: random.Random, count: int, side: int, _: int, channels: Sequence[int] = CHANNELS
) -> tuple[int, ...]:
    """Samples and channels, whose product is about the count, of square images."""
    fitting = [c for c in channels if c <= count <= c * MOST_SAMPLES]
    chosen = draw.choice(fitting or [channels[0] if count < channels[0] else channels[-1]])
    return max(1, round(count / chosen)), chosen, side, side


def _rope_sizes(draw: random.Random, count: int, length: int, _: int) -> tuple[int, ...]:
    """Samples, heads, tokens and the size of a head."""
    heads = draw.choice((8, 12, 32))
    tokens = draw.choice([n for n in (128, 1000, 2048, 4096) if n * heads <= count] or [128])
    return max(1, round(count / (heads * tokens))), heads, tokens, length


def _between(draw: random.Random, least: float, most: float) -> int:
    """Evenly by the logarithm."""
    return round(math.exp(draw.uniform(math.log(least), math.log(most))))


@dataclasses.dataclass(frozen=True)
class Swept:
    """A family of any size. `make` gives the maker of the inputs for sizes and a dtype; `facts` are
    further fields of the Family."""

    make: Callable
    function: Callable
    backward: str = ""
    sizes: Callable[[random.Random, int, int, int], tuple[int, ...]] = _rows
    lengths: tuple[int, ...] = LENGTHS
    elements: Callable[[int], int] = int  # those of a row of a length
    least_count: int = 1
    most_count: int = MOST_ROWS
    dtypes: tuple[str, ...] = tuple(DTYPES)
    symbolic: bool = True  # whether sizes may be symbols
    counted: int = 0  # the input whose first size is the symbol where only one is
    facts: Mapping = dataclasses.field(default_factory=dict)

    def draw_sizes(self, draw: random.Random, length: int, dtype: str) -> tuple[int, ...]:
        """The count is taken evenly by the logarithm, so that the main tensor is neither tiny nor
        huge."""
        itemsize = DTYPES[dtype]
        row = itemsize * self.elements(length)
        least = max(float(self.least_count), LEAST_BYTES / row)
        count = _between(draw, least, min(self.most_count, MOST_BYTES / row))
        return self.sizes(draw, count, length, itemsize)


def sweep_family(name: str, sizes: Sequence[int], dtype: torch.dtype) -> Family:
    """A family of SWEEP at one size."""
    swept = SWEEP[name]
    title = f"{name} {' x '.join(map(str, sizes))} {str(dtype).removeprefix('torch.')}"
    make = swept.make(*sizes, dtype=dtype)
    return Family(title, make, swept.function, swept.backward, **swept.facts)


# Makers of inputs, and a check.


def _transposable(rows: int, length: int, dtype: torch.dtype) -> Callable:
    return k.normals((rows, length), (length, rows), dtype=dtype)


def _biased(rows: int, length: int, dtype: torch.dtype) -> Callable:
    return k.normals((rows, length), (length,), (rows,), dtype=dtype)


def _bias_residual(rows: int, length: int, dtype: torch.dtype) -> Callable:
    return k.normals((rows, length), (length,), (rows, length), dtype=dtype)


def _channels(rows: int, length: int, dtype: torch.dtype) -> Callable:
    """Some 64 channels, each of `length` contiguous elements a sample."""
    channels = min(rows, 64)
    return k.normals((rows // channels, channels, length), dtype=dtype)


def _pair(elements: int, dtype: torch.dtype) -> Callable:
    return k.normals((elements,), (elements,), dtype=dtype)


def _one(*sizes: int, dtype: torch.dtype) -> Callable:
    return k.normals(sizes, dtype=dtype)


def _four(rows: int, length: int, dtype: torch.dtype) -> Callable:
    return k.normals(*4 * [(rows, length)], dtype=dtype)


def _groupnorm_inputs(*sizes: int, dtype, memory_format=torch.contiguous_format) -> Callable:
    def make(m: Maker) -> tuple:
        x, *scales = k.normals(sizes, (sizes[1],), (sizes[1],), dtype=dtype)(m)
        return x.contiguous(memory_format=memory_format), *scales

    return make


def _index_add_inputs(words: int, length: int, indices: int, dtype: torch.dtype) -> Callable:
    return lambda m: (
        *k.table(words, length, indices, dtype)(m), m.normal(indices, length, dtype=dtype)
    )  # fmt: skip


def _rope_inputs(*sizes: int, dtype: torch.dtype) -> Callable:
    return k.normals(sizes, sizes[2:], sizes[2:], dtype=dtype)


def _check_argsort(inputs: tuple, results: tuple) -> str:
    """Of equal values any may come first."""
    (x,), (indices,) = inputs, results
    if not torch.equal(x.gather(-1, indices), x.sort().values):
        return "indices do not sort the values"
    places = torch.arange(x.shape[-1], device=x.device).expand_as(indices)
    return "" if torch.equal(indices.sort().values, places) else "an index is named twice"


_LAST = torch.channels_last
_IMAGES = dict(sizes=_image_sizes, lengths=SIDES, elements=lambda side: side * side)
_GROUPED = {**_IMAGES, "sizes": partial(_image_sizes, channels=GROUPED_CHANNELS)}
_BUFFERS = {**_IMAGES, "facts": dict(buffers=2)}
_TABLE = dict(sizes=_table_sizes, lengths=HIDDEN, counted=1)
SWEEP = {
    "pointwise chain": Swept(_pair, f.chain, sizes=_elements),
    "add+gelu": Swept(k.twice, f.add_gelu),
    "bias add": Swept(_biased, f.add_biases),
    "bias+gelu": Swept(k.scaled, f.bias_gelu),
    "bias+gelu bwd": Swept(k.scaled, f.bias_gelu, ALONE),
    "bias+dropout+residual": Swept(
        _bias_residual, f.bias_dropout_residual, facts=dict(check=k.check_dropout)
    ),
    "swiglu": Swept(k.twice, f.swiglu),
    "rope": Swept(_rope_inputs, f.rope, sizes=_rope_sizes, lengths=HEADS),
    "transpose add": Swept(_transposable, f.add_transposed),
    "transpose copy": Swept(k.matrix, f.transposed_copy),
    "permute to channels-last": Swept(_one, f.to_channels_last, **_IMAGES),
    "cat": Swept(k.twice, f.cat),
    "cat+relu": Swept(_four, f.cat_relu, elements=lambda length: 4 * length),
    "layernorm": Swept(k.norm_inputs, f.layernorm),
    "layernorm bwd": Swept(k.norm_inputs, f.layernorm, ALONE),
    "layernorm fwd+bwd": Swept(k.norm_inputs, f.layernorm, WITH),
    "rmsnorm": Swept(k.scaled, f.rmsnorm),
    "rmsnorm fwd+bwd": Swept(k.scaled, f.rmsnorm, WITH),
    "softmax": Swept(k.matrix, f.softmax),
    "softmax fwd+bwd": Swept(k.matrix, f.softmax, WITH, facts=dict(saved=k.saves_output)),
    "log_softmax": Swept(k.matrix, f.log_softmax),
    "cross entropy": Swept(k.logits, f.cross_entropy),
    "cross entropy fwd+bwd": Swept(k.logits, f.cross_entropy, WITH),
    "row sum": Swept(k.matrix, f.row_sum),
    "column sum": Swept(k.matrix, f.column_sum),
    "full sum": Swept(_one, f.full_sum, sizes=_elements),
    "argmax": Swept(k.matrix, f.argmax),
    "batch statistics": Swept(_channels, f.batch_statistics),
    "batchnorm": Swept(k.batchnorm_inputs, f.batchnorm, **_IMAGES),
    "batchnorm fwd+bwd": Swept(k.batchnorm_inputs, f.batchnorm, WITH, **_BUFFERS),
    "batchnorm channels-last fwd+bwd": Swept(
        partial(k.batchnorm_inputs, memory_format=_LAST), f.batchnorm, WITH, **_BUFFERS
    ),
    "groupnorm": Swept(_groupnorm_inputs, f.groupnorm, **_GROUPED),
    "groupnorm fwd+bwd": Swept(_groupnorm_inputs, f.groupnorm, WITH, **_GROUPED),
    "groupnorm channels-last fwd+bwd": Swept(
        partial(_groupnorm_inputs, memory_format=_LAST), f.groupnorm, WITH, **_GROUPED
    ),
    "embedding": Swept(k.table, f.embedding, **_TABLE, facts=dict(traffic=k.gather_traffic)),
    "embedding bwd": Swept(
        k.table, f.embedding, ALONE, **_TABLE, facts=dict(irregular=True, saved=k.saves_indices)
    ),
    "index_add": Swept(_index_add_inputs, f.index_add, **_TABLE, facts=dict(irregular=True)),
    "cumsum": Swept(k.matrix, f.cumsum_of_rows, facts=dict(irregular=True)),
    "sort": Swept(k.matrix, f.sort, facts=k.ORDER),
    "argsort": Swept(k.matrix, f.argsort, facts=dict(irregular=True, check=_check_argsort)),
    "topk": Swept(k.matrix, f.topk, lengths=VOCABULARIES, facts=k.ORDER),
    "maxpool": Swept(_one, f.maxpool, **_IMAGES),
    "maxpool bwd": Swept(_one, f.maxpool, ALONE, **_IMAGES),
    "avgpool": Swept(_one, f.avgpool, **_IMAGES),
    "avgpool bwd": Swept(_one, f.avgpool, ALONE, **_IMAGES),
    "AdamW": Swept(
        k.adamw, f.optimizer_step, lengths=PARAMETERS, least_count=LEAST_PARAMETERS,
        most_count=MOST_PARAMETERS, dtypes=("float32", "bfloat16"), symbolic=False,
        facts=dict(traffic=k.adamw_traffic, state=k.adamw_state),
    ),
}  # fmt: skip
