"""The views that results are: of inputs, and of each other.

PyTorch makes them, after the segments: a result that views an input aliases it, and results that
view one tensor are in one storage, each at its offset. What computes with such a view computes with
a twin of it, which is the compiler's: else every segment that reads the view would wait for PyTorch
to make it, and a graph would fall in two around it.

Of a graph with a backward only views of inputs are set apart. Most of its results are saved for the
backward, which asks for numbers and not for storages; and of those that are the user's AOTAutograd
makes the views itself, when the graph has returned, where they have gradients.
"""

from __future__ import annotations

import operator

from torch import fx

from .joint_nodes import is_view


def _way_from(result: fx.Node) -> tuple[fx.Node, list[fx.Node]]:
    """The tensor that a result is a view of, itself if of none, and the views between, each of the
    one after."""
    path: list[fx.Node] = []
    node = result
    while True:
        picked = node.target is operator.getitem  # of several views, or of several results
        source = node.args[0] if picked else node
        if not is_view(source):
            return node, path
        path += [node, source] if picked else [node]
        node = source.args[0]


def _on_the_way_out(graph: fx.Graph, is_inference: bool) -> set[fx.Node]:
    """The views between an input, or a tensor that several results are in, and a result."""
    (output,) = graph.find_nodes(op="output")
    ways = [_way_from(result) for result in output.all_input_nodes]
    viewed: list[fx.Node] = [whole for whole, _ in ways]
    found: set[fx.Node] = set()
    for whole, path in ways:
        is_input = whole.op in ("placeholder", "get_attr")
        if is_input or (is_inference and viewed.count(whole) > 1):
            found.update(path)
    return found


def set_apart(graph: fx.Graph, is_inference: bool) -> set[fx.Node]:
    """The views on the way to a result; afterwards nothing but results uses them."""
    views = _on_the_way_out(graph, is_inference)
    twins: dict[fx.Node, fx.Node] = {}
    for node in [node for node in graph.nodes if node in views]:
        inner = [user for user in node.users if user.op != "output" and user not in views]
        if not inner and not any(user in views for user in node.users):
            continue
        with graph.inserting_after(node):
            twin = graph.node_copy(node, lambda source: twins.get(source, source))
        twins[node] = twin
        for user in inner:
            user.replace_input_with(node, twin)
    for twin in reversed(twins.values()):
        if not twin.users:
            graph.erase_node(twin)
    return views
