"""Where a joint graph is cut into a forward and a backward.

    forward, backward = cut(joint, inputs, num_fwd_outputs=1, options=options, donates=True)

The one place that decides what is saved between the two, and how it lies (saved_layouts.py).
It is PyTorch's minimum cut: what is cheap to compute again, pointwise operators above all, is not
saved. What is done to the joint graph before lets the cut see more that is cheap.
bench/saved_bytes.py measures it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition

from .common_subexpressions import merge_equal
from .donated_inputs import donate_saved
from .flash_states import take_states_as_bits
from .fx_export import value_of
from .joint_nodes import same_layout, storages
from .mutated_inputs import drop_unsaved, keep_first_values
from .padded_gradients import pad_gradients
from .padded_weights import share_padded_weights
from .random_seeds import draw_from_seeds
from .saved_layouts import lay_out_saved
from .small_indices import shrink_pool_indices

_aten = torch.ops.aten


def cut(
    joint: fx.GraphModule,
    inputs: Sequence[object],
    *,
    num_fwd_outputs: int,
    options: Mapping[str, object],
    donates: bool,
    **others: object,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward of a joint graph, which it changes. ``options``: kiln.config's;
    ``donates``: whether the backward may write to what the forward saves for it alone; ``others``:
    what AOTAutograd has to say to its partitioners."""
    if not options["fallback_random"]:
        draw_from_seeds(joint, num_fwd_outputs)
    _drop_copies(joint.graph)
    take_states_as_bits(joint)
    shrink_pool_indices(joint)
    merge_equal(joint.graph)
    copies = keep_first_values(joint, num_fwd_outputs)
    forward, backward = min_cut_rematerialization_partition(
        joint, inputs, num_fwd_outputs=num_fwd_outputs, **others
    )
    drop_unsaved(forward, copies)
    share_padded_weights(forward, backward, num_fwd_outputs, options)
    pad_gradients(backward, options)
    lay_out_saved(forward, backward, num_fwd_outputs, options)
    if donates:
        donate_saved(forward, backward, num_fwd_outputs)
    return forward, backward


def _drop_copies(graph: fx.Graph) -> None:
    """Takes out operators whose result is their operand: `detach`, with which autograd hands what an
    operator gave to its own backward (tanh), and clones that lay nothing out anew (a dropout of
    probability 0). The cut would compute neither again, and save the copy too.

    A result that leaves the graph stays another tensor, and a copy of an input is not the input."""
    (output,) = graph.find_nodes(op="output")
    leaving = storages(output.all_input_nodes)
    entering = storages([n for n in graph.nodes if n.op in ("placeholder", "get_attr")])
    for node in graph.find_nodes(op="call_function", target=_aten.detach.default):
        if output not in node.users:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    for node in graph.find_nodes(op="call_function", target=_aten.clone.default):
        source = node.args[0]
        if not storages([node]) & leaving and not storages([source]) & entering:
            if same_layout(value_of(node), value_of(source)):
                node.replace_all_uses_with(source)
                graph.erase_node(node)
