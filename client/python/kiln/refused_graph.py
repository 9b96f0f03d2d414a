"""A graph of Dynamo's that is PyTorch's before AOTAutograd sees it.

Of an mkldnn tensor nobody sees the memory, and AOTAutograd's stand-ins take it for a dense one: what
is compiled of such a graph has results of wrong layouts, or none. An attention that is to drop what is
no probability is refused by PyTorch when it runs, and by nothing that traces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import fx

from . import _native
from .compiled_graph import record
from .counters import counters
from .eager_segment import strict
from .telling import tell, user_line

_UNIMPLEMENTED = 12  # proto/base/status.h


def _improbable(module: fx.GraphModule) -> float | None:
    """What an attention of a graph, or of one within, is to drop, if that is no probability."""
    graphs = (part.graph for part in module.modules() if isinstance(part, fx.GraphModule))
    for node in (node for graph in graphs for node in graph.nodes):
        if node.op == "call_function" and node.target is F.scaled_dot_product_attention:
            p = node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0.0)
            if isinstance(p, (int, float)) and not 0 <= p <= 1:
                return p
    return None


def ground_of(module: fx.GraphModule, example_inputs: Sequence[object]) -> str | None:
    """Why `module` is PyTorch's; None when it is not."""
    places = module.graph.find_nodes(op="placeholder")
    for place, value in zip(places, example_inputs):
        if isinstance(value, torch.Tensor) and value.layout == torch._mkldnn:
            return f"input {place.name} has layout _mkldnn, expected strided: to_dense() before the call"
    p = _improbable(module)
    return None if p is None else f"dropout_p {p} of an attention, expected a number from 0 to 1"


class RefusedGraph:
    """What ``kiln.explain`` is told of it."""

    segments = 0

    def __init__(self, name: str, refusal: str) -> None:
        self.name = name
        self.refusal: str | None = refusal
        self.hosts: dict[str, str] = {}
        self.callables: list[object] = []
        self.line = user_line()

    def wait(self) -> None:
        """There is nothing to wait for."""


def run_in_pytorch(module: fx.GraphModule, name: str, why: str) -> Callable[..., object]:
    """What runs the graph, after a warning; under ``KILN_STRICT=1`` what raises a KilnError."""
    forgiven = record(RefusedGraph(name, why))
    if strict() and not forgiven:

        def refuse(*_: object) -> object:
            raise _native.Error(_UNIMPLEMENTED, "UNSUPPORTED_OP", f"graph {name}: {why}")

        return torch._dynamo.disable(refuse, reason="it is refused")
    counters.add("eager_graphs")
    tell(f"graph {name} runs in eager mode: {why}")
    return module.forward
