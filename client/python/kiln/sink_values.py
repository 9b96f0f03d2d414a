"""Values that only later segments read are computed in the first of these, where that saves memory.

steps.py puts each node on the lowest level that its inputs let it. Of a backward with a host kernel
in each layer the first segment would compute what all layers read of the forward's values, and hold
it until they do. So a value goes to the level of its first reader, and with it all that is made for
it alone, if what these are made of takes less memory until then. What reads a value that its segment
computes stays with it, since they are one kernel. A view goes to the level on which all of its
readers are, if its source takes no more than the view: no segment has to give a view of what it takes.
An input's goes to its first reader, if all are Kiln's: no segment is made for it alone.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import fx

from .fx_export import is_random, value_of
from .joint_nodes import is_view, mutates, storages

# Less is not worth another read of what a value is made of.
_LEAST_SAVED = 2**20


def sink_values(levels: dict[int, list[fx.Node]], order: dict[fx.Node, int]) -> None:
    """Moves nodes among the even levels, which are Kiln's. `levels`: the nodes of each, sorted by
    their places in the graph, `order`, before and after."""
    if sum(level % 2 == 0 for level in levels) < 2:
        return
    sinker = _Sinker(levels, order)
    for node in sorted(sinker.level, key=order.__getitem__, reverse=True):
        sinker.sink(node)
    for nodes in levels.values():
        nodes.clear()
    for node in sorted(sinker.level, key=order.__getitem__):
        levels[sinker.level[node]].append(node)


def _storage(node: fx.Node) -> int | None:
    """Of a node's tensor; none of what gives no tensor, or several."""
    one = storages([node]) if isinstance(value_of(node), torch.Tensor) else ()
    return next(iter(one), None)


def _hint(count: int | torch.SymInt) -> float | None:
    """None of a number that is found in data."""
    return count if isinstance(count, int) else count.node.hint


def _bytes_of_storage(node: fx.Node) -> float:
    count = _hint(value_of(node).untyped_storage().nbytes())
    return math.inf if count is None else count


def _bytes_given(node: fx.Node) -> float:
    """What a segment holds that gives the node's tensor."""
    value = value_of(node)
    count = _hint(value.numel())
    # A tensor that is stretched has more elements than memory.
    return 0 if count is None else min(count * value.itemsize, _bytes_of_storage(node))


class _Sinker:
    def __init__(self, levels: dict[int, list[fx.Node]], order: dict[fx.Node, int]) -> None:
        self.level = {node: level for level, nodes in levels.items() for node in nodes}
        self._order = order
        self._segments = sorted(level for level, nodes in levels.items() if nodes and level % 2 == 0)
        self._storage = {node: _storage(node) for node in order}
        self._written = {self._storage[node.args[0]] for node in self.level if mutates(node)}
        self._sharing: dict[int | None, list[fx.Node]] = defaultdict(list)  # of each storage
        for node, storage in self._storage.items():
            self._sharing[storage].append(node)

    def sink(self, node: fx.Node) -> None:
        target = self._target(node)
        if target is None:
            return
        moved = self._made_for(node)
        if is_view(node) and node.args[0] not in moved:
            # Of an input's view that several segments read one gives it anyway.
            of_input = self._level_computed(node) is None
            reading = (self.level[reader] for reader in self._readers_of(node))
            saves = all(at == target or (of_input and at % 2 == 0) for at in reading)
            least = 0
        else:
            saves = not any(
                self._level_computed(source) == self.level[node]
                for source in self._sources(moved).values()
            )
            least = _LEAST_SAVED
        if saves and self._held(moved, target) + least <= _bytes_given(node):
            self.level.update(dict.fromkeys(moved, target))

    def _readers_of(self, node: fx.Node) -> Iterator[fx.Node]:
        """The nodes that read a value, the graph's output among them."""
        return (user for user in node.users if user in self.level or user.op == "output")

    def _may_move(self, node: fx.Node) -> bool:
        if self._storage[node] is None or node.target is operator.getitem:
            return False
        if mutates(node) or is_random(node):
            return False
        sources = (self._storage[source] for source in node.all_input_nodes)
        return is_view(node) or self._written.isdisjoint(sources)

    def _target(self, node: fx.Node) -> int | None:
        """The level that a node of a lower segment goes to; None where it stays."""
        level = self.level[node]
        if level % 2 == 1 or not self._may_move(node):
            return None
        readers = list(self._readers_of(node))
        if not readers or any(reader not in self.level for reader in readers):
            return None
        first = min(self.level[reader] for reader in readers)
        return max((to for to in self._segments if level < to <= first), default=None)

    def _made_for(self, node: fx.Node) -> set[fx.Node]:
        """The node, and nodes of its level that nothing else needs."""
        found, seen = set(), {node}
        pending = [(-self._order[node], node)]  # readers come before what they read
        while pending:
            _, one = heapq.heappop(pending)
            alone = self.level[one] == self.level[node] and self._may_move(one)
            if one is not node and not (alone and found.issuperset(self._readers_of(one))):
                continue
            found.add(one)
            for source in one.all_input_nodes:
                if source in self.level and source not in seen:
                    seen.add(source)
                    heapq.heappush(pending, (-self._order[source], source))
        return found

    def _sources(self, moved: set[fx.Node]) -> dict[int, fx.Node]:
        """What `moved` reads of others, by storage."""
        inputs = (source for node in moved for source in node.all_input_nodes)
        found = {self._storage[source]: source for source in inputs if source not in moved}
        found.pop(None, None)  # sizes
        return found

    def _level_computed(self, node: fx.Node) -> int | None:
        """The level of the step that computes what a node gives or is a view of."""
        while is_view(node):
            node = node.args[0]
        return self.level.get(node)

    def _held(self, moved: set[fx.Node], target: int) -> float:
        """Bytes that `moved` reads and nothing else keeps until the target's level."""
        return sum(
            _bytes_of_storage(source)
            for storage, source in self._sources(moved).items()
            if not self._is_kept(storage, moved, target)
        )

    def _is_kept(self, storage: int, moved: set[fx.Node], target: int) -> bool:
        readers = (
            reader
            for node in self._sharing[storage]
            if node not in moved
            for reader in self._readers_of(node)
            if reader not in moved
        )
        return any(reader not in self.level or self.level[reader] >= target for reader in readers)
