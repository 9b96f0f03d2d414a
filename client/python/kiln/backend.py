"""``torch.compile(model, backend="kiln")``.

Dynamo gives a graph; AOTAutograd makes functional ATen graphs of it, forward and backward; each
becomes a :class:`CompiledGraph`. Compiles run beside the program, on threads that do not hold the
GIL: a forward and its backward, requested one after the other, are compiled at once, and the first
call of each waits for its own.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import fx

from . import _native, service
from .fx_export import Exported, export, value_of
from .program import Program
from .steps import Plan, make_plan
from .words import Unsupported

# Compiles that this process waits for at once.
_COMPILES = 8
_NODE = re.compile(r"node %([A-Za-z0-9_.]+)")

_pool_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def _compile_pool() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_COMPILES, thread_name_prefix="kiln-compile")
        return _pool


def strict() -> bool:
    """Whether a graph that Kiln refuses is an error (``KILN_STRICT=1``)."""
    return os.environ.get("KILN_STRICT", "0") not in ("", "0")


def _device_of(module: fx.GraphModule) -> torch.device:
    """The device of a graph's first tensor that Kiln has; the CPU's without one."""
    for node in module.graph.nodes:
        value = value_of(node)
        if isinstance(value, torch.Tensor) and value.device.type in ("cpu", "cuda"):
            return value.device
    return torch.device("cpu")


def _shape_env_of(module: fx.GraphModule) -> object | None:
    for node in module.graph.nodes:
        value = value_of(node)
        parts = [*value.size(), *value.stride()] if isinstance(value, torch.Tensor) else [value]
        for part in parts:
            if isinstance(part, torch.SymInt):
                return part.node.shape_env
    return None


class CompiledGraph:
    """One ATen graph, compiled beside the program. Called with the list of its inputs, which it
    empties; as AOTAutograd's calling convention has it."""

    def __init__(self, module: fx.GraphModule, name: str) -> None:
        # Of the instance: Dynamo's wrappers copy an instance's attributes, not its class's.
        self._boxed_call = True
        self.module = module
        self.name = name
        self.plan: Plan | None = None
        self._shape_env = _shape_env_of(module)
        self._run: Callable[[list], Sequence] | None = None
        self._done: Future[Program] = _compile_pool().submit(self._compile)

    def __call__(self, args: list) -> Sequence:
        run = self._run
        if run is None:
            run = self._wait()
        return run(args)

    def _wait(self) -> Callable[[list], Sequence]:
        try:
            self._run = self._done.result()
        except (_native.Error, Unsupported, LookupError, OSError, ImportError) as error:
            if strict():
                raise
            warnings.warn(f"kiln: graph {self.name} runs eager: {_words(error)}")
            self._run = self._eager
        return self._run

    def _eager(self, args: list) -> Sequence:
        inputs = list(args)
        args.clear()
        return self.module(*inputs)

    def _compile(self) -> Program:
        session = service.session_of(_device_of(self.module))
        refused: dict[str, str] = {}
        while True:
            plan = make_plan(self.module.graph, refused)
            try:
                compiled = self._compile_segments(session, plan)
            except (_native.Error, Unsupported) as error:
                name = _refused_node(error)
                if name is None or name in refused:
                    raise
                refused[name] = _words(error)
                continue
            self.plan = plan
            return Program(self.module, plan, compiled)

    def _compile_segments(self, session: object, plan: Plan) -> list[tuple[Exported, object]]:
        # All are written before any is sent: what the wire cannot say is found at once.
        exported = [
            export(f"{self.name}.{i}", segment, self._shape_env)
            for i, segment in enumerate(plan.segments)
        ]
        return [(one, _native.compile(session, one.graph)) for one in exported]


def _words(error: Exception) -> str:
    if isinstance(error, _native.Error):
        _, reason, message = error.args
        return f"{reason}: {message}" if reason else message
    return f"{type(error).__name__}: {error}"


def _refused_node(error: Exception) -> str | None:
    """The node that Kiln does not compile, where one is the matter."""
    if isinstance(error, Unsupported):
        return None if error.node is None else error.node.name
    _, reason, message = error.args
    found = _NODE.search(message)
    return found.group(1) if reason == "UNSUPPORTED_OP" and found else None


class _Compiler:
    """Counts the graphs of one call of the backend, for their names."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __call__(self, module: fx.GraphModule, example_inputs: Sequence[object]) -> CompiledGraph:
        return CompiledGraph(module, self._kind)


def kiln(
    module: fx.GraphModule, example_inputs: Sequence[object], **options: object
) -> Callable[..., object]:
    """The backend, as the entry point ``torch_dynamo_backends`` names it."""
    if os.environ.get("KILN_DISABLE", "0") not in ("", "0"):
        return module.forward
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    service.load_library()
    return aot_autograd(
        fw_compiler=_Compiler("forward"),
        bw_compiler=_Compiler("backward"),
        inference_compiler=_Compiler("inference"),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(module, example_inputs)
