"""The contractions that bench/contractions.py measures, as data: products, attention, convolutions.

Inputs are random and of bfloat16 where a name says no type. Shapes are written as they stand in
the name; a product is m x n x k, b x in front of it where there are b of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernel_families import BF16, F32, WITH, Family, Maker

F16 = torch.float16
# TF32 has 10 bits of a float32's fraction, as float16 has.
TF32_TOLERANCE = 1e-2


@dataclasses.dataclass(frozen=True)
class Contraction:
    """A family with the group that it belongs to. `attends`: the first three inputs are query, key
    and value, and a mask may follow."""

    group: str
    family: Family
    tf32: bool = False
    attends: bool = False

    @property
    def name(self) -> str:
        return self.family.name


# Products.


def matmul(a, b):
    return torch.matmul(a, b)


def _operands(*shapes: tuple[int, ...], dtype: torch.dtype = BF16) -> Callable:
    return lambda m: tuple(m.normal(*shape, dtype=dtype) for shape in shapes)


def _turned(*shapes: tuple[int, ...], turn: str, dtype: torch.dtype) -> Callable:
    """Operands of which those whose letter in `turn` is t lie transposed in memory."""

    def make(m: Maker) -> tuple[torch.Tensor, ...]:
        made = []
        for shape, letter in zip(shapes, turn, strict=True):
            turned = (*shape[:-2], shape[-1], shape[-2]) if letter == "t" else shape
            x = m.normal(*turned, dtype=dtype)
            made.append(x.mT if letter == "t" else x)
        return tuple(made)

    return make


def _columns(rows: int, k: int, n: int, dtype: torch.dtype) -> Callable:
    """The left operand is the middle third of the columns of a matrix, as a query is of a QKV."""

    def make(m: Maker) -> tuple[torch.Tensor, torch.Tensor]:
        whole = m.normal(rows, 3, k, dtype=dtype)
        return whole[:, 1], m.normal(k, n, dtype=dtype)

    return make


def _rows_apart(rows: int, k: int, n: int, dtype: torch.dtype) -> Callable:
    """The left operand is every second row of a matrix."""

    def make(m: Maker) -> tuple[torch.Tensor, torch.Tensor]:
        return m.normal(rows, 2, k, dtype=dtype)[:, 0], m.normal(k, n, dtype=dtype)

    return make


def _heads(b: int, heads: int, rows: int, columns: int, width: int, dtype: torch.dtype) -> Callable:
    """q k^T of heads that lie beside each other in memory: [b, rows, heads, width]."""

    def make(m: Maker) -> tuple[torch.Tensor, torch.Tensor]:
        q = m.normal(b, rows, heads, width, dtype=dtype).transpose(1, 2)
        k = m.normal(b, columns, heads, width, dtype=dtype).permute(0, 2, 3, 1)
        return q, k

    return make


_TYPES = {"": BF16, " f16": F16, " f32": F32, " tf32": F32}


def _product(group: str, name: str, kind: str, make: Callable, function=matmul) -> Contraction:
    tf32 = kind == " tf32"
    family = Family(
        f"{name}{kind}", make, function, tolerance=TF32_TOLERANCE if tf32 else 0.0
    )
    return Contraction(group, family, tf32)


def _plain(group: str, words: str, m: int, n: int, k: int, kind: str = "", b: int = 0):
    lead = (b,) if b else ()
    shape = " x ".join(map(str, (*lead, m, n, k)))
    make = _operands((*lead, m, k), (*lead, k, n), dtype=_TYPES[kind])
    return _product(group, f"{words} {shape}", kind, make)


def _transposed(turn: str, m: int, n: int, k: int, kind: str = "", b: int = 0) -> Contraction:
    lead = (b,) if b else ()
    shape = " x ".join(map(str, (*lead, m, n, k)))
    make = _turned((*lead, m, k), (*lead, k, n), turn=turn, dtype=_TYPES[kind])
    return _product("products", f"transposed {turn} {shape}", kind, make)


def _strided(words: str, make: Callable, *sizes: int, kind: str = "") -> Contraction:
    shape = " x ".join(map(str, sizes))
    return _product("products", f"{words} {shape}", kind, make(*sizes, _TYPES[kind]))


PRODUCTS = (
    _plain("products", "square", 512, 512, 512),
    _plain("products", "square", 1024, 1024, 1024),
    _plain("products", "square", 2048, 2048, 2048),
    _plain("products", "square", 4096, 4096, 4096),
    _plain("products", "square", 8192, 8192, 8192),
    _plain("products", "square", 1024, 1024, 1024, " f16"),
    _plain("products", "square", 4096, 4096, 4096, " f16"),
    _plain("products", "square", 1024, 1024, 1024, " tf32"),
    _plain("products", "square", 4096, 4096, 4096, " tf32"),
    _plain("products", "square", 1024, 1024, 1024, " f32"),
    _plain("products", "square", 2048, 2048, 2048, " f32"),
    _plain("products", "tall", 65536, 64, 1024),
    _plain("products", "tall", 32768, 768, 768),
    _plain("products", "tall", 16, 4096, 4096),
    _plain("products", "tall", 65536, 256, 256, " f16"),
    _plain("products", "tall", 32768, 64, 512, " tf32"),
    _plain("products", "tall", 16384, 128, 256, " f32"),
    _plain("products", "small k", 4096, 4096, 8),
    _plain("products", "small k", 4096, 4096, 16),
    _plain("products", "small k", 8192, 4096, 32),
    _plain("products", "small k", 4096, 4096, 64, " f16"),
    _plain("products", "small k", 4096, 4096, 32, " tf32"),
    _plain("products", "small k", 4096, 4096, 16, " f32"),
    _plain("products", "batched", 1024, 1024, 64, b=96),
    _plain("products", "batched", 1024, 64, 1024, b=96),
    _plain("products", "batched", 512, 512, 512, b=64),
    _plain("products", "batched", 128, 128, 128, " f16", b=256),
    _plain("products", "batched", 512, 512, 512, " tf32", b=32),
    _plain("products", "batched", 256, 256, 256, " f32", b=32),
    _transposed("nt", 8192, 3072, 768),
    _transposed("tn", 3072, 768, 8192),
    _transposed("tt", 4096, 1024, 2048),
    _transposed("nt", 4096, 1024, 4096, " f16"),
    _transposed("tn", 2048, 2048, 2048, " tf32"),
    _transposed("nt", 512, 512, 64, b=128),
    _strided("middle third of columns", _columns, 8192, 768, 768),
    _strided("middle third of columns", _columns, 4096, 1024, 1024, kind=" tf32"),
    _strided("every second row", _rows_apart, 4096, 2048, 2048, kind=" f16"),
    _strided("heads inside", _heads, 8, 12, 1024, 1024, 64),
    _strided("heads inside", _heads, 16, 16, 256, 256, 64, kind=" f16"),
)

# Each has a size that is 1 to 7 off a multiple of 8.
ODD = (
    _plain("odd", "n", 4096, 4095, 4096),
    _plain("odd", "n", 8192, 1001, 768),
    _plain("odd", "n", 8192, 50257, 768),
    _plain("odd", "n", 2048, 2045, 2048, " f16"),
    _plain("odd", "n", 4096, 1027, 1024, " tf32"),
    _plain("odd", "k", 4096, 4096, 4097),
    _plain("odd", "k", 2048, 2048, 8190),
    _plain("odd", "k", 8192, 768, 50257),
    _plain("odd", "k", 4096, 1024, 1029, " f16"),
    _plain("odd", "k", 2048, 2048, 2051, " tf32"),
    _plain("odd", "m", 4093, 4096, 4096),
    _plain("odd", "m", 1022, 2048, 4096, " f16"),
    _plain("odd", "all", 1027, 2049, 4099),
    _plain("odd", "all", 2047, 2047, 2047),
    _plain("odd", "batched n", 512, 517, 64, b=96),
    _plain("odd", "batched k", 512, 64, 515, b=96),
)


# Attention.


def attention(
    shape: str, *, causal: bool = False, dropout: float = 0.0, mask: str = "", window: int = 0
) -> tuple[Contraction, Contraction]:
    """Forward, and forward with backward. `shape` is batch x heads x queries x width; heads may be
    HEADS(KEYS' HEADS), queries QUERIES:KEYS. `mask` is "bool" or "added", of the sizes [batch, 1,
    queries, keys]; with a window a query sees so many keys, up to its own place, and all batches share the mask."""
    batch, head_text, lengths, width = shape.split("x")
    heads, _, shared = head_text.rstrip(")").partition("(")
    rows, _, columns = lengths.partition(":")
    sizes = [int(x) for x in (batch, heads, shared or heads, rows, columns or rows, width)]

    def make(m: Maker) -> tuple[torch.Tensor, ...]:
        b, h, h_keys, r, c, d = sizes
        made = [m.normal(b, h, r, d), m.normal(b, h_keys, c, d), m.normal(b, h_keys, c, d)]
        b, r, c = m.size(b), m.size(r), m.size(c)
        if window:
            past = torch.arange(r, device=m.device)[:, None] - torch.arange(c, device=m.device)
            seen = ((past >= 0) & (past < m.size(window)))[None, None]
        elif mask:
            seen = torch.rand(b, 1, r, c, device=m.device) < 0.9
        if mask == "added":
            made.append(torch.zeros(seen.shape, dtype=BF16, device=m.device))
            made[-1].masked_fill_(~seen, -1e4)
        elif mask:
            made.append(seen)
        return tuple(made)

    gqa = bool(shared)

    def attend(q, k, v, mask=None):
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, enable_gqa=gqa
        )

    words = [shape, *(["causal"] if causal else []), *([f"window {window}"] if window else [])]
    words += [f"{mask} mask"] if mask else []
    words += [f"dropout {dropout}"] if dropout else []
    drawn = (lambda inputs, results: "") if dropout else None  # no two draws are equal
    buffers = 1 if mask else 0
    forward = Family(f"{' '.join(words)} fwd", make, attend, check=drawn)
    both = Family(f"{' '.join(words)} fwd+bwd", make, attend, WITH, buffers, check=drawn)
    return tuple(Contraction("attention", family, attends=True) for family in (forward, both))


ATTENTION = (
    # The seven of the profile that the bar names.
    *attention("8x12x1024x64", causal=True),
    *attention("8x12x1024x64", causal=True, dropout=0.1),
    *attention("16x12x512x64", mask="added", dropout=0.1),
    *attention("16x12x512x64", mask="bool"),
    *attention("4x32x4096x128", causal=True),
    *attention("4x32(8)x4096x128", causal=True),
    *attention("64x16x128x64"),
    # Twelve more.
    *attention("4x16x4096x64", mask="bool", window=256),
    *attention("2x16x4096x128", mask="bool", window=1024),
    *attention("8x12x2048x64", mask="added", window=512),
    *attention("2x32(4)x2048x128", causal=True),
    *attention("8x24(8)x1024x64", causal=True),
    *attention("8x12x513:1021x64"),
    *attention("4x16x1023x128", causal=True),
    *attention("2x8x4096:77x64"),
    *attention("8x12x1024x96", causal=True),
    *attention("4x16x2048x96"),
    *attention("4x8x1024x256", causal=True),
    *attention("2x16x2048x256"),
)


# Convolutions.


def _convolution(
    model: str, images: tuple[int, int, int], kernel: int, filters: int, **words
) -> tuple[Contraction, Contraction]:
    """One convolution, by an input of each layout; its weight is channels-last. `images` is their
    count, channels and edge; `words`: stride, padding, depthwise, bias, transposed."""
    count, channels, edge = images
    stride = words.get("stride", 1)
    padding = words.get("padding", kernel // 2 if stride == 1 or kernel % 2 else 0)
    depthwise, transposed = words.get("depthwise", False), words.get("transposed", False)

    def make(layout: torch.memory_format, m: Maker) -> tuple[torch.Tensor, ...]:
        x = m.normal(count, channels, edge, edge).contiguous(memory_format=layout)
        shape = (channels, filters) if transposed else (filters, 1 if depthwise else channels)
        w = m.normal(*shape, kernel, kernel).contiguous(memory_format=torch.channels_last)
        return (x, w, m.normal(filters)) if words.get("bias") else (x, w)

    def convolve(x, w, b=None):
        if transposed:
            return F.conv_transpose2d(x, w, b, stride)
        return F.conv2d(x, w, b, stride, padding, groups=x.shape[1] if depthwise else 1)

    title = f"{model} {kernel}x{kernel} {channels} to {filters} at {edge}"
    title += f" stride {stride}" if stride > 1 else ""
    title += " depthwise" if depthwise else " transposed" if transposed else ""

    def of(layout: torch.memory_format, word: str) -> Contraction:
        family = Family(f"{title} {word}", lambda m: make(layout, m), convolve)
        return Contraction("convolutions", family)

    return of(torch.channels_last, "NHWC"), of(torch.contiguous_format, "NCHW")


CONVOLUTIONS = (
    *_convolution("ResNet-50", (64, 3, 224), 7, 64, stride=2, padding=3),
    *_convolution("ResNet-50", (64, 64, 56), 1, 256),
    *_convolution("ResNet-50", (64, 256, 56), 1, 64),
    *_convolution("ResNet-50", (64, 64, 56), 3, 64),
    *_convolution("ResNet-50", (64, 128, 56), 3, 128, stride=2, padding=1),
    *_convolution("ResNet-50", (64, 256, 56), 1, 512, stride=2),
    *_convolution("ResNet-50", (64, 256, 14), 3, 256),
    *_convolution("ResNet-50", (64, 2048, 7), 1, 512),
    *_convolution("EfficientNet", (64, 3, 224), 3, 32, stride=2, padding=1),
    *_convolution("EfficientNet", (64, 32, 112), 3, 32, depthwise=True),
    *_convolution("EfficientNet", (64, 16, 112), 1, 96),
    *_convolution("EfficientNet", (64, 144, 56), 5, 144, stride=2, padding=2, depthwise=True),
    *_convolution("EfficientNet", (64, 480, 14), 5, 480, depthwise=True),
    *_convolution("EfficientNet", (64, 320, 7), 1, 1280),
    *_convolution("ConvNeXt", (64, 3, 224), 4, 96, stride=4, bias=True),
    *_convolution("ConvNeXt", (64, 96, 56), 7, 96, depthwise=True, bias=True),
    *_convolution("ConvNeXt", (64, 96, 56), 2, 192, stride=2, bias=True),
    *_convolution("ConvNeXt", (64, 384, 14), 7, 384, depthwise=True, bias=True),
    *_convolution("U-Net", (8, 64, 256), 3, 64, bias=True),
    *_convolution("U-Net", (8, 256, 64), 3, 256, bias=True),
    *_convolution("U-Net", (8, 1024, 32), 3, 512, bias=True),
    *_convolution("U-Net", (8, 128, 128), 2, 64, stride=2, transposed=True, bias=True),
    *_convolution("U-Net", (8, 64, 256), 1, 2, bias=True),
)

CONTRACTIONS = (*PRODUCTS, *ODD, *ATTENTION, *CONVOLUTIONS)
