"""The random states that flash attention saves for its backward, as their bits.

    take_states_as_bits(module)

PyTorch has them as uint64, a dtype that Kiln does not compute with. Nobody computes with a state: where
only the operator's own backward reads it, it is int64 of the same size in the graph.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._guards import detect_fake_mode

from .fx_export import value_of

_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention.default
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_backward.default
_STATES = (6, 7)  # of the operator's results: rng_state, unused


def take_states_as_bits(module: fx.GraphModule) -> None:
    """Changes what the graph says of the states of its flash attentions, in place. One that anything
    else reads stays as it is, and the operator PyTorch's."""
    for node in module.graph.find_nodes(op="call_function", target=_FORWARD):
        gets = [user for user in node.users if user.args[1] in _STATES]
        if any(reader.target is not _BACKWARD for get in gets for reader in get.users):
            continue
        values = list(value_of(node))
        for place in _STATES:
            values[place] = _as_bits(values[place])
        node.meta["val"] = tuple(values)
        for get in gets:
            get.meta["val"] = values[get.args[1]]
            get.meta.pop("tensor_meta", None)


def _as_bits(state: torch.Tensor) -> torch.Tensor:
    if state.dtype != torch.uint64:
        return state
    with detect_fake_mode([state]):
        return torch.empty(state.shape, dtype=torch.int64, device=state.device)
