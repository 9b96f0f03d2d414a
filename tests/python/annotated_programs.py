"""Programs that say themselves what of them becomes device graphs, in versions of PyTorch where they
can: the rows of section 14.9 of the fact sheet.

    row = ROWS["disable_bwd_only"]
    run(row, "cuda")     # compiles its program, and calls it a few times
    row.graphs           # how many device graphs that gives
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

needs_annotations = pytest.mark.skipif(
    not hasattr(torch._dynamo, "override_cudagraphs"), reason="this PyTorch has no annotations"
)


class Row(NamedTuple):
    make: Callable[[], Callable[[torch.Tensor], torch.Tensor]]  # a program that gives x.sin()
    graphs: int
    enabled: bool = True  # the option, which the program overrides
    trains: bool = False


def _said(*words, **given):
    return torch._dynamo.override_cudagraphs(*words, **given)


def _sine(x):
    return x.sin()


def _annotated(**given):
    return lambda: _said(**given)(_sine)


def _multiple_functions():
    first, second = _said(fwd=False)(_sine), _said(fwd=False)(lambda x: x * 1)
    return lambda x: second(first(x))


def _deeply_nested():
    inner = _said(fwd=False)(_sine)

    def middle(x):
        return inner(x)

    return lambda x: middle(x) * 1


def _module_forward():
    class Module(torch.nn.Module):
        @_said(fwd=False)
        def forward(self, x):
            return x.sin()

    return Module()


def _graph_break_selective():
    disabled = _said(fwd=False)(lambda x: x * 2)

    def function(x):
        y = disabled(x)
        torch._dynamo.graph_break()
        return (y / 2).sin()

    return function


def _context_manager():
    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        with _said(fwd=False):
            y = y * 1
        torch._dynamo.graph_break()
        return (y / 2).sin()

    return function


def _enable_context_manager():
    def function(x):
        with _said(fwd=True):
            y = x * 2
            torch._dynamo.graph_break()
            return (y / 2).sin()

    return function


ROWS = {
    "disable": Row(_annotated(fwd=False), 0),
    "disable_fwd_bwd": Row(_annotated(fwd=False, bwd=False), 0, trains=True),
    "multiple_functions": Row(_multiple_functions, 0),
    "deeply_nested": Row(_deeply_nested, 0),
    "module_forward": Row(_module_forward, 0),
    "disable_bwd_only": Row(_annotated(bwd=False), 1, trains=True),
    "disable_fwd_only": Row(_annotated(fwd=False), 0, trains=True),
    "graph_break_selective": Row(_graph_break_selective, 1),
    "context_manager": Row(_context_manager, 2),
    "enable": Row(_annotated(fwd=True), 1, enabled=False),
    "enable_fwd_bwd": Row(_annotated(fwd=True, bwd=True), 2, enabled=False, trains=True),
    "enable_fwd_only": Row(_annotated(fwd=True), 2, enabled=False, trains=True),
    "enable_context_manager": Row(_enable_context_manager, 2, enabled=False),
}


def run(row, device, times=4, **options):
    called = torch.compile(
        row.make(), backend="kiln", options={"cudagraphs": row.enabled, **options}
    )
    for _ in range(times):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.rand(8, device=device, requires_grad=row.trains)
        y = called(x)
        if row.trains:
            y.sum().backward()
            torch.testing.assert_close(x.grad, x.detach().cos())
        torch.testing.assert_close(y, x.sin())
        del y
