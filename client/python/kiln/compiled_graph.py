"""One ATen graph, compiled beside the program."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

import torch
from torch import fx

from . import _native, config, service, wire
from .artifacts import count_unsigned
from .background import anew, finished, in_background, side_by_side
from .config import OPTIONS
from .counters import add_artifact, counters
from .donated_inputs import donated_places, sparing
from .eager_segment import EagerSegment, strict
from .forked import open_in_child
from .fx_export import Exported, export, value_of
from .graph_choice import Choice
from .input_room import PADS_INPUTS, checked, counts_pads
from .kernel_names import KernelNames, SegmentNames
from .plain_recipe import Written, from_plain, plain_of
from .program import eager_form, make_program
from .recipe import Recipe, kiln_steps, write_eager, write_recipe
from .recompiles import watch
from .redrawn_masks import guarded, naming, torn_apart
from .run_seeds import draw_on_host, seeds_of
from .settings import WrongSetting
from .steps import Plan, device_of, make_plan
from .switches import switches
from .telling import tell, tell_once, user_line
from .torch_inside import BypassAOTAutogradCache, FXGraphCacheMiss, OutputCode
from .traces import traced
from .words import Unsupported, words_of

_SERVED_FROM_CACHE, _SERVED_FROM_COMPILE = 1, 2
_COUNTERS, _DAEMON, _MEASURED = 3, 4, 7  # texts of a callable
# What a compile may end with without being a mistake of ours.
REFUSALS = (_native.Error, Unsupported, LookupError, OSError, ImportError, ValueError)

_telling = open_in_child(threading.Lock())
_told: set[str] = set()
_recorders: list[recording] = []


class SegmentRefused(Exception):
    """What the service said of one segment: ``error``, and ``nodes``, {name: why} of the FX nodes
    that PyTorch is to run: those that it refused, by their numbers in the segment; all, where it
    refused what is no node's."""

    def __init__(self, error: _native.Error, exported: Exported) -> None:
        super().__init__(words_of(error))
        self.error = error
        self.nodes = {exported.nodes[one.node].name: one.text for one in error.refusals}
        if not self.nodes and error.args[1] == "UNSUPPORTED_OP":
            self.nodes = dict.fromkeys([node.name for node in exported.nodes], str(self))


def _joined(refusals: list[SegmentRefused]) -> SegmentRefused:
    """One that names the nodes of all; one that names none, and ends the matter, before them."""
    first = min(refusals, key=lambda refusal: len(refusal.nodes))
    if first.nodes:
        for refusal in refusals:
            first.nodes.update(refusal.nodes)
    return first


def _shape_env_of(module: fx.GraphModule) -> object | None:
    for node in module.graph.nodes:
        value = value_of(node)
        parts = [*value.size(), *value.stride()] if isinstance(value, torch.Tensor) else [value]
        for part in parts:
            if isinstance(part, torch.SymInt):
                return part.node.shape_env
    return None


def wire_options(options: dict[str, object]) -> bytes:
    """A kiln.wire.CompileOptions: the options, and PyTorch's switches that change results."""
    fields = b"".join(wire.uint(field, int(on)) for field, on in switches().items())
    for name, option in OPTIONS.items():
        value = options[name]
        if option.field == 0:
            continue
        if name == "deterministic":
            value = value or torch.are_deterministic_algorithms_enabled()
        if option.says_off:
            value = not value
        write = wire.text if isinstance(value, str) else wire.uint
        fields += write(option.field, value if isinstance(value, str) else int(value))
    return wire.data(1, fields) + wire.uint(3, int(bool(options["max_autotune"])))


def _tell_of_worker(said: str, daemon_lost: bool) -> None:
    """Warns, once for each word of the daemon, that it was not the one that compiled."""
    if service.told_of_absence and daemon_lost:
        return
    with _telling:
        new = said and said not in _told
        _told.add(said)
    complaint = service.own_complaint() if new and daemon_lost else ""
    said += f"; {complaint}" if complaint else ""
    if new:
        own = f"kiln {service.version()}, build {service.build_number()[:8]}"
        tell(f"compiled in this process's own worker, since the daemon: {said} (here: {own})")


def count_compile(callable_: object) -> None:
    """Counts how a segment's callable was come by, and what it is made of."""
    report = _native.report(callable_)
    counters.add("cache_hit" if report["served_from"] == _SERVED_FROM_CACHE else "cache_miss")
    if report["served_from"] == _SERVED_FROM_COMPILE:
        counters.add("compiles")
    if report["by_local_worker"]:
        counters.add("local_compiles")
        count_unsigned()
        _tell_of_worker(_native.text(callable_, _DAEMON), bool(report["daemon_lost"]))
    not_measured = _native.text(callable_, _MEASURED)
    if not_measured:
        tell_once(f"max_autotune: {not_measured}; what has no decision is chosen by its cost")
    add_artifact(_native.text(callable_, _COUNTERS))


class CompiledGraph(_native.Called, OutputCode):
    """A graph that is being compiled, or is. Called with the list of its inputs, which it empties,
    as AOTAutograd's calling convention has it: `_run` is called, and while there is none (None, or
    its parent's in a forked child) what `wait` returns. A call waits for the compile; a graph that
    Kiln refuses runs in eager mode, after a warning.

    AOTAutograd's cache keeps its recipe, not its artifacts: those are the service's to keep."""

    def __init__(
        self,
        module: fx.GraphModule,
        name: str,
        options: dict[str, object],
        is_inference: bool = False,
        choice: Choice | None = None,
    ) -> None:
        super().__init__()
        # Of the instance: Dynamo's wrappers copy an instance's attributes, not its class's.
        self._boxed_call = True
        self._time_taken_ns = 0  # torch 2.15 divides it, when it finds an entry again
        self.module: fx.GraphModule | None = module
        self.name = name
        self.hosts: dict[str, str] = {}
        self.segments = 0
        self.recipe: Recipe | None = None
        self.callables: list[object] = []
        self.refusal: str | None = None
        self.unkept = False  # whether a cache may not keep it (aot_cache.py)
        self.device = device_of(module.graph)
        self.options = wire_options(options)
        self.choice = choice
        self.trace = options["trace"]
        self.pads_inputs = options[PADS_INPUTS]
        # What an option of this model alone says; the process's is read at each launch.
        own = options["kernel_backend"]
        self.kernel_backend = None if own == config.kernel_backend else own
        self._names = options["descriptive_names"]
        self._within = wire_options({**options, PADS_INPUTS: False})
        self._random_on_host = bool(options["fallback_random"])
        self._is_inference = is_inference
        self._shape_env = _shape_env_of(module)
        self._refused: dict[str, str] = {}
        self._begin()
        self._ask()
        self._forgiven = record(self)  # who collects may call it at once

    def _begin(self) -> None:
        self._run: Callable[[list], Sequence] | None = None
        self._program: Callable[[list], Sequence] | None = None
        self.graph_functions: list[object] = []  # of the tree, which lives while they do
        self._settling = threading.Lock()
        self._process = service.process
        self.line = user_line()
        watch(self)

    def wait(self) -> Callable[[list], Sequence]:
        """What runs the graph, once the compile has ended. Raises under ``KILN_STRICT=1``,
        unless it is only looked at."""
        if self._process != service.process:
            self._enter_child()
        if self._run is None:
            try:
                self._run = self._settle()
            except REFUSALS as error:
                if strict() and not self._forgiven:
                    raise
                self._fall_back(words_of(error), all_graphs=isinstance(error, WrongSetting))
        return self._run

    def _enter_child(self) -> None:
        """In a forked child: the threads that kernels run on are the parent's, and so is the one
        that waits for a compile."""
        self._process = service.process
        self._settling = threading.Lock()
        self._fall_back(f"the process was forked after the compile: {service.SPAWN}")

    def _fall_back(self, why: str, all_graphs: bool = False) -> None:
        self.refusal = why
        counters.add("eager_graphs")
        if all_graphs:  # they are told of together
            tell_once(f"graphs run in eager mode: {why}")
        else:
            tell(f"graph {self.name} runs in eager mode: {why}")
        if self.module is None:  # it came from a cache
            self._run = naming(self._recipe_in_pytorch(), self.name)
            return
        for node in self.module.graph.nodes:
            node.target = eager_form(node.target)
        self.module.recompile()
        self._run = naming(self._eager, self.name)

    def _eager(self, args: list) -> Sequence:
        inputs = list(args)
        args.clear()
        return self.module(*inputs)

    def _recipe_in_pytorch(self) -> Callable[[list], Sequence]:
        eager = self._in_pytorch()
        return make_program(self.recipe, [None] * len(eager), eager, draw_on_host)

    def _ask(self) -> None:
        """Writes the graph here, where Dynamo's shapes hold still, and has it compiled beside."""
        try:
            service.refuse_forked()
            exported = self._write()
        except REFUSALS as error:
            self._done = Future()
            self._done.set_exception(anew(error))
        else:
            self._done = in_background(lambda: self._compile(exported))

    def _write(self) -> list[Exported]:
        """The segments, with the refused operators left to PyTorch."""
        while True:
            plan = make_plan(
                self.module.graph,
                self._refused,
                self._shape_env,
                self._random_on_host,
                self._is_inference,
            )
            torn = torn_apart([segment.nodes for segment in plan.segments], self.module.graph)
            if torn:
                self._refused.update(torn)
                continue
            reasons = [] if self.choice is None else self.choice.cut(plan)
            self._donate(plan)
            try:
                exported = [
                    export(f"{self.name}.{i}", segment, self._shape_env, self._names)
                    for i, segment in enumerate(plan.segments)
                ]
            except Unsupported as error:
                if error.node is None or error.node.name in self._refused:
                    raise
                self._refused[error.node.name] = words_of(error)
                continue
            self.recipe, self.hosts = write_recipe(self.module, plan, exported), plan.hosts
            if self.choice is not None:
                self.choice.take_parts(plan, reasons, self.recipe, self.module)
            self._parts = [(s, e.symbols) for s, e in zip(plan.segments, exported)]
            if len(exported) > 1:  # of what one gives another nobody knows the room
                self.options, self.pads_inputs = self._within, False
            return exported

    def _donate(self, plan: Plan) -> None:
        """Has the one step of a plan write to inputs that are donated. Of several each would have to
        know who reads them after it."""
        alone = len(plan.steps) == 1 and len(plan.segments) == 1
        self.donated = donated_places(self.module.graph) if alone else []
        if self.donated:
            inputs = self.module.graph.find_nodes(op="placeholder")
            plan.segments[0].donated = {inputs[place] for place in self.donated}

    def _compile(self, exported: list[Exported]) -> list[object]:
        session = service.session_of(self.device)

        def compile_(segment: Exported) -> object:
            try:
                return _native.compile(session, segment.graph, self.options)
            except _native.Error as error:
                return SegmentRefused(service.with_log(error), segment)

        made = side_by_side(compile_, exported)
        refusals = [one for one in made if isinstance(one, SegmentRefused)]
        if refusals:
            raise _joined(refusals)
        return made

    def _compile_recipe(self) -> list[object]:
        """Compiles what came from a cache: its artifacts are the service's to find."""
        session = service.session_of(self.device)
        segments = kiln_steps(self.recipe)
        return side_by_side(lambda s: _native.compile(session, s.graph, self.options), segments)

    def _settle(self) -> Callable[[list], Sequence]:
        """Waits for the compile, and asks again without what was refused. Raises REFUSALS."""
        with self._settling:
            while self._program is None:
                try:
                    self._program = self._finish(finished(self._done))
                except SegmentRefused as refusal:
                    if not refusal.nodes.keys() - self._refused.keys():
                        raise anew(refusal.error) from None
                    self._refused.update(refusal.nodes)
                    self._ask()
        return self._program

    def _finish(self, callables: list[object]) -> Callable[[list], Sequence]:
        self.callables, self.segments = callables, len(callables)
        counters.add("host_kernels", len(self.hosts))
        names = KernelNames(self)
        for number, (step, callable_) in enumerate(zip(kiln_steps(self.recipe), callables)):
            count_compile(callable_)
            if len(callables) > 1 or self.kernel_backend is not None:
                own = SegmentNames(names, number, self.kernel_backend)
                _native.name_kernels(callable_, own)
            # An operator whose p is 0 is compiled to one that draws nothing.
            step.has_random &= bool(_native.report(callable_)["reads_seed"])
        eager, draw = self._in_pytorch(), seeds_of(self.device)
        make = partial(make_program, draw=draw)
        program = make(self.recipe, callables, eager)
        if self.pads_inputs and any(counts_pads(_native.text(c, _COUNTERS)) for c in callables):
            program = checked(program)
        if self.donated:
            program = sparing(program, self.donated)
        if self.choice is not None:
            program = self.choice.applied(program, self, list(zip(callables, eager)), make)
        if self.trace:
            program = traced(program, self.trace, self.name, callables)
        return guarded(program, self.name, self.recipe.masks, self._recipe_in_pytorch)

    def _in_pytorch(self) -> list[EagerSegment]:
        """The segments, as PyTorch runs them. Nothing is written until one is run."""
        if self.module is None:
            steps = kiln_steps(self.recipe)
            return [EagerSegment(self.name, s.eager.read) for s in steps]
        return [EagerSegment(self.name, partial(write_eager, *part)) for part in self._parts]

    # What follows is the interface of PyTorch's OutputCode.

    def __copy__(self) -> CompiledGraph:
        copied = object.__new__(CompiledGraph)
        copied.__dict__.update(self.__dict__, _origin=self)
        return copied

    def prepare_for_serialization(self) -> None:
        """Waits for the compile. A graph that was refused is not cached. Called on a copy."""
        try:
            self._origin._settle()
        except REFUSALS as error:
            raise BypassAOTAutogradCache(f"kiln: {words_of(error)}") from None
        if self._origin.unkept:
            raise BypassAOTAutogradCache("kiln: inputs that are written share memory")
        self.recipe, self.hosts = self._origin.recipe, self._origin.hosts
        try:
            for step, part in zip(kiln_steps(self.recipe), self._origin._parts):
                step.eager = Written(plain_of(write_eager(*part)))
            plain_of(self.recipe)
        except TypeError as error:  # anything may be an operator's argument
            raise BypassAOTAutogradCache(f"kiln: an operator: {error}") from None

    _KEPT = (
        *("_boxed_call", "name", "hosts", "recipe", "device", "options", "choice", "trace"),
        *("pads_inputs", "donated", "kernel_backend"),
    )

    def __getstate__(self) -> dict[str, object]:
        """Plain data: numbers, words, bytes, and lists and dicts of these."""
        state = {key: self.__dict__[key] for key in self._KEPT}
        choice = self.choice and dataclasses.asdict(self.choice)
        plain = {"recipe": plain_of(self.recipe), "device": str(self.device), "choice": choice}
        return {**state, **plain}

    def __setstate__(self, state: dict[str, object]) -> None:
        OutputCode.__init__(self)
        self.__dict__.update(state)
        self.recipe = from_plain(state["recipe"])
        self.device = torch.device(state["device"])
        self.choice = state["choice"] and Choice(**state["choice"])
        self.module = None
        self.segments = 0
        self.refusal = None
        self.callables = []

    def post_compile(self, *_: object) -> None:
        """After a load: compiles, or finds what is compiled. A miss when that fails, so that
        AOTAutograd traces anew."""
        self._begin()
        self._done = in_background(self._compile_recipe)
        self._forgiven = record(self)
        try:
            self._run = self._settle()
        except REFUSALS:
            raise FXGraphCacheMiss from None
        if self.choice is not None:
            self.choice.tell()


def record(graph: object) -> bool:
    """Shows a graph, a CompiledGraph or what is seen in place of one, to whoever collects; gives
    whether one that Kiln refuses is forgiven."""
    for recorder in _recorders:
        recorder.seen.append(graph)
    return any(recorder.forgiving for recorder in _recorders)


class recording:
    """Collects the graphs that are compiled in a block. ``forgiving``: one that Kiln refuses runs
    in eager mode, under ``KILN_STRICT=1`` too."""

    def __init__(self, forgiving: bool = False) -> None:
        self.forgiving = forgiving
        self.seen: list[CompiledGraph] = []

    def __enter__(self) -> list[CompiledGraph]:
        _recorders.append(self)
        return self.seen

    def __exit__(self, *_: object) -> None:
        _recorders.remove(self)
