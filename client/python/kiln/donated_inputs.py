"""What a forward saved for its backward alone: memory that the backward may write to.

    donate_saved(forward, backward, num_fwd_outputs)    # when the joint graph has been cut
    places = donated_places(backward.graph)             # of inputs, when it is compiled
    run = sparing(program, places)                      # what is called

A loss's gradient takes the place of the logits that it is computed of. A backward that is run again
(``retain_graph=True``) needs what was saved once more: then it is given copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import fx

from .fx_export import value_of
from .joint_nodes import storages
from .torch_inside import runs_again

_DONATED = "kiln_donated"
_LEAST_BYTES = 1 << 20  # a smaller one is not worth a copy


def _is_large(value: torch.Tensor) -> bool:
    elements = value.numel()
    return not isinstance(elements, int) or elements * value.element_size() >= _LEAST_BYTES


def donate_saved(
    forward: fx.GraphModule, backward: fx.GraphModule, num_fwd_outputs: int
) -> None:
    """Marks the inputs of a backward that it alone is given: no result, no input, in memory of its
    own."""
    if runs_again is None:
        return
    (output,) = forward.graph.find_nodes(op="output")
    results = [node for node in output.args[0] if isinstance(node, fx.Node)]
    seen = [node for node in output.args[0][:num_fwd_outputs] if isinstance(node, fx.Node)]
    seen = storages([*seen, *forward.graph.find_nodes(op="placeholder")])
    tensors = [node for node in results if isinstance(value_of(node), torch.Tensor)]
    owners = [storage for node in tensors for storage in storages([node])]
    saved = {
        node.name
        for node in tensors
        if _is_large(value_of(node))
        and all(s not in seen and owners.count(s) == 1 for s in storages([node]))
    }
    (given,) = backward.graph.find_nodes(op="output")
    kept = storages(given.all_input_nodes)
    for node in backward.graph.find_nodes(op="placeholder"):
        if node.name in saved and not storages([node]) & kept:
            node.meta[_DONATED] = True


def donated_places(graph: fx.Graph) -> list[int]:
    """Which of a graph's inputs are marked."""
    inputs = graph.find_nodes(op="placeholder")
    return [place for place, node in enumerate(inputs) if node.meta.get(_DONATED)]


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """One that lies as it does, with room between its rows too."""
    like = {"dtype": tensor.dtype, "device": tensor.device}
    return torch.empty_strided(tensor.size(), tensor.stride(), **like).copy_(tensor)


def sparing(
    program: Callable[[list], Sequence], places: Sequence[int]
) -> Callable[[list], Sequence]:
    """`program`, which gets copies of these inputs where autograd keeps its graph."""

    def run(inputs: list) -> Sequence:
        if runs_again():
            for place in places:
                inputs[place] = _copy_of(inputs[place])
        return program(inputs)

    return run
