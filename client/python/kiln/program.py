"""A recipe as something to call: Kiln's callables and PyTorch's operators, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import fx

from . import _native
from . import launches  # noqa: F401  who watches is set before a program runs
from .philox import numbers_of
from .recipe import Bound, Fixed, HostRecipe, KilnRecipe, Place, Recipe, bound
from .redrawn_masks import in_pytorch
from .run_seeds import Seed, draw_on_host
from .torch_inside import untraced


def eager_form(target: object) -> object:
    """What PyTorch runs for an operator: most are their own."""
    return numbers_of if str(target) == "prims.inductor_random.default" else in_pytorch(target)


def _is_lazy_view(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor holds other numbers than it stands for."""
    return tensor.is_neg() or tensor.is_conj()


class Eager(Protocol):
    """PyTorch in a segment's place (eager_segment.py)."""

    unserved: set

    def knows(self, inputs: list) -> bool: ...

    def run(self, inputs: list) -> list: ...

    def rescue(self, error: _native.Error, inputs: list) -> list: ...


def _direct_program(
    step: KilnRecipe, callable_: object | None, eager: Eager, draw: Callable[[], Seed]
) -> Callable[[list], list]:
    """A segment, given its inputs, which it empties. A whole program where the segment is all of a
    recipe. In PyTorch, where there is no callable."""

    @untraced
    def run(args: list, *_: Seed) -> list:
        results = eager.run(args)
        args.clear()
        return results

    @untraced
    def instead(args: list) -> list | None:
        return eager.run(args) if eager.knows(args) else None

    if callable_ is None:
        return run
    if callable(callable_):  # a part that is a device graph
        return callable_
    seed = draw if step.has_random else None
    return _native.segment(callable_, eager.unserved, instead, eager.rescue, seed)


def _bind_segment(
    step: KilnRecipe,
    callable_: object | None,
    eager: Eager,
    draw: Callable[[], Seed],
    seed: int | None,
) -> Callable[[list], None]:
    """``seed``: the place of its seed in a call's values; None: nothing is drawn."""
    takes, gives = step.takes, step.gives
    symbols = [bound(source) for source in step.symbols]
    run_segment = _direct_program(step, callable_, eager, draw)
    drawn = slice(0, 0) if seed is None else slice(seed, seed + 1)
    # Only the run holds them from here on, and it lets go of the large ones when it has read them.
    last_used = [place for place in step.drops if place in takes]

    @untraced
    def run(values: list) -> None:
        inputs = [values[place] for place in takes]
        for source in symbols:
            inputs.append(source.read(values))
        for place in last_used:
            values[place] = None
        for place, result in zip(gives, run_segment(inputs, *values[drawn])):
            values[place] = result

    return run


def _bind_host(step: HostRecipe) -> Callable[[list], None]:
    strides, target = step.strides, eager_form(step.target)
    given = fx.node.map_aggregate((step.args, step.kwargs), bound)

    @untraced
    def run(values: list) -> None:
        @untraced
        def value_of(item: object) -> object:
            return item.get(values) if isinstance(item, (Place, Fixed, Bound)) else item

        args, kwargs = fx.node.map_aggregate(given, value_of)
        result = target(*args, **kwargs)
        if isinstance(result, torch.Tensor) and _is_lazy_view(result):
            result = result.resolve_neg().resolve_conj()
        if strides is not None and result.stride() != strides:
            result = torch.empty_strided(
                result.shape, strides, dtype=result.dtype, device=result.device
            ).copy_(result)
        values[step.gives] = result

    return run


class Program:
    """Calls the steps of a recipe. Thread-safe: a call's values are its own."""

    def __init__(
        self,
        recipe: Recipe,
        callables: Sequence[object | None],
        eager: Sequence[Eager] = (),
        draw: Callable[[], Seed] = draw_on_host,
    ) -> None:
        pending = zip(callables, eager)
        self._steps = []
        self._draw, self._seeds = draw, 0
        for step in recipe.steps:
            if isinstance(step, HostRecipe):
                self._steps.append((_bind_host(step), step.drops))
                continue
            callable_, in_pytorch = next(pending)
            draws = step.has_random and callable_ is not None
            seed = recipe.places + self._seeds if draws else None
            self._seeds += draws
            run = _bind_segment(step, callable_, in_pytorch, draw, seed)
            self._steps.append((run, step.drops))
        self._padding = [None] * (recipe.places - recipe.inputs)
        self._constants = recipe.constants
        self._results = [bound(item).get for item in recipe.results]

    @untraced
    def __call__(self, args: list) -> list:
        values = args + self._padding
        args.clear()
        for place, held in self._constants:
            values[place] = held
        # All before PyTorch's own operators draw, as a device graph has to.
        for _ in range(self._seeds):
            values.append(self._draw())
        for run, drops in self._steps:
            run(values)
            for place in drops:
                values[place] = None
        return [get(values) for get in self._results]


def _of_plain_tangents(
    program: Callable[[list], list], tangents: list[int]
) -> Callable[[list], list]:
    """`program`, whose gradients hold what they stand for. Dynamo sees to all other inputs; what
    comes into a backward it does not see."""

    @untraced
    def run(args: list) -> list:
        for place in tangents:
            tangent = args[place]
            if isinstance(tangent, torch.Tensor) and _is_lazy_view(tangent):
                args[place] = tangent.resolve_neg().resolve_conj()
        return program(args)

    return run


def make_program(
    recipe: Recipe,
    callables: Sequence[object | None],
    eager: Sequence[Eager],
    draw: Callable[[], Seed],
) -> Callable[[list], list]:
    """The quickest program for a recipe. A segment without a callable is PyTorch's. ``draw`` gives
    the seed of a run (run_seeds.py)."""
    program = _make_program(recipe, callables, eager, draw)
    return _of_plain_tangents(program, recipe.tangents) if recipe.tangents else program


def _make_program(
    recipe: Recipe,
    callables: Sequence[object | None],
    eager: Sequence[Eager],
    draw: Callable[[], Seed],
) -> Callable[[list], list]:
    if len(recipe.steps) == 1 and isinstance(recipe.steps[0], KilnRecipe):
        step = recipe.steps[0]
        direct = (
            not recipe.constants
            and not step.symbols
            and step.takes == list(range(recipe.inputs))
            and [Place(place) for place in step.gives] == recipe.results
        )
        if direct:  # no values need to be kept
            return _direct_program(step, callables[0], eager[0], draw)
    return Program(recipe, callables, eager, draw)
