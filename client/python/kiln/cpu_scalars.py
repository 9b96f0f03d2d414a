"""Numbers on the CPU that a GPU's operators read: tensors without dimensions.

    move_scalars(module.graph)

PyTorch reads such a tensor on the host when it launches, which a device graph would do once for all
replays. So all of them are copied first, once a call and in one copy, and what reads them is captured
with the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import fx
from torch._guards import detect_fake_mode

from .fx_export import value_of
from .joint_nodes import call, mutates
from .steps import device_of, tensors_in

_SLOT = 16  # bytes: what a graph's input is aligned to

_library = torch.library.Library("kiln", "FRAGMENT")
_library.define("scalars_to(Tensor[] scalars, Device device) -> Tensor[]")


@torch.library.impl(_library, "scalars_to", "CPU")
def _scalars_to(scalars: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Copies of the scalars on a device, each in a slot of one tensor, those of a dtype together."""
    by_dtype: dict[torch.dtype, list[int]] = {}
    for place, scalar in enumerate(scalars):
        by_dtype.setdefault(scalar.dtype, []).append(place)
    slots = torch.empty(len(scalars), _SLOT, dtype=torch.uint8)
    begin = 0
    for dtype, places in by_dtype.items():
        same = torch.stack([scalars[place] for place in places])
        slots[begin : begin + len(places)].view(dtype)[:, 0].copy_(same)
        begin += len(places)
    moved = slots.to(device, non_blocking=True)
    found: list[torch.Tensor] = [moved] * len(scalars)
    begin = 0
    for dtype, places in by_dtype.items():
        same = moved[begin : begin + len(places)].view(dtype)[:, 0]
        for place, scalar in zip(places, same.unbind()):
            found[place] = scalar
        begin += len(places)
    return found


@torch.library.register_fake("kiln::scalars_to", lib=_library)
def _(scalars: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    return [torch.empty_like(scalar, device=device) for scalar in scalars]


SCALARS_TO = torch.ops.kiln.scalars_to.default


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


def _moved(graph: fx.Graph, scalars: list[fx.Node], device: torch.device) -> list[fx.Node]:
    """The scalars on the device, copied where the graph inserts."""
    meta = scalars[0].meta
    if len(scalars) == 1:
        return [call(graph, meta, torch.ops.prims.device_put.default, scalars[0], device, True)]
    copied = call(graph, meta, SCALARS_TO, scalars, device)
    picked = []
    for place, value in enumerate(value_of(copied)):
        node = graph.call_function(operator.getitem, (copied, place))
        node.meta["val"] = value
        picked.append(node)
    return picked


def move_scalars(graph: fx.Graph) -> None:
    """Copies the scalars among a graph's inputs and constants where its GPU reads them."""
    device = device_of(graph)
    users = {
        node: found
        for node in graph.nodes
        if _is_scalar(node) and (found := [user for user in node.users if _reads(user, device)])
    }
    if not users:
        return
    first = next(other for other in graph.nodes if other.op not in ("placeholder", "get_attr"))
    with detect_fake_mode([*map(value_of, users)]), graph.inserting_before(first):
        copies = _moved(graph, list(users), device)
    for (node, found), copied in zip(users.items(), copies, strict=True):
        for user in found:
            user.replace_input_with(node, copied)
