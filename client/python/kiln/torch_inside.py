"""What of PyTorch's insides differs from version to version, torch 2.9 to 2.15: asked for by what is
there, never by a version's number. (How tensors cross without an exchange table, as in torch 2.9, is
native/exchange.h.)
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
import warnings
from collections.abc import Callable, Mapping

import sympy
import torch
from torch import fx
from torch._dynamo import convert_frame, output_graph
from torch._dynamo.decorators import skip as untraced
from torch._functorch import config as _config
from torch._functorch._aot_autograd import graph_compile, schemas
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache, FXGraphCacheMiss
from torch._guards import TracingContext
from torch._inductor import codecache
from torch._inductor.output_code import OutputCode
from torch._prims import rng_prims
from torch.utils.checkpoint import CheckpointPolicy

__all__ = [
    "CACHE_SWITCHES",
    "BypassAOTAutogradCache",
    "FXGraphCacheMiss",
    "OutputCode",
    "donates_buffers",
    "expect_gradient",
    "frame_in_compile",
    "graph_compile",
    "graphsafe_run_with_rng_state",
    "hints_of",
    "hold_device_guard",
    "keeps_any_backend",
    "last_frame",
    "metadata_of_cut",
    "must_recompute",
    "parameters_are_inputs",
    "registers_code_generators",
    "runs_again",
    "stands_at_break",
    "untraced",
    "writes_inputs",
]

# ``untraced`` marks a function, whose own frame Dynamo then leaves alone. ``torch._dynamo.disable``
# would do the same by a wrapper, for half a microsecond at each call.

# Without them AOTAutograd's cache keeps nothing of another backend.
CACHE_SWITCHES = ("bundled_autograd_cache", "force_non_lazy_backward_lowering")


@functools.cache
def keeps_any_backend() -> bool:
    """Whether AOTAutograd's cache takes entries that Inductor did not make. Torch 2.9 keeps those
    alone, so there each process traces anew."""
    return all(hasattr(_config, switch) for switch in CACHE_SWITCHES)


def registers_code_generators() -> bool:
    """Whether the cache's keys import all of Inductor's code generators."""
    return hasattr(codecache, "init_backend_registration")


# How a checkpoint runs a random operator again; None where there is no such operator.
graphsafe_run_with_rng_state = getattr(rng_prims, "graphsafe_run_with_rng_state", None)


# Whether the backward that runs now may run again, of the thread that runs it; None where that
# cannot be told.
runs_again = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)


def donates_buffers() -> bool:
    """Whether AOTAutograd refuses a second backward of a graph whose saved tensors a compiler may
    write to. Kiln's may be run again (donated_inputs.py)."""
    return hasattr(graph_compile, "collect_bw_donated_buffer_idxs")


def parameters_are_inputs() -> bool:
    """Whether Dynamo hands a module's parameters to its graph as inputs. Always, from some version on,
    which warns of the switch there was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return getattr(torch._dynamo.config, "inline_inbuilt_nn_modules", True)


def writes_inputs() -> bool:
    """Of the graph that AOTAutograd has compiled now: whether it writes to inputs, also when it
    has returned. True when that is not known."""
    context = TracingContext.try_get()
    known = context.fw_metadata if context is not None else None
    return known is None or any(info.mutates_data for info in known.input_info)


def metadata_of_cut() -> object | None:
    """AOTAutograd's metadata of the graph that it cuts now (ViewAndMutationMeta): what of it is
    changed holds for the calls. None where it is not found, and of graphs with subclasses.

    Read where AOTAutograd keeps it meanwhile: its partitioners are not told."""
    frame = sys._getframe(1) if hasattr(schemas, "MemoryFormatMeta") else None
    while frame is not None:
        if frame.f_code.co_filename == graph_compile.__file__:
            known = frame.f_locals
            if "fw_metadata" in known and "maybe_subclass_meta" in known:
                return known["fw_metadata"] if known["maybe_subclass_meta"] is None else None
        frame = frame.f_back
    return None


def stands_at_break() -> tuple[bool, bool]:
    """Of the graph that Dynamo compiles now: whether it goes on behind a graph break, and whether it
    ends at one. Both sides of a break have one compiler."""
    known = frame_in_compile()
    resumes = known is not None and known[0].co_name.startswith("torch_dynamo_resume_in")
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "compile_subgraph" and code.co_filename == output_graph.__file__:
            return resumes, bool(getattr(frame.f_locals.get("reason"), "graph_break", False))
        frame = frame.f_back
    return resumes, False


def expect_gradient(metadata: object, place: int, size: torch.Size, stride: list[int]) -> None:
    """Has the gradient of an output come with these strides, whatever the output's are. One that
    comes otherwise is copied."""
    due = schemas.MemoryFormatMeta(size=torch.Size(size), stride=tuple(stride))
    metadata.subclass_tangent_meta[place].memory_format = due


def frame_in_compile() -> tuple[types.CodeType, list[str]] | None:
    """Of the compile by Dynamo that this thread is in: the frame's code, and for each version of it
    whose guards failed "frame/version: guard", and the user's stack. None outside of one.

    Read where Dynamo keeps it while it compiles: what it records beside that tells of the outermost
    compile alone, or leaves out versions that ended with what they guarded."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_compile" and code.co_filename == convert_frame.__file__:
            known = frame.f_locals
            failed = known.get("recompile_reason") is not None
            return known["code"], list(known.get("reasons", ())) if failed else []
        frame = frame.f_back
    return None


def hints_of(shape_env: object) -> Mapping[sympy.Symbol, sympy.Expr]:
    """The sizes that symbols had where they were traced."""
    # Called `backed_var_to_val` from 2.11 on.
    name = "backed_var_to_val" if hasattr(shape_env, "backed_var_to_val") else "var_to_val"
    return getattr(shape_env, name)


def must_recompute(meta: dict[str, object]) -> None:
    """Marks a joint graph's node, by its ``meta``, as one that the backward computes again."""
    meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    # Torch 2.9's cut compares the numbers of the checkpointed regions of such nodes and their users,
    # to save what crosses from one to a later one, and reads them unasked. NaN is before none and
    # behind none; later versions take a node without a number for that.
    meta.setdefault("ac_graph_id", math.nan)


@functools.cache
def _reader_of_traces() -> Callable | None:
    read = getattr(fx.graph, "_parse_stack_trace", None)
    return read if read and "filter_fn" in inspect.signature(read).parameters else None


def last_frame(stack_trace: str, is_left_out: Callable[[str], bool] = lambda file: False) -> str:
    """The innermost frame of a node's ``stack_trace`` whose file is not left out, as "model.py:12 in
    forward"; "" where there is none, or this torch has no function that reads such traces."""
    read = _reader_of_traces()
    frame = read and read(stack_trace, lambda file, *_: not is_left_out(file))
    return f"{frame.file}:{frame.lineno} in {frame.name}" if frame is not None else ""


def hold_device_guard() -> None:
    """Where torch was built for CUDA and no GPU is there, its tracer runs beneath a stand-in for
    CUDA's device guard that belongs to the thread which traces first, and when that thread has
    ended the next trace ends the process (torch 2.11, with any backend). This has it belong to the
    thread that calls."""
    ensure = getattr(torch._C, "_ensureCUDADeviceGuardSet", None)
    if ensure is not None and not torch.cuda.is_available():
        ensure()
