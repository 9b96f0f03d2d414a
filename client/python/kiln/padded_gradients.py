"""Gradients on padded rows from one graph's backward to another's, where a graph break stands between
a model and its loss.

    side_of_break(module, inputs, options)    # what an entry of a cache depends on
    pad_gradients(backward, options)

The gradient of logits over 50,257 words has rows that are no whole vectors, and both products that
read it want them aligned: a copy of all of it, 0.55 ms of a GPT-2 on an H100. So a backward behind a
break that gives such a gradient, of an input that is no leaf, gives it on longer rows, and one before
a break whose products read such a gradient is compiled for longer rows. Eager mode promises no
strides of such gradients; leaves keep theirs.

Without a break the other side may be eager mode's. A gradient that comes with other rows than were
awaited is copied by AOTAutograd, which takes twice as long as the compiler's copy: so there rows stay
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import fx
from torch._guards import detect_fake_mode

from .fx_export import value_of
from .joint_nodes import call, is_view, storages
from .saved_layouts import PRODUCTS, padded_strides, pads_rows_of
from .torch_inside import expect_gradient, metadata_of_cut, stands_at_break


def _is_read_by_products_alone(gradient: fx.Node) -> bool:
    """Directly or through views, and a sum for a bias beside them."""
    found = False
    pending = list(gradient.users)
    while pending:
        user = pending.pop()
        if is_view(user):
            pending += user.users
        elif user.target in PRODUCTS:
            found = True
        elif user.target is not torch.ops.aten.sum.dim_IntList:
            return False
    return found


def side_of_break(
    module: fx.GraphModule, example_inputs: Sequence[object], options: Mapping[str, object]
) -> tuple[bool, bool] | None:
    """On which sides of graph breaks Dynamo's graph stands (torch_inside.stands_at_break); None where
    it has no rows to pad among its inputs and results."""
    if not pads_rows_of(options):
        return None
    (output,) = module.graph.find_nodes(op="output")
    results = [node.meta.get("example_value") for node in output.all_input_nodes]
    pads = any(padded_strides(value) for value in (*example_inputs, *results))
    return stands_at_break() if pads else None


def pad_gradients(backward: fx.GraphModule, options: Mapping[str, object]) -> None:
    """Changes it, and what AOTAutograd knows of its inputs. ``options``: kiln.config's."""
    if not pads_rows_of(options):
        return
    resumes, breaks = stands_at_break()
    graph = backward.graph
    inputs = graph.find_nodes(op="placeholder")
    gradients = [node for node in inputs if node.name.startswith("tangents")]
    taken = {
        place: strides
        for place, node in enumerate(gradients if breaks else ())
        if (strides := padded_strides(value_of(node))) and _is_read_by_products_alone(node)
    }
    (output,) = graph.find_nodes(op="output")
    results = list(output.args[0])
    given = {
        place: strides
        for place, node in enumerate(results if resumes else ())
        if isinstance(node, fx.Node) and (strides := padded_strides(value_of(node)))
    }
    metadata = metadata_of_cut() if taken or given else None
    if metadata is None:
        return
    if len(metadata.subclass_tangent_meta) == len(gradients):
        for place, strides in taken.items():
            _take_padded(gradients[place], strides)
            expect_gradient(metadata, place, value_of(gradients[place]).size(), strides)
    if len(metadata.input_info) == len(results):
        kept = storages(inputs)
        for place, strides in given.items():
            alone = results.count(results[place]) == 1 and not storages([results[place]]) & kept
            if alone and not metadata.input_info[place].is_leaf:
                results[place] = _padded(results[place], output, strides)
        output.args = (results,) if isinstance(output.args[0], list) else (tuple(results),)
    backward.recompile()


def _take_padded(gradient: fx.Node, strides: list[int]) -> None:
    """Gives an input longer rows, and its views those that they have then."""
    value = value_of(gradient)
    gradient.meta.pop("tensor_meta", None)
    with detect_fake_mode([value]):
        like = {"dtype": value.dtype, "device": value.device}
        gradient.meta["val"] = torch.empty_strided(value.size(), strides, **like)
        pending = [user for user in gradient.users if is_view(user)]
        while pending:
            view = pending.pop()
            view.meta.pop("tensor_meta", None)
            args, words = fx.node.map_arg((view.args, view.kwargs), value_of)
            view.meta["val"] = view.target(*args, **words)
            pending += [user for user in view.users if is_view(user)]


def _padded(gradient: fx.Node, output: fx.Node, strides: list[int]) -> fx.Node:
    graph, copy = gradient.graph, torch.ops.prims.copy_strided.default
    with detect_fake_mode([value_of(gradient)]), graph.inserting_before(output):
        return call(graph, gradient.meta, copy, gradient, strides)
