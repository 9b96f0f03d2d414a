"""What device graphs must know of an ATen graph, as plain data that a cache can keep.

    facts = facts_of(module, "forward", static_inputs, options)
    facts["skip"]       # why it cannot be one, or None
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from .fx_export import is_symbolic, value_of
from .joint_nodes import mutates
from .steps import tensors_in

MODES = ("inference", "forward", "backward")  # by number, KilnGraphMode

# A capture of them fails, or freezes what must not be.
_FORBIDDEN = (
    "aten._fused_moving_avg_obs_fq_helper.default",
    "aten._fused_moving_avg_obs_fq_helper_functional.default",
    "fbgemm.dense_to_jagged.default",
    "fbgemm.jagged_to_padded_dense.default",
    "run_and_save_rng_state",
    "run_with_rng_state",
    "aten._local_scalar_dense",
    "aten._assert_scalar",
)


def trace_of(node: fx.Node) -> str:
    """The user's line for a node, with its file."""
    return node.meta.get("stack_trace") or ""


def _found_from(node: fx.Node) -> str:
    """Of an input where it is first used."""
    trace = next(filter(None, map(trace_of, (node, *node.users))), "")
    return f". Found from : \n {trace}" if trace else ""


_WRAPPED = ("auto_functionalized", "auto_functionalized_v2")


def operator_of(node: fx.Node) -> object:
    """The operator that a node calls: of one that writes, which AOTAutograd has write to copies, that
    operator itself."""
    return node.args[0] if str(node.target) in _WRAPPED else node.target


def is_unsafe(node: fx.Node) -> bool:
    """Whether an operator cannot be in a device graph."""
    target = operator_of(node)
    if not isinstance(target, torch._ops.OpOverload):
        return str(target) in _FORBIDDEN
    if torch._C.Tag.cudagraph_unsafe in target.tags or node.meta.get("unbacked_bindings"):
        return True
    return str(target) in _FORBIDDEN or str(target).rpartition(".")[0] in _FORBIDDEN


def is_masked_put(node: fx.Node) -> bool:
    """Whether an operator writes where a mask says: PyTorch finds out where on the host."""
    if not str(node.target).startswith(("aten.index_put", "aten._unsafe_index_put")):
        return False
    places = tensors_in([value_of(place) for place in node.args[1] if place is not None])
    return any(place.dtype in (torch.bool, torch.uint8) for place in places)


def why_not(module: fx.GraphModule, options: dict[str, object]) -> str | None:
    """Why a graph runs without a device graph, as PyTorch says it behind "skipping cudagraphs due
    to "."""
    devices: dict[torch.device, fx.Node] = {}
    for node in module.graph.nodes:
        for tensor in tensors_in(value_of(node)):
            if tensor.device.type != "meta":
                devices.setdefault(tensor.device, node)
    gpus = [device for device in devices if device.type == "cuda"]
    if not options["graph_partition"]:
        why = _why_not_whole(module, devices, options)
        if why is not None:
            return why
    if len(gpus) != 1:
        return f"multiple devices: {', '.join(map(repr, devices))}"
    return None


def _why_not_whole(
    module: fx.GraphModule, devices: dict[torch.device, fx.Node], options: dict[str, object]
) -> str | None:
    """Of a graph that may not be cut (graph_partitions.py)."""
    symbolic = [n for n in module.graph.find_nodes(op="placeholder") if is_symbolic(n)]
    if options["cudagraph_skip_dynamic_graphs"] and symbolic:
        return f"graph with symbolic shapes inputs{_found_from(symbolic[0])}"
    for node in module.graph.nodes:
        if node.op == "call_function" and (is_unsafe(node) or is_masked_put(node)):
            return f"disabling cudagraphs due to incompatible op {operator_of(node)}{_found_from(node)}"
    for device, node in devices.items():
        if device.type != "cuda":
            return f"{device.type} device ({node.name}){_found_from(node)}"
    return None


def _mutated(module: fx.GraphModule) -> list[fx.Node]:
    return [n for n in module.graph.nodes if mutates(n) and n.args[0].op == "placeholder"]


def facts_of(
    module: fx.GraphModule, kind: str, static: Sequence[int], options: dict[str, object]
) -> dict[str, object]:
    """``static``: numbers of the inputs that keep their addresses."""
    inputs = module.graph.find_nodes(op="placeholder")
    places = {node: place for place, node in enumerate(inputs)}
    (output,) = module.graph.find_nodes(op="output")
    results = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
    writes = _mutated(module)
    mutated = sorted({places[node.args[0]] for node in writes})
    skip = why_not(module, options)
    refused = [place for place in mutated if place not in static]
    trace = next((trace_of(n) for n in writes if places[n.args[0]] in refused and trace_of(n)), "")
    if refused and not options["cudagraph_support_input_mutation"]:
        found = f". Found from : \n {trace}" if trace else ""
        skip = f"mutated inputs ({len(refused)} instances){found}"
    return {
        "mode": MODES.index(kind),
        "skip": skip,
        "tensors": [
            place
            for node, place in places.items()
            if any(t.device.type == "cuda" for t in tensors_in(value_of(node)))
        ],
        "integers": [place for node, place in places.items() if is_symbolic(node)],
        "static": list(static),
        "mutated": mutated,
        "names": [node.name for node in inputs],
        "traces": [trace_of(node) or None for node in inputs],
        "output_traces": [
            trace_of(result) or None if isinstance(result, fx.Node) else None for result in results
        ],
        "mutation_trace": trace,
    }
