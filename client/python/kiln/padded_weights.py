"""One padded weight for a forward and its backward.

    share_padded_weights(forward, backward, num_fwd_outputs, options)

A product whose sizes or rows are no whole vectors reads a padded copy of its weight, and a linear
layer's weight is read by two products: the layer's, and that of its input's gradient. So the forward
makes the copy, and saves it instead of the weight; neither graph makes another. What is padded is
what the compiler would pad:

  force_shape_pad    the sizes, with zeros (compiler/graph_passes/pad_products.h); both products are
                     written on the padded sizes here, and their results cropped
  shape_padding      the rows of a weight whose rows are no whole vectors, where the products are
                     large enough to pay for it (compiler/schedule/align_contractions.h)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import fx
from torch._guards import detect_fake_mode

from .fx_export import value_of
from .joint_nodes import call, is_view
from .saved_layouts import is_on_tensor_cores, padded_row

_aten = torch.ops.aten
# Of a product, where its factors stand among its arguments.
_FACTORS = {_aten.mm.default: (0, 1), _aten.addmm.default: (1, 2)}
_TRANSPOSES = (_aten.t.default, _aten.permute.default, _aten.transpose.int)
_VECTORS = {torch.float16: 8, torch.bfloat16: 8, torch.float32: 4}
# Multiplications from which on the compiler copies a weight for a product: aligned rows save some
# 20 us then on an H100.
_LEAST_WORK = 1 << 30
_LEAST_SUM = 512  # below it no product over such rows is aligned


class _Lacks(NamedTuple):
    """What the sizes of a product lack to whole vectors."""

    m: int = 0
    k: int = 0
    n: int = 0


def _missing(size: int | torch.SymInt, dtype: torch.dtype) -> int:
    return -size % _VECTORS[dtype] if isinstance(size, int) and size > 1 else 0


def _is_weight(node: fx.Node) -> bool:
    """Whether a node is an input, and a matrix of known sizes whose rows have no gaps."""
    value = value_of(node)
    if node.op != "placeholder" or not isinstance(value, torch.Tensor) or value.dim() != 2:
        return False
    known = all(isinstance(size, int) and size > 0 for size in value.size())
    return known and value.is_contiguous() and value.dtype in _VECTORS


def _is_transpose(node: fx.Node) -> bool:
    return node.target in _TRANSPOSES and is_view(node) and value_of(node).dim() == 2


def _shown(factor: fx.Node) -> tuple[fx.Node, bool]:
    """What a factor shows, and whether transposed."""
    turned = False
    while _is_transpose(factor):
        below = factor.args[0]
        turned ^= value_of(factor).stride() != value_of(below).stride()
        factor = below
    return factor, turned


def _products(matrix: fx.Node) -> Iterator[fx.Node | None]:
    """The products that have the matrix, as it is or transposed, for a factor; None for each other
    reader."""
    for user in matrix.users:
        if _is_transpose(user):
            yield from _products(user)
        elif user.target is _aten.addmm.default and user.args[0] is not matrix:
            yield user
        else:
            yield user if user.target is _aten.mm.default else None


def _factors(product: fx.Node) -> list[fx.Node]:
    return [product.args[place] for place in _FACTORS[product.target]]


def _lacks(product: fx.Node, forced: bool) -> _Lacks:
    if not forced:
        return _Lacks()
    first, second = map(value_of, _factors(product))
    sizes = (*first.size(), second.size(1))
    return _Lacks(*(_missing(size, first.dtype) for size in sizes))


def _work(product: fx.Node) -> int:
    """Its multiplications, at the hints."""
    first, second = map(value_of, _factors(product))
    work = 1
    for size in (*first.size(), second.size(1)):
        work *= size if isinstance(size, int) else size.node.hint or 1
    return work


def _padded(node: fx.Node, rows: int, columns: int) -> fx.Node:
    if rows == 0 and columns == 0:
        return node
    pads = [0, columns, 0, rows]
    return call(node.graph, node.meta, _aten.constant_pad_nd.default, node, pads, 0.0)


def _padded_bias(bias: fx.Node, rows: int, columns: int) -> fx.Node:
    """The bias of an addmm, which may be stretched along what is padded."""
    pads: list[int] = []
    for size, more in zip(reversed(value_of(bias).size()), (columns, rows)):
        pads += [0, 0 if size == 1 else more]
    if not any(pads):
        return bias
    return call(bias.graph, bias.meta, _aten.constant_pad_nd.default, bias, pads, 0.0)


def _turned(node: fx.Node, turned: bool) -> fx.Node:
    return call(node.graph, node.meta, _aten.t.default, node) if turned else node


def _read_padded(product: fx.Node, lacks: _Lacks, matrix: fx.Node, padded: fx.Node) -> None:
    """Has `product` read `padded` instead of `matrix`: on padded sizes, as pad_products writes it.
    The node stays, with its name: it is the product, or what is cropped of it."""
    m, k, n = lacks
    old = _factors(product)
    factors = []
    with product.graph.inserting_before(product):
        for factor, rows, columns in zip(old, (m, k), (k, n)):
            shown, turned = _shown(factor)
            if shown is matrix:
                factors.append(_turned(padded, turned))
            else:
                factors.append(_padded(factor, rows, columns))
        if product.target is _aten.addmm.default:
            factors.insert(0, _padded_bias(product.args[0], m, n))
        if m == 0 and n == 0:
            product.args = tuple(factors)
        else:
            whole = call(product.graph, product.meta, product.target, *factors, **product.kwargs)
            product.target, product.kwargs = _aten.constant_pad_nd.default, {}
            product.args = (whole, [0, -n, 0, -m], 0.0)
    for factor in old:
        while _is_transpose(factor) and not factor.users:
            factor, dead = factor.args[0], factor
            dead.graph.erase_node(dead)


def _pads(weight: fx.Node, products: Iterable[fx.Node], forced: bool) -> bool:
    """Whether the compiler would pad the weight for each of the products."""
    value = value_of(weight)
    if forced:
        return _is_on_cuda(value) and any(_missing(size, value.dtype) for size in value.size())
    return (
        is_on_tensor_cores(value)
        and value.size(1) >= _LEAST_SUM
        and value.size(1) % _VECTORS[value.dtype] != 0
        and all(_work(product) >= _LEAST_WORK for product in products)
    )


def _is_on_cuda(value: torch.Tensor) -> bool:
    return value.device.type == "cuda"


def _pad(weight: fx.Node, forced: bool) -> fx.Node:
    """The padded weight, where the graph inserts."""
    value = value_of(weight)
    if forced:
        return _padded(weight, *(_missing(size, value.dtype) for size in value.size()))
    strides = [padded_row(value.size(1), value.dtype), 1]
    copy = torch.ops.prims.copy_strided.default
    return call(weight.graph, weight.meta, copy, weight, strides)


def share_padded_weights(
    forward: fx.GraphModule,
    backward: fx.GraphModule,
    num_fwd_outputs: int,
    options: Mapping[str, object],
) -> None:
    """Changes both. ``options``: kiln.config's."""
    forced = options["force_shape_pad"]
    if not options["shape_padding"] or not (forced or options["comprehensive_padding"]):
        return
    (output,) = forward.graph.find_nodes(op="output")
    results = list(output.args[0])
    readers = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    order = {node: place for place, node in enumerate(forward.graph.nodes)}
    for place, saved in enumerate(results[num_fwd_outputs:], num_fwd_outputs):
        if not isinstance(saved, fx.Node) or saved.name not in readers:
            continue
        weight, turned = _shown(saved)
        reader = readers[saved.name]
        if not _is_weight(weight):
            continue
        ahead = [product for product in dict.fromkeys(_products(weight)) if product is not None]
        behind = list(dict.fromkeys(_products(reader)))
        if not ahead or not behind or None in behind or not _pads(weight, ahead + behind, forced):
            continue
        lacks = {product: _lacks(product, forced) for product in (*ahead, *behind)}
        with detect_fake_mode([value_of(weight)]):
            with forward.graph.inserting_before(min(ahead, key=order.__getitem__)):
                padded = _pad(weight, forced)
                results[place] = _turned(padded, turned)
            reader.meta.pop("tensor_meta", None)
            for product in ahead:
                _read_padded(product, lacks[product], weight, padded)
            output.args = (results,) if isinstance(output.args[0], list) else (tuple(results),)
            reader.meta["val"] = value_of(results[place])
            for product in behind:
                _read_padded(product, lacks[product], reader, reader)
    forward.recompile()
    backward.recompile()
