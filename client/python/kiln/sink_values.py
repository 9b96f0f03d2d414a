"""Values that only later segments read are computed in the first of these, where that saves memory.

steps.py puts each node on the lowest level that its inputs let it. Of a backward with a host kernel
in each layer the first segment would compute what all layers read of the forward's values, and hold
it until they do. So a value goes to the level of its first reader, and with it all that is made for
it alone, unless what these are made of would take as much memory until then.
"""

from __future__ import annotations

import heapq
import operator
from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import fx

from .fx_export import is_random, value_of
from .joint_nodes import is_size, is_view, mutates, storages


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
    return next(iter(storages([node])), None)


def _bytes(node: fx.Node) -> int:
    """Of the storage that a node's tensor is in, symbols at their hints."""
    count = value_of(node).untyped_storage().nbytes()
    return count if isinstance(count, int) else count.node.hint or 0


class _Sinker:
    def __init__(self, levels: dict[int, list[fx.Node]], order: dict[fx.Node, int]) -> None:
        self.level = {node: level for level, nodes in levels.items() for node in nodes}
        self._order = order
        self._segments = sorted(level for level, nodes in levels.items() if nodes and level % 2 == 0)
        self._written = {_storage(node.args[0]) for node in self.level if mutates(node)}
        self._readers: dict[int, set[fx.Node]] = defaultdict(set)  # of storages
        for node in order:
            storage = _storage(node)
            if storage is not None:
                self._readers[storage].update(self._readers_of(node))

    def _readers_of(self, node: fx.Node) -> Iterator[fx.Node]:
        """The nodes that read a value, the graph's output among them."""
        return (user for user in node.users if user in self.level or user.op == "output")

    def sink(self, node: fx.Node) -> None:
        target = self._target(node)
        if target is None:
            return
        moved = self._made_for(node)
        held = sum(map(_bytes, self._held(moved, target)))
        if held < _bytes(node) + is_view(node):  # a view by itself holds as much as its source
            self.level.update(dict.fromkeys(moved, target))

    def _may_move(self, node: fx.Node) -> bool:
        if not isinstance(value_of(node), torch.Tensor) or _storage(node) is None:
            return False
        if node.target is operator.getitem or mutates(node) or is_random(node):
            return False
        return is_view(node) or all(_storage(s) not in self._written for s in node.all_input_nodes)

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

    def _held(self, moved: set[fx.Node], target: int) -> list[fx.Node]:
        """What `moved` reads and nothing else would keep until the target's level."""
        sources = {
            _storage(source): source
            for node in moved
            for source in node.all_input_nodes
            if source not in moved and not is_size(source)
        }
        sources.pop(None, None)
        return [
            source
            for storage, source in sources.items()
            if not any(self._keeps(reader, target) for reader in self._readers[storage] - moved)
        ]

    def _keeps(self, reader: fx.Node, level: int) -> bool:
        return reader not in self.level or self.level[reader] >= level
