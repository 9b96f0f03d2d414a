"""Numbers on the CPU that a GPU's operators read: tensors without dimensions.

    move_scalars(module.graph)

PyTorch reads such a tensor on the host when it launches, which a device graph would do once for all
replays. So it is copied first, once a call, and what reads it is captured with the rest.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._guards import detect_fake_mode

from .fx_export import value_of
from .joint_nodes import call
from .steps import device_of, mutates, tensors_in


def _is_scalar(node: fx.Node) -> bool:
    value = value_of(node)
    if node.op not in ("placeholder", "get_attr") or not isinstance(value, torch.Tensor):
        return False
    return value.device.type == "cpu" and value.dim() == 0


def _reads(user: fx.Node, device: torch.device) -> bool:
    """Whether a node computes on the device with what it is given from elsewhere."""
    values = tensors_in(value_of(user))
    others = [tensor for source in user.all_input_nodes for tensor in tensors_in(value_of(source))]
    return (
        user.op == "call_function"
        and not mutates(user)
        and bool(values)
        and all(tensor.device == device for tensor in values)
        and any(tensor.device == device for tensor in others)
    )


def move_scalars(graph: fx.Graph) -> None:
    """Copies the scalars among a graph's inputs and constants where its GPU reads them."""
    device = device_of(graph)
    found = [
        (node, users)
        for node in graph.nodes
        if _is_scalar(node) and (users := [u for u in node.users if _reads(u, device)])
    ]
    with detect_fake_mode([value_of(node) for node, _ in found]) if found else torch.no_grad():
        for node, users in found:
            first = next(other for other in graph.nodes if other.op not in ("placeholder", "get_attr"))
            with graph.inserting_before(first):
                copied = call(graph, node.meta, torch.ops.prims.device_put.default, node, device, True)
            for user in users:
                user.replace_input_with(node, copied)
