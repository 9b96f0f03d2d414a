"""``torch.compile(model, backend="kiln")``.

Dynamo gives a graph; AOTAutograd makes functional ATen graphs of it, forward and backward; each
becomes a CompiledGraph. Compiles run beside the program, on threads that do not hold the GIL: a
forward and its backward, requested one after the other, are compiled at once, and the first call of
each waits for its own.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence

from torch import fx
from torch._guards import CompileContext

from . import config, service
from .compiled_graph import CompiledGraph
from .counters import counters

_numbers = itertools.count()


def disabled() -> bool:
    """Whether ``KILN_DISABLE=1`` turns the backend into eager mode."""
    return os.environ.get("KILN_DISABLE", "0") not in ("", "0")


def _count_recompile() -> None:
    # The first compile of a frame is number 0.
    compile_id = CompileContext.current_compile_id()
    if compile_id is not None and compile_id.frame_compile_id:
        counters.add("recompiles")


def kiln(
    module: fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    mode: str | None = None,
    options: dict[str, object] | None = None,
) -> Callable[..., object]:
    """The backend, as the entry point ``torch_dynamo_backends`` names it.

    ``options``: those of ``kiln.config``, for this model. ``mode``: "default" or None; others are
    refused by name.
    """
    if mode not in (None, "default"):
        raise NotImplementedError(f"kiln: mode {mode!r}: not built yet")
    values = config.snapshot(**(options or {}))
    if disabled():
        return module.forward
    service.load_library()
    _count_recompile()
    return _aot(values)(module, example_inputs)


def _aot(values: dict[str, object]) -> Callable[..., object]:
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    def compiler(kind: str) -> Callable[..., CompiledGraph]:
        def compile_graph(module: fx.GraphModule, example_inputs: Sequence[object]) -> CompiledGraph:
            return CompiledGraph(module, f"{kind}_{next(_numbers)}", values)

        return compile_graph

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
