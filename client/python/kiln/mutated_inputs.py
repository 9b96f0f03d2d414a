"""Inputs that a forward writes to, as its backward has to see them: before they were written.

    names = keep_first_values(joint_module, num_fwd_outputs)
    ...                                                   # the cut
    drop_unsaved(forward, names)

The cut takes inputs for something that is there in the backward too, and computes again from them;
of one that the forward has written meanwhile (a buffer's moving average) it would get other
numbers. So what the backward needs of such an input is read from a copy, made first of all, that is never
computed again: the cut saves the copy, or what is made of it.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch._guards import detect_fake_mode
from torch.utils.checkpoint import CheckpointPolicy

from .fx_export import value_of
from .joint_nodes import call, is_view, needed_by_backward, same_layout, storages

_aten = torch.ops.aten


def _written(graph: fx.Graph) -> list[fx.Node]:
    """The inputs that the forward writes to, in the graph or when it has returned."""
    written = {
        node.args[0]
        for node in graph.find_nodes(op="call_function", target=_aten.copy_.default)
        if node.meta.get("partitioner_tag") != "must_be_in_backward"
    }
    # AOTAutograd's words on what an input and a result stand for.
    (output,) = graph.find_nodes(op="output")
    later = {
        result.mutated_input
        for result in output.meta.get("desc", ())
        if isinstance(result, InputMutationAOTOutput)
    }
    inputs = graph.find_nodes(op="placeholder")
    return [node for node in inputs if node in written or node.meta.get("desc") in later]


def _lay_out_views(source: fx.Node) -> None:
    """Has the views of `source` know its layout, and that they are its."""
    for view in source.users:
        if is_view(view):
            args, kwargs = fx.node.map_arg((view.args, view.kwargs), value_of)
            view.meta["val"] = view.target(*args, **kwargs)
            _lay_out_views(view)


def keep_first_values(module: fx.GraphModule, num_fwd_outputs: int) -> set[str]:
    """Rewrites a joint graph, in place. Gives the names of the copies."""
    graph = module.graph
    written = _written(graph)
    needed = needed_by_backward(graph, num_fwd_outputs) if written else set()
    copies: set[str] = set()
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in written:
        if node not in needed:
            continue
        readers = [
            user
            for user in node.users
            if user.op != "output" and user.target is not _aten.copy_.default
        ]
        meta = {"recompute": CheckpointPolicy.MUST_SAVE, "partitioner_tag": "is_forward"}
        with detect_fake_mode([value_of(node)]), graph.inserting_before(first):
            copy = call(graph, meta, _aten.clone.default, node)
            for reader in readers:
                reader.replace_input_with(node, copy)
            _lay_out_views(copy)
        copies.add(copy.name)
    return copies


def drop_unsaved(forward: fx.GraphModule, copies: set[str]) -> None:
    """Takes out of a forward the copies that are not saved: it reads inputs before it writes."""
    graph = forward.graph
    (output,) = graph.find_nodes(op="output")
    leaving = storages(output.all_input_nodes)
    for node in graph.find_nodes(op="call_function", target=_aten.clone.default):
        if node.name in copies and not storages([node]) & leaving:
            if same_layout(value_of(node), value_of(node.args[0])):
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
    forward.recompile()
