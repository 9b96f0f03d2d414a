"""A linear that nothing but a cross-entropy reads, as one operator that never holds all logits.

    fuse_linear_cross_entropy(module)    # of Dynamo's graph, before autograd

With the option of the same name. The sums over the rows come in chunks, so results are rounded
otherwise than without it. linear_cross_entropy.py says what is computed.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from . import linear_cross_entropy
from .counters import counters
from .traced_nodes import equal_sizes, may_write, value_of

# Of one chunk's logits. Products of 4,096 rows and more keep a large GPU busy; at a vocabulary of
# 50,257 half types have as many.
CHUNK_BYTES = 512 << 20
_SAME_ROWS = ("view", "reshape", "flatten", "contiguous", "float", "to")


class _Chain(NamedTuple):
    """From a linear to a loss: the nodes in order, and those that take rows away."""

    linear: fx.Node
    between: list[fx.Node]
    loss: fx.Node


class _Loss(NamedTuple):
    logits: fx.Node
    target: fx.Node
    reduction: str
    ignore_index: int


_ARGUMENTS = {
    F.cross_entropy: ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"),
    F.nll_loss: ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction"),
}


def _loss_of(node: fx.Node) -> _Loss | None:
    """What a node's loss is of, if it is one of classes that are named by numbers, all of one weight."""
    if node.op != "call_function" or node.target not in _ARGUMENTS:
        return None
    given = dict(zip(_ARGUMENTS[node.target], node.args)) | node.kwargs
    if any(given.get(name) is not None for name in ("weight", "size_average", "reduce")):
        return None
    reduction, ignored = given.get("reduction", "mean"), given.get("ignore_index", -100)
    logits, target = given.get("input"), given.get("target")
    if reduction not in ("mean", "sum", "none") or given.get("label_smoothing", 0.0) != 0.0:
        return None
    if node.target is F.nll_loss:
        logits = _softmaxed(logits)
    number = value_of(target)
    if value_of(logits) is None or number is None or not isinstance(ignored, int):
        return None
    if value_of(logits).dim() != 2 or number.dim() != 1 or number.dtype != torch.int64:
        return None
    return _Loss(logits, target, reduction, ignored)


def _softmaxed(node: object) -> fx.Node | None:
    """What a node is the log-softmax of, by its last dimension."""
    if not isinstance(node, fx.Node) or len(node.users) != 1 or "dtype" in node.kwargs:
        return None
    is_function = node.op == "call_function" and node.target in (F.log_softmax, torch.log_softmax)
    if not is_function and (node.op, node.target) != ("call_method", "log_softmax"):
        return None
    dim = node.kwargs.get("dim", node.args[1] if len(node.args) == 2 else None)
    return node.args[0] if dim in (1, -1) and value_of(node).dim() == 2 else None


def _is_cut_of_rows(node: fx.Node) -> bool:
    """Whether it is `logits[..., :-1, :]` or the like: the last dimension stays whole."""
    if node.op != "call_function" or node.target is not operator.getitem:
        return False
    index = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
    if not all(part is Ellipsis or isinstance(part, (slice, int)) for part in index):
        return False
    if any(isinstance(p, fx.Node) for s in index if isinstance(s, slice) for p in (s.start, s.stop, s.step)):
        return False
    whole = Ellipsis not in index and len(index) < value_of(node.args[0]).dim()
    return whole or index[-1] == slice(None)


def _keeps_rows(node: fx.Node) -> bool:
    """Whether each row of logits comes out of it whole, in order; their types may be wider."""
    if node.op != "call_method" or node.target not in _SAME_ROWS:
        return False
    before, after = value_of(node.args[0]), value_of(node)
    if before is None or after is None or before.device != after.device:
        return False
    widens = after.dtype == torch.promote_types(before.dtype, after.dtype)
    return widens and before.numel() == after.numel()


def _fits_operand(between: list[fx.Node], classes: object) -> bool:
    """Whether what is done to logits, in order, can be done to the linear's operand: rows stay whole,
    and where some are cut away they lie as the linear gave them, or in one dimension."""
    cuts = [node.target is operator.getitem for node in between]
    for place, node in enumerate(between):
        before, after = value_of(node.args[0]), value_of(node)
        if after.dim() == 0 or not statically_known_true(after.shape[-1] == classes):
            return False
        moves = not cuts[place] and not equal_sizes(before, after)
        if moves and any(cuts[place:]) and (after.dim() != 2 or before.dim() < 2):
            return False
    return True


def _chain_to(node: fx.Node, loss: _Loss) -> _Chain | None:
    """Back to the linear; None where something else reads what is between."""
    between: list[fx.Node] = []
    at = loss.logits
    while len(at.users) == 1:
        if at.op == "call_function" and at.target is torch._C._nn.linear:
            fits = _fits_operand(between[::-1], value_of(at).shape[-1])
            return _Chain(at, between[::-1], node) if fits else None
        if not (_keeps_rows(at) or _is_cut_of_rows(at)) or not isinstance(at.args[0], fx.Node):
            return None
        between.append(at)
        at = at.args[0]
    return None


def _chunk_rows(chain: _Chain, loss: _Loss) -> int | None:
    """A power of two; None where one chunk is all, or the classes are a symbol."""
    logits, given = value_of(loss.logits), value_of(chain.linear)
    classes = logits.size(1)
    if type(classes) is not int or type(given.size(-1)) is not int or given.size(-1) != classes:
        return None
    row = classes * given.element_size()
    if not logits.is_floating_point() or linear_cross_entropy.hint_of(logits.size(0)) * row <= CHUNK_BYTES:
        return None
    return 1 << max((CHUNK_BYTES // row).bit_length() - 1, 0)


def _replace(module: fx.GraphModule, chain: _Chain, loss: _Loss, rows: int) -> None:
    linear, graph = chain.linear, module.graph
    x, weight, bias = (*linear.args, None)[:3]
    bias = linear.kwargs.get("bias", bias)
    with graph.inserting_before(chain.loss):
        for node in chain.between:
            if node.target is operator.getitem:
                x = graph.call_function(operator.getitem, (x, node.args[1]))
            elif value_of(node).dim() == 2 < value_of(node.args[0]).dim():
                x = graph.call_method("flatten", (x, 0, -2))
        words = {
            "logits_dtype": value_of(linear).dtype,
            "loss_dtype": value_of(chain.loss).dtype,
            "reduction": loss.reduction,
            "ignore_index": loss.ignore_index,
            "chunk_rows": rows,
        }
        fused = graph.call_function(
            torch.ops.kiln.linear_cross_entropy.default, (x, weight, bias, loss.target), words
        )
    fused.meta = dict(chain.loss.meta)
    chain.loss.replace_all_uses_with(fused)
    softmax = [node for node in chain.loss.all_input_nodes if node not in (loss.logits, loss.target)]
    for node in (chain.loss, *softmax, *reversed(chain.between), linear):
        graph.erase_node(node)


def fuse_linear_cross_entropy(module: fx.GraphModule) -> None:
    """Changes the module as Dynamo traced it."""
    order = {node: place for place, node in enumerate(module.graph.nodes)}
    nodes = list(module.graph.nodes)
    fused = 0
    for node in nodes:
        loss = _loss_of(node)
        chain = _chain_to(node, loss) if loss else None
        if chain is None or any(map(may_write, nodes[order[chain.linear] : order[node]])):
            continue
        rows = _chunk_rows(chain, loss)
        if rows is not None:
            _replace(module, chain, loss, rows)
            fused += 1
    if fused:
        module.recompile()
        counters.add("linear_cross_entropy", fused)
