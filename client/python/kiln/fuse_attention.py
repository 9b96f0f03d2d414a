"""Attention that is written by hand, as PyTorch's own operator, which has fused kernels.

    fuse_attention(module)    # of Dynamo's graph, before autograd

A product that alone reads a softmax, which alone reads a product (with a scale, a mask and a
dropout between, and casts to float32 and back), is ``scaled_dot_product_attention``. Where that
operator gives a row that sees nothing 0, what was written by hand gives it NaN or the mean of all
values: so does what is put in its place, but for dropout in such a mean.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .counters import counters
from .traced_nodes import equal_sizes, may_write, value_of

_HALF = (torch.float16, torch.bfloat16)
# A score that is filled with as little, by the type of the operands, has weight 0 beside one that is
# seen: of float32 and bfloat16 -1e4 may be more than such a score, of float16 hardly any is as low.
_FAR = {torch.float32: -1e9, torch.bfloat16: -1e9, torch.float16: -1e4}
_FAR_OF_HALF = -1e4  # which models write for float16, and run in bfloat16 too
# A scale that float32 has with all its digits.
_TINY, _HUGE = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max
_WIDEST, _WIDTH_STEP = 256, 8  # of a head, of fused kernels on a GPU

_PRODUCTS = (torch.matmul, torch.bmm, operator.matmul, "matmul", "bmm", "__matmul__")
_SOFTMAXES = (F.softmax, torch.softmax, "softmax")
_SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")
_TIMES = (operator.mul, operator.imul, torch.mul, "mul", "mul_")
_QUOTIENTS = (operator.truediv, operator.itruediv, torch.div, torch.true_divide, "div", "div_")
_FILLS = (torch.masked_fill, "masked_fill", "masked_fill_")
_CASTS = ("to", "float", "type", "type_as", "half", "bfloat16")
_MOVES = ("transpose", torch.transpose, "permute", torch.permute)
_JOINS = ("reshape", torch.reshape, "flatten", torch.flatten)
_AUTOCAST = (torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast)


class _Mask(NamedTuple):
    node: fx.Node  # what applies it to scores
    tensor: fx.Node
    kind: str  # "added", or what a bool says of an element: "seen", "hidden"
    fill: float = -math.inf  # what a hidden score becomes


class _Attention(NamedTuple):
    query: fx.Node
    key: fx.Node  # transposed: [.., width, keys]
    value: fx.Node
    scale: float
    mask: _Mask | None
    dropout: float
    softmax: fx.Node
    chain: list[fx.Node]  # from the last product to the first


def _is(node: object, targets: tuple) -> bool:
    return isinstance(node, fx.Node) and node.op in ("call_function", "call_method") and node.target in targets


def _number(x: object) -> bool:
    if isinstance(x, int):
        return not isinstance(x, bool) and abs(x) <= sys.float_info.max
    return isinstance(x, float)


def _plain(node: fx.Node, words: tuple[str, ...] = ()) -> bool:
    """Whether it is called without words but `words`."""
    return not set(node.kwargs) - set(words)


def _writes_at_most(node: fx.Node, scores: object) -> bool:
    """Whether what a node writes to, if it writes, is the scores, which it alone reads."""
    return not may_write(node) or node.args[0] is scores


def _cast(node: object) -> fx.Node | None:
    """What a node is, in another floating type."""
    if not _is(node, _CASTS) or value_of(node) is None or not node.args:
        return None
    before, after = value_of(node.args[0]), value_of(node)
    if before is None or before.device != after.device or not after.is_floating_point():
        return None
    return node.args[0] if before.is_floating_point() and equal_sizes(before, after) else None


def _dropout(node: object) -> tuple[fx.Node, float] | None:
    """What a node drops parts of, and with what probability."""
    if not _is(node, (F.dropout, torch.dropout)):
        return None
    names = ("input", "p", "training", "inplace") if node.target is F.dropout else ("input", "p", "train")
    given = dict(zip(names, node.args)) | node.kwargs
    p, training = given.get("p", 0.5), given.get("training", given.get("train", True))
    if not _number(p) or not isinstance(training, bool) or not 0 <= p < 1:
        return None
    return given["input"], float(p) if training else 0.0


def _softmaxed(node: object) -> fx.Node | None:
    """What a node is the softmax of, by its last dimension."""
    if not _is(node, _SOFTMAXES) or not _plain(node, ("dim", "dtype", "_stacklevel")):
        return None
    dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    value = value_of(node)
    last = value is not None and dim in (-1, value.dim() - 1)
    return node.args[0] if last and isinstance(node.args[0], fx.Node) else None


def _scaled(node: object) -> tuple[fx.Node, float] | None:
    if _is(node, _TIMES) and _plain(node) and len(node.args) == 2:
        for x, factor in (node.args, node.args[::-1]):
            if isinstance(x, fx.Node) and _number(factor) and _writes_at_most(node, x):
                return x, float(factor)
    if _is(node, _QUOTIENTS) and _plain(node) and len(node.args) == 2:
        x, divisor = node.args
        if isinstance(x, fx.Node) and _number(divisor) and divisor != 0 and _writes_at_most(node, x):
            return x, 1 / divisor
    return None


def _rounded(number: float, dtype: torch.dtype) -> float:
    return torch.tensor(number, dtype=torch.float64).to(dtype).item()


def _constant(x: object) -> object:
    """A number that stands in a graph as a tensor of no dimensions."""
    is_full = _is(x, (torch.full,)) and len(x.args) == 2 and len(x.args[0]) == 0
    if not is_full or not _number(x.args[1]) or value_of(x) is None:
        return x
    return _rounded(x.args[1], value_of(x).dtype)


def _filled(node: object) -> tuple[fx.Node, _Mask] | None:
    """The scores of which a bool hides some."""
    if _is(node, _FILLS) and _plain(node) and len(node.args) == 3:
        scores, hidden, fill = node.args
        mask = _Mask(node, hidden, "hidden", _constant(fill))
    elif _is(node, (torch.where,)) and _plain(node) and len(node.args) == 3:
        seen, scores, fill = node.args
        mask = _Mask(node, seen, "seen", _constant(fill))
    else:
        return None
    given = value_of(mask.tensor)
    if not _number(mask.fill) or given is None or given.dtype != torch.bool:
        return None
    return scores, mask


def _masked(node: object) -> Iterator[tuple[fx.Node, _Mask]]:
    """The ways to read a node as scores with a mask."""
    filled = _filled(node)
    if filled is not None:
        yield filled
    if _is(node, _SUMS) and _plain(node) and len(node.args) == 2:
        for scores, added in (node.args, node.args[::-1]):
            both_known = value_of(scores) is not None and value_of(added) is not None
            if both_known and _writes_at_most(node, scores):
                yield scores, _Mask(node, added, "added")


def _product(node: object) -> tuple[fx.Node, fx.Node] | None:
    if not _is(node, _PRODUCTS) or not _plain(node) or len(node.args) != 2:
        return None
    a, b = (value_of(x) for x in node.args)
    if a is None or b is None or a.dim() not in (3, 4) or a.dim() != b.dim():
        return None
    return node.args if all(statically_known_true(i == j) for i, j in zip(a.shape[:-2], b.shape[:-2])) else None


def _without_casts(node: object, chain: list[fx.Node]) -> object:
    while (before := _cast(node)) is not None:
        chain.append(node)
        node = before
    return node


def _product_of(factors: list[float]) -> float | None:
    """Of factors from the last to the first. None where what was multiplied by some of them may be
    none of float32's numbers, or lose digits, while the product of all is."""
    scale = 1.0
    for factor in reversed(factors):
        scale *= factor
        if not _TINY <= abs(scale) <= _HUGE:
            return None
    return scale


def _scores(node: object, mask: _Mask | None, chain: list[fx.Node]) -> tuple | None:
    """The product that scores are, with their scale and mask; `chain` gets what is between."""
    node, factors = _without_casts(node, chain), []
    while (scaled := _scaled(node)) is not None:
        chain.append(node)
        factors.append(scaled[1])
        node = _without_casts(scaled[0], chain)
    product = _product(node)
    if product is not None:
        chain.append(node)
        scale = _product_of(factors)
        return None if scale is None else (product, scale, mask)
    if mask is not None or factors:
        return None
    for scores, found in _masked(node):
        rest = [*chain, node]
        read = _scores(scores, found, rest)
        if read is not None and equal_sizes(value_of(scores), value_of(node)):
            chain[:] = rest
            return read
    return None


def _read(node: fx.Node) -> _Attention | None:
    """The attention that a node is the last product of."""
    last = _product(node)
    if last is None:
        return None
    at, value = last
    chain, p = [node], 0.0
    at = _without_casts(at, chain)
    if (dropped := _dropout(at)) is not None:
        chain.append(at)
        p = dropped[1]
        at = _without_casts(dropped[0], chain)
    softmaxed = _softmaxed(at)
    if softmaxed is None:
        return None
    softmax = at
    chain.append(softmax)
    read = _scores(softmaxed, None, chain)
    if read is None:
        return None
    (query, key), scale, mask = read
    return _Attention(query, key, value, scale, mask, p, softmax, chain)


def _keeps_digits(a: _Attention) -> bool:
    """Whether nothing on the way is rounded to a type that the result does not have: fused kernels
    would keep the digits."""
    dtype = value_of(a.chain[0]).dtype
    return all(value_of(node) is not None and value_of(node).dtype in (dtype, torch.float32) for node in a.chain)


def _hides(a: _Attention) -> bool:
    """Whether a score that a bool fills gets no weight beside one that is seen, and is as finite in
    the softmax as it was written: a row that is all filled is the mean of values, or NaN."""
    fill, dtype = float(a.mask.fill), value_of(a.chain[0]).dtype
    if not (fill <= _FAR[dtype] or (fill == _FAR_OF_HALF and dtype in _HALF)):
        return False
    begin, end = (a.chain.index(node) for node in (a.softmax, a.mask.node))
    types = {value_of(node).dtype for node in a.chain[begin : end + 1]}
    return math.isinf(fill) or all(math.isfinite(_rounded(fill, t)) for t in types)


def _has_kernel(a: _Attention, draws: bool) -> bool:
    """Whether there are fused kernels that give what was written."""
    q, k, v = (value_of(x) for x in (a.query, a.key, a.value))
    if len({x.dtype for x in (q, k, v)}) != 1 or len({x.device for x in (q, k, v)}) != 1:
        return False
    if any(statically_known_true(size == 0) for x in (q, k, v) for size in x.shape):
        return False
    found = value_of(a.chain[0])
    if found.device.type == "cuda":
        widths = (q.size(-1), v.size(-1))
        if found.dtype not in _HALF or not all(type(w) is int and w % _WIDTH_STEP == 0 and w <= _WIDEST for w in widths):
            return False
    elif found.device.type != "cpu" or found.dtype not in (*_HALF, torch.float32) or a.dropout > 0:
        return False
    if (a.dropout > 0 and not draws) or not _keeps_digits(a):
        return False
    if a.mask is None:
        return True
    mask = value_of(a.mask.tensor)
    kind_fits = mask.dtype == found.dtype if a.mask.kind == "added" else _hides(a)
    return kind_fits and not mask.requires_grad and mask.device == found.device and mask.dim() <= q.dim()


class _Writer:
    """Calls before a node."""

    def __init__(self, before: fx.Node) -> None:
        self._before = before

    def __call__(self, target: object, *args: object, **words: object) -> fx.Node:
        with self._before.graph.inserting_before(self._before):
            if isinstance(target, str):
                return self._before.graph.call_method(target, args, words)
            return self._before.graph.call_function(target, args, words)

    def known(self, method: str, *args: object) -> fx.Node:
        """A call with the fake tensor that it gives."""
        node = self(method, *args)
        with torch.no_grad():
            node.meta["example_value"] = getattr(value_of(args[0]), method)(*args[1:])
        return node


def _is_copied(reader: fx.Node, moved: fx.Node, rows_first: bool) -> bool:
    """Whether a reader makes the same of `moved`, its strides too, however that lies in memory.
    Heads that are joined with their width are one view, or a copy, where batches lie outermost."""
    if _is(reader, ("contiguous",)):
        return _plain(reader) and len(reader.args) == 1
    if not _is(reader, _JOINS) or not rows_first:
        return False
    before, after = value_of(moved), value_of(reader)
    return after is not None and statically_known_true(after.shape[-1] == before.shape[-2] * before.shape[-1])


def _keeps_strides(a: _Attention) -> bool:
    """Whether all that reads the attention copies it, with heads moved to their width, as models
    do. The last product is contiguous, which what is put in its place need not be."""
    last, query = a.chain[0], value_of(a.query)
    rows_first = query.dim() == 4 and all(
        statically_known_true(query.stride(0) >= query.stride(d)) for d in (1, 2)
    )
    for move in last.users:
        before, after = value_of(last), value_of(move)
        if not _is(move, _MOVES) or before is None or after is None:
            return False
        swapped = [*range(before.dim() - 3), -2, -3, -1]
        moved = before.permute([d % before.dim() for d in swapped])
        if not equal_sizes(moved, after) or not all(
            statically_known_true(i == j) for i, j in zip(moved.stride(), after.stride())
        ):
            return False
        if not all(_is_copied(reader, move, rows_first) for reader in move.users):
            return False
    return True


def _replace(a: _Attention) -> None:
    last = a.chain[0]
    write = _Writer(last)
    rank = value_of(a.query).dim()

    def of_rank_4(x: fx.Node) -> fx.Node:
        return x if rank == 4 else write("unsqueeze", x, 0)

    query, value = of_rank_4(a.query), of_rank_4(a.value)
    key = of_rank_4(write("transpose", a.key, -2, -1))
    words: dict[str, object] = {"dropout_p": a.dropout, "scale": a.scale}
    if a.mask is not None:
        mask = a.mask.tensor
        while value_of(mask).dim() < 2 or (rank == 3 and value_of(mask).dim() == 3):
            mask = write.known("unsqueeze", mask, 0)
        if a.mask.kind == "hidden":
            mask = write.known("logical_not", mask)
        words["attn_mask"] = mask
    found = write(F.scaled_dot_product_attention, query, key, value, **words)
    if a.mask is not None:
        shown = write(operator.gt, mask, -math.inf) if a.mask.kind == "added" else mask
        unseen: object = math.nan
        if math.isfinite(a.mask.fill):  # autocast would leave it in its type
            unseen = write("to", write("mean", value, -2, True), value_of(last).dtype)
        found = write(torch.where, write("any", shown, -1, True), found, unseen)
    if rank == 3:
        found = write("squeeze", found, 0)
    if not _keeps_strides(a):
        found = write("contiguous", found)
    found.meta = dict(last.meta)
    last.replace_all_uses_with(found)
    for node in a.chain:
        last.graph.erase_node(node)


def _stands_alone(a: _Attention, order: dict[fx.Node, int], nodes: list[fx.Node]) -> bool:
    """Whether nothing else reads what is between, nor writes to an operand meanwhile."""
    if any(len(node.users) != 1 for node in a.chain[1:]):
        return False
    within = set(a.chain)
    between = nodes[order[a.chain[-1]] : order[a.chain[0]]]
    return not any(node not in within and (may_write(node) or node.target in _AUTOCAST) for node in between)


def fuse_attention(module: fx.GraphModule, draws: bool = True) -> None:
    """Changes the module as Dynamo traced it. `draws`: whether dropout may draw other numbers than
    eager mode."""
    nodes = list(module.graph.nodes)
    order = {node: place for place, node in enumerate(nodes)}
    fused = 0
    for node in nodes:
        a = _read(node)
        if a is None or not _has_kernel(a, draws) or not _stands_alone(a, order, nodes):
            continue
        _replace(a)
        fused += 1
    if fused:
        module.recompile()
        counters.add("fuse_attention", fused)
