"""Indices of a max pool, saved in a byte each.

    shrink_pool_indices(joint_module)

A max pool gives, for each element, the place of the largest in the whole picture, as an int64 that
its backward needs. Within its window that place has few values: it is saved as an int8, and the
backward makes the index again, which costs it nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx
from torch._guards import detect_fake_mode

from .fx_export import value_of
from .joint_nodes import call
from .torch_inside import must_recompute

_aten, _prims = torch.ops.aten, torch.ops.prims
_POOL = _aten.max_pool2d_with_indices.default
_BACKWARD = _aten.max_pool2d_with_indices_backward.default
_LARGEST = 127  # of an int8


# Of kernel, stride (none: the kernel's), padding and dilation.
_ABSENT = (None, [], [0], [1])


def _pair(numbers: Sequence[int] | int) -> list[int]:
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    return numbers if len(numbers) == 2 else numbers * 2


class _Window:
    """The arithmetic of one pool's window: an index of the picture is row * width + column."""

    def __init__(self, pool: fx.Node, indices: fx.Node) -> None:
        given = pool.args[1:5]
        kernel, stride, padding, dilation = (*given, *_ABSENT[len(given) :])
        self.kernel, self.stride = _pair(kernel), _pair(stride or kernel)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.width = value_of(pool.args[0]).size(-1)
        self._indices = indices
        self._meta = dict(indices.meta)

    def fits(self) -> bool:
        sizes = (self.width, *value_of(self._indices).size()[-2:])
        # Sizes that are symbols would have to be saved too.
        return (
            all(isinstance(size, int) for size in sizes)
            and self.kernel[0] * self.kernel[1] <= _LARGEST
        )

    def _call(self, target: torch._ops.OpOverload, *args: object, **words: object) -> fx.Node:
        return call(self._indices.graph, self._meta, target, *args, **words)

    def _first(self, dim: int) -> fx.Node:
        """Where the window of each result begins, in rows (0) or columns (1)."""
        indices = value_of(self._indices)
        first = self._call(
            _prims.iota.default,
            indices.size(dim - 2),
            start=-self.padding[dim],
            step=self.stride[dim],
            dtype=torch.int64,
            device=indices.device,
            requires_grad=False,
        )
        return self._call(_aten.unsqueeze.default, first, 1) if dim == 0 else first

    def offsets(self) -> fx.Node:
        """Number of the largest within its window, int8."""
        row = self._call(_aten.floor_divide.Scalar, self._indices, self.width)
        column = self._call(_aten.remainder.Scalar, self._indices, self.width)
        place = []
        for dim, at in enumerate((row, column)):
            inside = self._call(_aten.sub.Tensor, at, self._first(dim))
            place.append(self._call(_aten.floor_divide.Scalar, inside, self.dilation[dim]))
        above = self._call(_aten.mul.Tensor, place[0], self.kernel[1])
        number = self._call(_aten.add.Tensor, above, place[1])
        return self._call(_prims.convert_element_type.default, number, torch.int8)

    def indices(self, offsets: fx.Node) -> fx.Node:
        """The indices again, to be computed in the backward whatever they are used for there."""
        must_recompute(self._meta)
        wide = self._call(_prims.convert_element_type.default, offsets, torch.int64)
        place = [
            self._call(_aten.floor_divide.Scalar, wide, self.kernel[1]),
            self._call(_aten.remainder.Scalar, wide, self.kernel[1]),
        ]
        at = []
        for dim in (0, 1):
            inside = self._call(_aten.mul.Tensor, place[dim], self.dilation[dim])
            at.append(self._call(_aten.add.Tensor, inside, self._first(dim)))
        above = self._call(_aten.mul.Tensor, at[0], self.width)
        return self._call(_aten.add.Tensor, above, at[1])


def shrink_pool_indices(module: fx.GraphModule) -> None:
    """Rewrites the max pools of a joint graph whose indices only their backward reads."""
    graph = module.graph
    for pool in graph.find_nodes(op="call_function", target=_POOL):
        for indices in [user for user in pool.users if user.args[1] == 1]:
            readers = list(indices.users)
            if not readers or any(reader.target is not _BACKWARD for reader in readers):
                continue
            window = _Window(pool, indices)
            if not window.fits():
                continue
            with detect_fake_mode([value_of(indices)]), graph.inserting_before(indices.next):
                again = window.indices(window.offsets())
            for reader in readers:
                reader.replace_input_with(indices, again)
