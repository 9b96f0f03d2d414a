"""The views through which inputs are results.

PyTorch makes them, after the segments, so that the results alias the inputs. What computes with
such a view computes with a twin of it, which is the compiler's: else every segment that reads the
view would wait for PyTorch to make it, and a graph would fall in two around it.
"""

from __future__ import annotations

import operator

from torch import fx

from .joint_nodes import is_view


def _on_the_way_out(graph: fx.Graph) -> set[fx.Node]:
    """The views between an input and a result, each a view of the one before."""
    found: set[fx.Node] = set()
    (output,) = graph.find_nodes(op="output")
    for result in output.all_input_nodes:
        path: list[fx.Node] = []
        node = result
        while is_view(node) or node.target is operator.getitem:
            path.append(node)
            node = node.args[0]
        if node.op in ("placeholder", "get_attr"):
            found.update(path)
    return found


def set_apart(graph: fx.Graph) -> set[fx.Node]:
    """The views on the way from an input to a result; afterwards nothing but results uses them."""
    views = _on_the_way_out(graph)
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
