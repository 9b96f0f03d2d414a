"""Which compiled graphs become device graphs.

    chooser = Chooser(options)              # of one forward and its backward, or one inference
    choice = chooser.choose(module, "forward")   # or None: as ever
    program = choice.applied(program, graph, segments, make_program)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import fx
from torch._guards import TracingContext

from .config import OF_GRAPHS
from .cpu_scalars import move_scalars
from .graph_facts import facts_of
from .graph_partitions import cut, cuts_of, parts_of
from .recipe import Recipe
from .steps import Plan, device_of
from .torch_inside import parameters_are_inputs

if TYPE_CHECKING:
    from .compiled_graph import CompiledGraph

Program = Callable[[list], Sequence]
Maker = Callable[[Recipe, Sequence[object], Sequence[object]], Program]


@dataclass
class Choice:
    """Of a graph on a GPU for which a device graph is asked: its facts (graph_facts.py) where it
    becomes one, else why not, if that is to be told. Plain data, which a cache keeps."""

    facts: dict[str, object] | None
    options: dict[str, object]
    skip: str | None = None
    parts: list[dict[str, object]] | None = None  # that are graphs (graph_partitions.py); None: all
    kind: str = "inference"
    cuts: list[str] = field(default_factory=list)  # operators that are in no graph, and why
    follows: str | None = None  # why there is none, where that was told of another graph

    def tell(self) -> None:
        """Counts and tells of a graph that is skipped."""
        from .graph_trees import tell_of_skip

        if self.skip is not None:
            tell_of_skip(self.skip, self.options)

    @property
    def device_graphs(self) -> int:
        """How many of them it is."""
        if self.facts is None:
            return 0
        return 1 if self.parts is None else len(self.parts)

    def cut(self, plan: Plan) -> list[str | None]:
        """Puts a plan's steps in order, where it may be cut; gives for each why it is in no graph."""
        if self.facts is None or not self.options["graph_partition"]:
            return [None for _ in plan.steps]
        return cut(plan, self.options)

    def take_parts(
        self, plan: Plan, reasons: list[str | None], recipe: Recipe, module: fx.GraphModule
    ) -> None:
        """Learns which steps of a plan that was cut, and of its recipe, are graphs."""
        self.parts = self.facts and parts_of(plan, reasons, recipe, module, self.facts)
        self.cuts = cuts_of(plan, reasons, self.parts)

    def applied(
        self, program: Program, graph: CompiledGraph, segments: Sequence[tuple], make: Maker
    ) -> Program:
        """What a call of `graph` runs in place of `program`. ``segments``: a callable and its
        EagerSegment each; ``make``: gives the program of a recipe and of its segments."""
        from . import graph_trees  # of PyTorch it imports what nothing else here needs

        if self.device_graphs == 0 or not graph_trees.can_be():
            waited_for = self.kind == "backward" and self.follows is None
            return graph_trees.ungraphed(program, graph.device.index or 0) if waited_for else program
        if self.parts is None:
            return graph_trees.graphed(program, graph.recipe, self.facts, graph)
        return graph_trees.graphed_in_parts(self.parts, graph, segments, make)


def _static_inputs() -> list[int]:
    """The inputs of a forward or an inference that keep their addresses."""
    context = TracingContext.try_get()
    known = context.fw_metadata if context is not None else None
    return [] if known is None else list(known.static_input_indices)


def annotated(options: dict[str, object], module: fx.GraphModule) -> dict[str, object]:
    """`options`, and what ``torch._dynamo.override_cudagraphs`` says of Dynamo's graph `module`, in
    versions of PyTorch that have it."""
    said = module.meta.get("cudagraph_annotation")
    return options if said is None else {**options, _ANNOTATION: (said.fwd, said.bwd)}


def annotation_of(options: dict[str, object]) -> tuple[bool | None, bool | None]:
    """Whether a forward and its backward are device graphs; None: as the options say."""
    return options.get(_ANNOTATION, (None, None))


# Beside the options of graphs: whether Dynamo hands a module's parameters to its graph as inputs.
PARAMETERS_ARE_INPUTS = "parameters_are_inputs"
_ANNOTATION = "cudagraph_annotation"
_BY_OPTION = "skipping cudagraphs due to the option "
_BY_FORWARD = "no device graph, since its forward is none"
_BY_ANNOTATION = "disabling cudagraphs{} due to override_cudagraphs annotation"


class Chooser:
    """A backward whose forward is no device graph is none either."""

    def __init__(self, options: dict[str, object]) -> None:
        forward, backward = annotation_of(options)
        self._asked = options["cudagraphs"] if forward is None else forward
        self._is_disabled = options["cudagraphs"] and not self._asked
        # A device graph's inputs may be copies, without what is between their rows.
        pads_inputs = options["can_inplace_pad_graph_input"]
        self._against = "can_inplace_pad_graph_input" if self._asked and pads_inputs else None
        self._wanted = self._asked and not pads_inputs
        self._wanted_backward = backward is not False
        self._options = {name: options[name] for name in OF_GRAPHS}
        self._options[PARAMETERS_ARE_INPUTS] = parameters_are_inputs()
        self._forward_is_none = False
        self._static: set[str] = set()  # inputs of the forward, by name

    @property
    def donates(self) -> bool:
        """Whether a backward may write to what its forward saves for it. Not where they may be
        device graphs: a replay cannot ask whether autograd runs the backward again."""
        return not self._wanted

    def choose(self, module: fx.GraphModule, kind: str) -> Choice | None:
        if device_of(module.graph).type != "cuda":
            return None
        if kind == "backward":
            return self._choose_backward(module)
        if self._is_disabled:
            return self._skipped(_BY_ANNOTATION.format(""), kind)
        if self._against is not None:
            return self._skipped(_BY_OPTION + self._against, kind)
        return self._choose(module, kind) if self._wanted else None

    def _choose_backward(self, module: fx.GraphModule) -> Choice | None:
        if not self._wanted or self._forward_is_none:
            is_told = self._asked or self._is_disabled
            return Choice(None, self._options, kind="backward", follows=_BY_FORWARD) if is_told else None
        if self._wanted_backward:
            return self._choose(module, "backward")
        return self._skipped(_BY_ANNOTATION.format(" for backward"), "backward")

    def _skipped(self, why: str, kind: str) -> Choice:
        choice = Choice(None, self._options, why, kind=kind)
        choice.tell()
        return choice

    def _static_of(self, module: fx.GraphModule, kind: str) -> list[int]:
        """Of a backward: what its forward has as such inputs. What the forward's graphs gave is
        found by the tree; where one of them is none, its results are elsewhere each time."""
        names = [node.name for node in module.graph.find_nodes(op="placeholder")]
        if kind == "backward":
            return [place for place, name in enumerate(names) if name in self._static]
        places = _static_inputs()
        self._static = {names[place] for place in places}
        return places

    def _choose(self, module: fx.GraphModule, kind: str) -> Choice:
        if not any(node.op == "call_function" for node in module.graph.nodes):
            return Choice(None, self._options, kind=kind)  # there is nothing to replay
        facts = facts_of(module, kind, self._static_of(module, kind), self._options)
        if facts["skip"] is None:
            if self._options["graph_partition"]:
                move_scalars(module.graph)
            return Choice(facts, self._options, kind=kind)
        self._forward_is_none = kind == "forward"
        return self._skipped(f"skipping cudagraphs due to {facts['skip']}", kind)
