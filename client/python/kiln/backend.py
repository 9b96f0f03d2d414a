"""``torch.compile(model, backend="kiln")``.

Dynamo gives a graph; AOTAutograd makes functional ATen graphs of it, forward and backward; each
becomes a CompiledGraph. Compiles run beside the program, on threads that do not hold the GIL: a
forward and its backward, requested one after the other, are compiled at once. AOTAutograd's cache
waits for both to keep them; without it the first call of each waits for its own.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import fx
from torch._decomp import get_decompositions
from torch._dynamo.utils import counters as dynamo_counters
from torch._dynamo.utils import flatten_graph_inputs
from torch._functorch.aot_autograd import aot_module_simplified

from . import config, service
from .aot_cache import compiler_of, serving, shared_storages
from .attention_masks import lay_out_masks
from .attention_widths import fix_widths
from .compiled_graph import CompiledGraph
from .eager_segment import strict
from .flash_states import take_states_as_bits
from .float_scalars import compute_float_scalars
from .fuse_attention import fuse_attention
from .fuse_linear_cross_entropy import fuse_linear_cross_entropy
from .graph_choice import Chooser, annotated
from .partition import cut
from .random_seeds import draw_from_seeds
from .rare_collections import collect_rarely
from .recompiles import note_dynamo
from .refused_graph import ground_of, run_in_pytorch
from .torch_inside import hold_device_guard, writes_inputs

collect_rarely()
hold_device_guard()  # of the thread that names the backend, before any thread traces

_numbers = itertools.count()
# {mode of torch.compile: options}
MODES = {
    "default": {},
    "reduce-overhead": {"cudagraphs": True},
    "max-autotune": {"cudagraphs": True, "max_autotune": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}

_aten = torch.ops.aten
# Taken apart before a joint graph is cut in two, since the cut computes pointwise operators again
# in the backward, and keeps what these give whole. All else is taken apart by the service. Without
# one, this part more is saved of a model of bench/saved_bytes.py (bench/records/box.md).
_DECOMPOSED = get_decompositions(
    [
        _aten._log_softmax,  # with the three below 1.08 of BERT (the logits)
        _aten._log_softmax_backward_data,
        _aten.nll_loss_forward,
        _aten.nll_loss_backward,
        _aten.native_layer_norm,  # 0.02 of convnext
        _aten.native_layer_norm_backward,  # 0.03 of bert
        _aten.native_group_norm,  # 0.39 of unet
        _aten._native_batch_norm_legit_functional,  # 0.46 of mlp_batchnorm
        _aten.native_batch_norm_backward,  # 0.07 of mlp_batchnorm
        _aten.threshold_backward,  # 0.002 of resnet50
    ]
)


def _open_early(example_inputs: Sequence[object]) -> None:
    devices = [value.device for value in example_inputs if isinstance(value, torch.Tensor)]
    for device in sorted(devices, key=lambda device: device.type != "cuda")[:1]:
        if device.type in ("cpu", "cuda"):
            service.open_early(device)


def _named(options: object) -> Mapping[str, object]:
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TypeError(f"kiln: options: found {options!r}, expected a dict of names and values")
    return options


def kiln(
    module: fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    mode: str | None = None,
    options: dict[str, object] | None = None,
) -> Callable[..., object]:
    """The backend, as the entry point ``torch_dynamo_backends`` names it.

    ``options``: those of ``kiln.config``, for this model, which go before those of ``mode``. The
    modes "reduce-overhead" and "max-autotune" are the option ``cudagraphs``, the latter and
    "max-autotune-no-cudagraphs" the option ``max_autotune``.
    """
    mode = mode or "default"
    if mode not in MODES:
        raise ValueError(f"kiln: mode {mode!r}: there is no such mode; expected one of {', '.join(MODES)}")
    values = config.snapshot({**MODES[mode], **_named(options)})
    strict()  # a wrong word is told of now, not when a graph is refused
    if config.switched_on("KILN_DISABLE"):
        return module.forward
    service.load_library()
    collect_rarely()
    _open_early(example_inputs)
    note_dynamo()
    return _compiled(module, example_inputs, annotated(values, module))


def _reset() -> None:
    """torch._dynamo.reset() asks each backend for it."""
    trees = sys.modules.get(f"{__package__}.graph_trees")
    if trees is not None:
        trees.reset()


kiln.reset = _reset


def _compiled(
    module: fx.GraphModule, example_inputs: Sequence[object], values: dict[str, object]
) -> Callable[..., object]:
    why = ground_of(module, example_inputs)
    if why is not None:
        return run_in_pytorch(module, f"dynamo_{next(_numbers)}", why)
    if any(isinstance(value, (list, tuple, dict)) for value in example_inputs):

        def compile_flat(flat: torch.nn.Module, inputs: list[object]) -> Callable[..., object]:
            return _aot(flat, module, inputs, values)

        return flatten_graph_inputs(module, example_inputs, compile_flat)
    return _aot(module, module, example_inputs, values)


def _aot(
    called: torch.nn.Module,
    module: fx.GraphModule,
    example_inputs: Sequence[object],
    values: dict[str, object],
) -> Callable[..., object]:
    """Compiles `called`: Dynamo's graph `module`, or what calls it with inputs of its lists."""
    chooser = Chooser(values)

    def compile_graph(kind: str) -> Callable[..., CompiledGraph]:
        def compile_(module: fx.GraphModule, example_inputs: Sequence[object]) -> CompiledGraph:
            is_inference = kind == "inference"
            if is_inference:
                take_states_as_bits(module)
            if is_inference and not values["fallback_random"]:
                draw_from_seeds(module)
            compute_float_scalars(module)
            name = f"{kind}_{next(_numbers)}"
            choice = chooser.choose(module, kind)
            graph = CompiledGraph(module, name, values, is_inference, choice)
            graph.unkept = shares and writes_inputs()
            return graph

        return compiler_of(compile_)

    # Dynamo's DDPOptimizer cuts a model into buckets, and asks this count whether AOTAutograd made
    # what it got. If so it makes the first call of each, which gives fake tensors, itself.
    dynamo_counters["aot_autograd"]["total"] += 1
    shares = bool(shared_storages(example_inputs))
    if not values["emulate_precision_casts"]:  # fused kernels round no scores and weights
        fuse_attention(module, draws=not values["fallback_random"])
    lay_out_masks(module)
    fix_widths(module)
    if values["fuse_linear_cross_entropy"]:
        fuse_linear_cross_entropy(module)
    with serving(values, module, example_inputs):
        compiled = aot_module_simplified(
            called,
            example_inputs,
            fw_compiler=compile_graph("forward"),
            bw_compiler=compile_graph("backward"),
            inference_compiler=compile_graph("inference"),
            decompositions=_DECOMPOSED,
            partition_fn=functools.partial(cut, options=values, donates=chooser.donates),
            keep_inference_input_mutations=True,
        )
    dynamo_counters["aot_autograd"]["ok"] += 1
    return torch._dynamo.disable(compiled, reason="it is compiled")
