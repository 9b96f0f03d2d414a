"""Random numbers of a forward that its backward draws again instead of having them saved.

    draw_from_seeds(joint_module, num_fwd_outputs)
    draw_from_seeds(inference_module)

A random operator of the forward (a dropout) becomes numbers drawn from a seed: one 0-d integer a
graph and device, to which each operator adds its own number, and that is another key of Philox. Each
call of the forward draws the seed and saves it; the numbers are marked as to be computed again, so
the cut saves no mask. A graph without a backward draws the same numbers from the same state of the
generator: a reentrant checkpoint runs one, and the other for the gradient.

Left alone, with numbers of their own: what only the backward reads, results that would be laid out
otherwise, and operators that are not in the table below.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy
import torch
import torch._inductor.inductor_prims  # registers prims.inductor_seed and prims.inductor_random
from torch import fx
from torch._guards import detect_fake_mode
from torch.utils.checkpoint import CheckpointPolicy

from .fx_export import value_of
from .joint_nodes import call, of_forward, same_layout
from .torch_inside import must_recompute

_aten, _prims = torch.ops.aten, torch.ops.prims


class _Emitter:
    """Writes what stands for one operator, each node with its fake result. The cut treats them as
    it would the old one: checkpointed or not, of the forward or of the backward."""

    def __init__(
        self, old: fx.Node, seed: fx.Node | None, number: int, symbols: dict[sympy.Expr, fx.Node]
    ) -> None:
        self._old = old
        self._seed = seed
        self._number = number
        self._symbols = symbols

    def call(self, target: torch._ops.OpOverload, *args: object) -> fx.Node:
        return call(self._old.graph, self._old.meta, target, *args)

    def cast(self, node: fx.Node) -> fx.Node:
        """In the dtype of the old result."""
        dtype = value_of(self._old).dtype
        if value_of(node).dtype == dtype:
            return node
        return self.call(_prims.convert_element_type.default, node, dtype)

    def draw(self, mode: str, like: fx.Node, sizes: list[object] | None = None) -> fx.Node:
        """Float32 numbers, "rand" or "randn", laid out as the tensor ``like``, and of its sizes."""
        sizes = self._sizes(like) if sizes is None else sizes
        order = _memory_order(value_of(like))
        # The number becomes an argument of the kernel that draws, so that equal operators are one.
        seed = self.call(_aten.add.Tensor, self._seed, self._number) if self._number else self._seed
        inner = [sizes[dim] for dim in order]
        drawn = self.call(_prims.inductor_random.default, inner, seed, mode)
        must_recompute(drawn.meta)
        if order == sorted(order):
            return drawn
        return self.call(_aten.permute.default, drawn, [order.index(dim) for dim in sorted(order)])

    def _sizes(self, source: fx.Node) -> list[object]:
        sizes: list[object] = []
        for dim, size in enumerate(value_of(source).size()):
            if not isinstance(size, int):
                expr = size.node.expr
                if expr not in self._symbols:
                    self._symbols[expr] = self.call(_aten.sym_size.int, source, dim)
                size = self._symbols[expr]
            sizes.append(size)
        return sizes


def _memory_order(tensor: torch.Tensor) -> list[int]:
    """Dimensions from the outermost in memory."""
    dims, strides = list(range(tensor.dim())), tensor.stride()
    if all(isinstance(stride, int) for stride in strides):
        dims.sort(key=lambda dim: -strides[dim])
    return dims


_Results = list[fx.Node] | None


def _dropout(emit: _Emitter, old: fx.Node, source: fx.Node, p: float, train: bool) -> _Results:
    if train is False or not 0 < p < 1:
        return None
    keep = emit.call(_aten.ge.Scalar, emit.draw("rand", source), p)
    kept = emit.call(_aten.mul.Tensor, source, keep)
    return [emit.call(_aten.mul.Tensor, kept, 1 / (1 - p)), keep]


def _filled(mode: str) -> Callable[..., _Results]:
    def results(emit: _Emitter, old: fx.Node, sizes: list) -> _Results:
        return [emit.cast(emit.draw(mode, old, sizes))]

    return results


def _filled_like(mode: str) -> Callable[..., _Results]:
    def results(emit: _Emitter, old: fx.Node, source: fx.Node) -> _Results:
        return [emit.cast(emit.draw(mode, source))]

    return results


def _bernoulli(emit: _Emitter, old: fx.Node, p: fx.Node) -> _Results:
    # Not `draw < p`: the cut takes what is four times smaller than its operands for a reduction,
    # which it saves.
    above = emit.call(_aten.sub.Tensor, p, emit.draw("rand", p))
    return [emit.cast(emit.call(_aten.gt.Scalar, above, 0))]


def _bernoulli_of_p(emit: _Emitter, old: fx.Node, source: fx.Node, p: float) -> _Results:
    return [emit.cast(emit.call(_aten.lt.Scalar, emit.draw("rand", source), p))]


# What gives an operator's results, from its positional arguments; None: it stays as it is.
_FROM_SEED = {
    _aten.native_dropout.default: _dropout,
    _aten.rand.default: _filled("rand"),
    _aten.randn.default: _filled("randn"),
    _aten.rand_like.default: _filled_like("rand"),
    _aten.randn_like.default: _filled_like("randn"),
    _aten.bernoulli.default: _bernoulli,
    _aten.bernoulli.p: _bernoulli_of_p,
}


def _replace(old: fx.Node, results: list[fx.Node]) -> bool:
    """Puts results in an operator's place. Leaves it alone, and says so, where a layout differs."""
    gets = {old: results[0]}
    if isinstance(value_of(old), (list, tuple)):
        gets = {get: results[get.args[1]] for get in old.users}
    if not all(same_layout(value_of(new), value_of(get)) for get, new in gets.items()):
        return False
    for get, new in gets.items():
        get.replace_all_uses_with(new)
        if get is not old:
            old.graph.erase_node(get)
    old.graph.erase_node(old)
    return True


class _Seeds:
    """The seeds of a graph, one a device, where they are first asked for."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._seeds: dict[torch.device, fx.Node] = {}

    def of(self, device: torch.device) -> fx.Node:
        if device not in self._seeds:
            graph = self._graph
            # Now: the one that was first may have been replaced since.
            first = next(node for node in graph.nodes if node.op != "placeholder")
            with graph.inserting_before(first):
                meta = {
                    "recompute": CheckpointPolicy.MUST_SAVE,
                    "partitioner_tag": "is_forward",
                }
                self._seeds[device] = call(graph, meta, _prims.inductor_seed.default, device)
        return self._seeds[device]


def _apply_mask(node: fx.Node) -> None:
    """A dropout's backward in operators that the cut knows to be fused with a mask drawn again."""
    gradient, mask, scale = node.args
    emit = _Emitter(node, None, 0, {})
    with node.graph.inserting_before(node):
        kept = emit.call(_aten.mul.Tensor, gradient, mask)
        _replace(node, [emit.call(_aten.mul.Tensor, kept, scale)])


def draw_from_seeds(module: fx.GraphModule, num_fwd_outputs: int | None = None) -> None:
    """Rewrites the random operators of a joint graph of forward and backward, in place; or of a
    graph whose results are all the forward's."""
    graph = module.graph
    if not any(node.target in _FROM_SEED for node in graph.nodes):
        return
    forward = of_forward(graph, num_fwd_outputs)
    found = [node for node in graph.nodes if node.target in _FROM_SEED and node in forward]
    if not found:
        return
    seeds = _Seeds(graph)
    # The inputs that are sizes.
    symbols = {
        value_of(node).node.expr: node
        for node in graph.find_nodes(op="placeholder")
        if isinstance(value_of(node), torch.SymInt)
    }
    with detect_fake_mode([value_of(node) for node in found]):
        for number, node in enumerate(found):
            value = value_of(node)
            device = (value[0] if isinstance(value, (list, tuple)) else value).device
            emit = _Emitter(node, seeds.of(device), number, symbols)
            with graph.inserting_before(node):
                results = _FROM_SEED[node.target](emit, node, *node.args)
            if results is not None:
                _replace(node, results)
        backward = _aten.native_dropout_backward.default
        for node in graph.find_nodes(op="call_function", target=backward):
            _apply_mask(node)
    graph.eliminate_dead_code()
    module.recompile()
