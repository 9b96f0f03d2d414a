"""How what is saved for a backward lies: images channels-last, products with room behind their rows.

    lay_out_saved(forward, backward, num_fwd_outputs, options)

On a GPU the compiler has convolutions of half types, and what is around them, channels-last,
whatever the layout of the caller's tensors; and products whose rows are no whole vectors, as those
over a vocabulary of 50,257, on longer rows. Eager mode never sees what is saved between a forward
and its backward, so both are saved as they lie, and not copied to the layout that the trace has
and back. The copies that are written here are none where Kiln compiles: the compiler gives away
what is copied, laid out as the copy is.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx
from torch._guards import detect_fake_mode

from .fx_export import value_of
from .joint_nodes import call, is_view, storages

_aten = torch.ops.aten
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
PRODUCTS = (_aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default)
_LONG_ROW = 1024  # elements; this and the bytes as in compiler/schedule/pad_rows
_LINE_BYTES, _VECTOR_BYTES = 128, 16


def _goes_channels_last(node: fx.Node) -> bool:
    """Whether the compiler runs a convolution so (compiler/loop/assign_layouts.h)."""
    image = value_of(node.args[0])
    if image.device.type != "cuda" or image.dim() not in _FORMATS:
        return False
    tf32 = torch.backends.cudnn.conv.fp32_precision == "tf32"
    return image.dtype in (torch.float16, torch.bfloat16) or (
        image.dtype == torch.float32 and tf32
    )


def _is_image_product(node: fx.Node) -> bool:
    """Whether the compiler takes a convolution for a product of each image as it lies
    (compiler/loop/image_products.h)."""
    image, weights = value_of(node.args[0]), value_of(node.args[1])
    stride, padding, _, transposed, _, groups = node.args[3:9]
    pixels = image.shape[2:].numel() if all(isinstance(n, int) for n in image.shape[2:]) else 0
    whole = pixels > 0 and pixels * image.element_size() % _VECTOR_BYTES == 0
    one_each = all(n == 1 for n in (*weights.shape[2:], *stride)) and not any(padding)
    return whole and one_each and not transposed and groups == 1


def _rank(node: fx.Node) -> int:
    """Of a node's result, or of the first of its results."""
    value = value_of(node)
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return value.dim() if isinstance(value, torch.Tensor) else 0


def _images(graph: fx.Graph) -> set[fx.Node]:
    """What such a convolution reads or computes, and what has the same rank beside it; nothing
    where one is in groups, or all are products."""
    pending = []
    products = True
    for node in graph.find_nodes(op="call_function", target=_aten.convolution.default):
        if _goes_channels_last(node):
            if node.args[8] != 1:
                return set()
            products = products and _is_image_product(node)
            pending += [node, *node.all_input_nodes]
    images: set[fx.Node] = set()
    if products:
        return images
    while pending:
        node = pending.pop()
        if node in images or node.op != "call_function" or is_view(node):
            continue
        images.add(node)
        beside = [*node.all_input_nodes, *node.users]
        pending += [other for other in beside if _rank(other) == _rank(node)]
    return images


def _is_contiguous(value: object) -> bool:
    """Whether a tensor lies channels-first, and would lie otherwise channels-last."""
    if not isinstance(value, torch.Tensor) or value.dim() not in _FORMATS:
        return False
    return value.is_contiguous() and not value.is_contiguous(memory_format=_FORMATS[value.dim()])


def padded_strides(value: object) -> list[int] | None:
    """The strides of a tensor for tensor cores whose long rows are no whole vectors, each row moved to
    a line of the GPU's caches (compiler/schedule/pad_rows.h); None of all else."""
    if not isinstance(value, torch.Tensor) or value.dim() < 2 or not is_on_tensor_cores(value):
        return None
    if not all(isinstance(size, int) for size in value.size()) or not value.is_contiguous():
        return None
    length = value.size(-1)
    if length <= _LONG_ROW or length * value.element_size() % _VECTOR_BYTES == 0:
        return None
    strides = [1, padded_row(length, value.dtype)]
    for size in reversed(value.size()[1:-1]):
        strides.append(strides[-1] * size)
    return strides[::-1]


def padded_row(length: int, dtype: torch.dtype) -> int:
    """Elements from row to row, so that each begins on a whole vector, long ones on a whole line."""
    step = (_LINE_BYTES if length > _LONG_ROW else _VECTOR_BYTES) // dtype.itemsize
    return -(-length // step) * step


def is_on_tensor_cores(value: torch.Tensor) -> bool:
    if value.device.type != "cuda":
        return False
    tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
    return value.dtype in (torch.float16, torch.bfloat16) or (
        value.dtype == torch.float32 and tf32
    )


def pads_rows_of(options: Mapping[str, object]) -> bool:
    """Whether long rows are padded: not where sizes have to be, which peels none."""
    pads = options["shape_padding"] and options["comprehensive_padding"]
    return bool(pads and not options["force_shape_pad"])


def lay_out_saved(
    forward: fx.GraphModule,
    backward: fx.GraphModule,
    num_fwd_outputs: int,
    options: Mapping[str, object],
) -> None:
    """Changes both. A tensor that is a result or an input as well is saved as it is. ``options``:
    kiln.config's."""
    (output,) = forward.graph.find_nodes(op="output")
    results = list(output.args[0])
    images = _images(forward.graph) if options["layout_optimization"] else set()
    pads = pads_rows_of(options)
    known = [node for node in results[:num_fwd_outputs] if isinstance(node, fx.Node)]
    known += forward.graph.find_nodes(op="placeholder")
    shared = storages(known)
    readers = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    for place, node in enumerate(results[num_fwd_outputs:], num_fwd_outputs):
        if not isinstance(node, fx.Node) or node.name not in readers or storages([node]) & shared:
            continue
        pads_rows = pads and node.target in PRODUCTS
        strides = padded_strides(value_of(node)) if pads_rows else None
        if node in images and _is_contiguous(value_of(node)):
            words = {"memory_format": _FORMATS[value_of(node).dim()]}
            copied = _aten.clone.default, (node,), words
        elif strides is not None:
            copied = torch.ops.prims.copy_strided.default, (node, strides), {}
        else:
            continue
        target, args, words = copied
        with detect_fake_mode([value_of(node)]), forward.graph.inserting_before(output):
            copy = call(forward.graph, node.meta, target, *args, **words)
        results[place] = copy
        reader = readers[node.name]
        reader.meta.pop("tensor_meta", None)
        reader.meta["val"] = value_of(copy)
    output.args = (results,) if isinstance(output.args[0], list) else (tuple(results),)
    forward.recompile()
