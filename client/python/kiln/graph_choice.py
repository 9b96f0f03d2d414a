"""Which compiled graphs become device graphs.

    chooser = Chooser(options)              # of one forward and its backward, or one inference
    choice = chooser.choose(module, "forward")   # or None: as ever
    program = choice.applied(program, graph)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import fx
from torch._guards import TracingContext

from .graph_facts import facts_of
from .steps import device_of

if TYPE_CHECKING:
    from .compiled_graph import CompiledGraph

# Of a backward's inputs these are not saved by its forward.
_GIVEN_TO_BACKWARDS = ("tangents", "bwd_seed", "bwd_base_offset", "bwd_rng_state")


@dataclass
class Choice:
    """Of a graph on a GPU: its facts (graph_facts.py) where it becomes a device graph; without, it
    is a backward beside such graphs. Plain data."""

    facts: dict[str, object] | None
    options: dict[str, object]
    skip: str | None = None

    def applied(
        self, program: Callable[[list], Sequence], graph: CompiledGraph
    ) -> Callable[[list], Sequence]:
        """What a call of `graph` runs in place of `program`."""
        from . import graph_trees  # of PyTorch it imports what nothing else here needs

        if self.facts is None or not graph_trees.can_be():
            return graph_trees.ungraphed_backward(program, graph.device)
        return graph_trees.graphed(program, self.facts, graph)


def _static_of(kind: str, module: fx.GraphModule) -> list[int]:
    """The inputs that keep their addresses: of a backward what its forward saved."""
    if kind == "backward":
        inputs = module.graph.find_nodes(op="placeholder")
        return [
            place
            for place, node in enumerate(inputs)
            if not any(word in node.name for word in _GIVEN_TO_BACKWARDS)
        ]
    context = TracingContext.try_get()
    known = context.fw_metadata if context is not None else None
    return [] if known is None else list(known.static_input_indices)


def annotated(options: dict[str, object], module: fx.GraphModule) -> dict[str, object]:
    """`options`, and what ``torch._dynamo.override_cudagraphs`` says of Dynamo's graph `module`, in
    versions of PyTorch that have it."""
    said = module.meta.get("cudagraph_annotation")
    return options if said is None else {**options, _ANNOTATION: (said.fwd, said.bwd)}


# Of a forward and its backward: whether they are device graphs; None: as the options say.
_ANNOTATION = "cudagraph_annotation"
_BY_ANNOTATION = "disabling cudagraphs{} due to override_cudagraphs annotation"


class Chooser:
    """A backward whose forward is no device graph is none either."""

    def __init__(self, options: dict[str, object]) -> None:
        forward, backward = options.get(_ANNOTATION, (None, None))
        wanted = options["cudagraphs"] if forward is None else forward
        # A device graph's inputs may be copies, without what is between their rows.
        self._wanted = wanted and not options["can_inplace_pad_graph_input"]
        self._is_disabled = options["cudagraphs"] and not wanted
        self._wanted_backward = backward is not False
        self._options = {name: value for name, value in options.items() if "cudagraph" in name}
        self._forward_is_none = False

    def choose(self, module: fx.GraphModule, kind: str) -> Choice | None:
        if device_of(module.graph).type != "cuda":
            return None
        if kind == "backward":
            return self._choose_backward(module)
        if self._is_disabled:
            self._tell(_BY_ANNOTATION.format(""))
        return self._choose(module, kind) if self._wanted else None

    def _choose_backward(self, module: fx.GraphModule) -> Choice | None:
        if not self._wanted or self._forward_is_none:
            return None
        if self._wanted_backward:
            return self._choose(module, "backward")
        why = _BY_ANNOTATION.format(" for backward")
        self._tell(why)
        return Choice(None, self._options, why)

    def _tell(self, text: str) -> None:
        from .graph_trees import tell_of_skip

        tell_of_skip(text, self._options)

    def _choose(self, module: fx.GraphModule, kind: str) -> Choice | None:
        facts = facts_of(module, kind, _static_of(kind, module), self._options)
        if facts["skip"] is None:
            return Choice(facts, self._options)
        self._tell(f"skipping cudagraphs due to {facts['skip']}")
        self._forward_is_none = kind == "forward"
        return Choice(None, self._options, facts["skip"]) if kind == "backward" else None
