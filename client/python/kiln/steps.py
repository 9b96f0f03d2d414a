"""Cuts an ATen graph into what Kiln compiles and what PyTorch runs.

    plan = make_plan(graph, refused={"node name": "why"}, shape_env=shape_env)
    plan.steps      # Segment (Kiln) and HostStep (PyTorch), in order
    plan.hosts      # {node name: why} of the operators PyTorch runs

An operator that Kiln does not compile is a *host kernel*: it is called in its place, on the
tensors that the Kiln segments around it give and take. Nodes are put into as few segments as their
dependencies allow: levels alternate, even ones Kiln's, odd ones PyTorch's, and each node stands on
the lowest level that its inputs let it, so that operators on unrelated paths share one. A value that
only higher levels read may then go to one of these, which saves memory (sink_values.py).

What is decided here: who runs a node. PyTorch does what the wire cannot say (_refusal: no ATen
operator, sizes found in data, another device, an integer that may be negative), what the service
has refused, random numbers under ``fallback_random``, and results that are views of inputs or of
each other (result_views.py); Kiln all else. A mutation comes after all that reads what it writes,
also through views.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import fx

from .fx_export import (
    Segment,
    atoms_in,
    check_tensor,
    is_assertion,
    is_random,
    is_symbolic,
    value_of,
)
from .joint_nodes import is_view, mutates
from .result_views import set_apart
from .sink_values import sink_values
from .symbols import bounds_of
from .words import Unsupported


@dataclass
class HostStep:
    """One operator that PyTorch runs."""

    node: fx.Node


@dataclass
class Plan:
    """The steps of one graph, in order of execution."""

    steps: list[Segment | HostStep] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)

    @property
    def segments(self) -> list[Segment]:
        return [step for step in self.steps if isinstance(step, Segment)]


def tensors_in(value: object) -> list[torch.Tensor]:
    """The tensors of a value, those of its lists and tuples included, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def device_of(graph: fx.Graph) -> torch.device:
    """The device that a graph is compiled for: of its first tensor on a GPU, else the CPU."""
    for node in graph.nodes:
        for tensor in tensors_in(value_of(node)):
            if tensor.device.type == "cuda":
                return tensor.device
    return torch.device("cpu")


def _refusal(node: fx.Node, device: torch.device, shape_env: object | None) -> str | None:
    """Why Kiln cannot be sent this operator at all, in words."""
    if not isinstance(node.target, torch._ops.OpOverload):
        # Of an operator that calls another, as with_effects does: the other too.
        inner = [f" of {arg}" for arg in node.args if isinstance(arg, torch._ops.OpOverload)]
        return f"{node.target}{''.join(inner)} is no ATen operator"
    if node.meta.get("unbacked_bindings"):
        return f"{node.target}: the sizes of its result depend on data"
    value = value_of(node)
    if not isinstance(value, (torch.Tensor, list, tuple)) and not is_assertion(node):
        return f"{node.target} gives no tensor"
    tensors = tensors_in([value, *map(value_of, node.all_input_nodes)])
    try:
        for tensor in tensors:
            check_tensor(tensor)
    except Unsupported as error:
        return f"{node.target}: {error}"
    for tensor in tensors:
        if tensor.device != device:
            return f"{node.target}: a tensor on {tensor.device}, in a graph on {device}"
    # The compiler's symbols are sizes. PyTorch's may be any integer that a program computes with.
    values = [value, *map(value_of, node.all_input_nodes)]
    for atom in sorted(set().union(*map(atoms_in, values)), key=str):
        if bounds_of(atom, shape_env)[0] < 0:
            return f"{node.target}: {atom} is an integer that may be negative"
    return None


class _Planner:
    def __init__(
        self,
        graph: fx.Graph,
        refused: dict[str, str],
        shape_env: object | None,
        random_on_host: bool,
        is_inference: bool,
    ) -> None:
        self._graph = graph
        self._device = device_of(graph)
        self._shape_env = shape_env
        self._random_on_host = random_on_host
        self._refused = refused
        self._views = set_apart(graph, is_inference)
        self._order = {node: number for number, node in enumerate(graph.nodes)}
        self._level: dict[fx.Node, int] = {}
        # Of what uses a node: on Kiln's levels, on PyTorch's.
        self._least: dict[fx.Node, tuple[int, int]] = {}
        self.hosts: dict[str, str] = {}

    def _is_host(self, node: fx.Node) -> bool:
        if node.target is operator.getitem:
            source = node.args[0]
            return self._level.get(source, 1) % 2 == 1
        why = self._refused.get(node.name) or _refusal(node, self._device, self._shape_env)
        if why is None and self._random_on_host and is_random(node):
            why = f"{node.target}: random, and fallback_random is set"
        if why is None and node in self._views:
            return True  # no kernel: only a view
        if why is not None:
            self.hosts[node.name] = why
        return why is not None

    def _lowest(self, node: fx.Node, host: bool) -> int:
        lowest = self._after(node.all_input_nodes)[host]
        if not mutates(node):
            return lowest
        # Whoever reads the tensor reads it first.
        there = (self._least_write(*read)[host] for read in self._reads(node.args[0]))
        return max([lowest, *there])

    def _reads(
        self, source: fx.Node, viewed: int | None = None
    ) -> Iterator[tuple[fx.Node, int | None]]:
        """The nodes planned so far that read the memory of `source`, also through views of it, and
        of these the level of the first, which is the lowest."""
        for user in source.users:
            if user not in self._level:
                continue
            yield user, viewed
            if user.args[:1] == (source,) and (is_view(user) or user.target is operator.getitem):
                yield from self._reads(user, self._level[user] if viewed is None else viewed)

    def _least_write(self, reader: fx.Node, viewed: int | None) -> tuple[int, int]:
        """The lowest levels on which what `reader` reads may be written."""
        kiln, host = self._least[reader]
        # A segment that takes a tensor and a view of it does not know that they share memory, and
        # may write the one before it has read the other.
        apart = viewed is not None and viewed != self._level[reader] == kiln
        return kiln + 2 * apart, host

    def _after(self, sources: Iterable[fx.Node]) -> tuple[int, int]:
        """The lowest levels, Kiln's and PyTorch's, on which all of `sources` are there."""
        there = [self._least[source] for source in sources if source in self._least]
        return max([0, *(kiln for kiln, _ in there)]), max([1, *(host for _, host in there)])

    def plan(self) -> Plan:
        levels: dict[int, list[fx.Node]] = {}
        for node in self._graph.nodes:
            if node.op != "call_function":
                continue
            if _is_size(node):
                # No step computes it, and yet what it is made of may be found in data.
                self._least[node] = self._after(node.all_input_nodes)
                continue
            host = self._is_host(node)
            level = self._lowest(node, host)
            self._level[node] = level
            self._least[node] = (level + host, level + 1 - host)
            levels.setdefault(level, []).append(node)
        sink_values(levels, self._order)
        plan = Plan(hosts=self.hosts)
        for level in sorted(level for level, nodes in levels.items() if nodes):
            if level % 2 == 1:
                plan.steps += map(HostStep, levels[level])
            else:
                plan.steps.append(self._segment(levels[level]))
        return plan

    def _segment(self, nodes: list[fx.Node]) -> Segment:
        inside = set(nodes)
        segment = Segment(nodes=nodes)
        inputs: dict[fx.Node, None] = {}
        for node in nodes:
            for source in node.all_input_nodes:
                if source not in inside and isinstance(value_of(source), torch.Tensor):
                    inputs[source] = None
            if isinstance(value_of(node), torch.Tensor) and not mutates(node):
                if any(user not in inside and not _is_size(user) for user in node.users):
                    segment.outputs.append(node)
        # As the graph has them: a graph that is one segment then takes its inputs as they come.
        segment.inputs = sorted(inputs, key=self._order.__getitem__)
        return segment


def _is_size(node: fx.Node) -> bool:
    """An integer made of sizes, which no step computes: its expression stands for it."""
    return is_symbolic(node) and node.target is not torch.ops.aten._local_scalar_dense.default


def make_plan(
    graph: fx.Graph,
    refused: dict[str, str],
    shape_env: object | None = None,
    random_on_host: bool = False,
    is_inference: bool = False,
) -> Plan:
    """Plans a graph. ``refused``: the nodes that the service would not take, with its words.
    ``shape_env``: knows the bounds of the graph's symbols. ``is_inference``: no backward is made
    from it."""
    return _Planner(graph, refused, shape_env, random_on_host, is_inference).plan()
