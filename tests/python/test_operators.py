"""PyTorch's operator database: the first sample of each operator, forward, as a graph.

Graphs come from make_fx, without Dynamo. What Kiln does not compile runs in PyTorch; nothing may be
wrong, and the share that Kiln compiles whole may not sink.
"""

import warnings

import pytest
import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

from kiln import config
from kiln.compiled_graph import REFUSALS, CompiledGraph
from kiln.fx_export import is_random

# Of the graphs that can be made, in percent; 70 when this was written.
LEAST_COMPILED = 65

# Refused whole, with the reason: graphs that write to tensors of their own.
REFUSED = {"diff": "copy_", "linalg.matrix_power": "copy_"}
# No graph of make_fx's, or none that can be looked at (CSR tensors have no strides).
UNTRACED = 20

OPERATORS = [op for op in op_db if torch.float32 in op.dtypes]


def graph_of(op):
    """(graph, inputs, due results); None when PyTorch itself cannot make the graph."""
    sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=False)), None)
    if sample is None:
        return None
    flat, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def call(*tensors):
        values = list(flat)
        for place, tensor in zip(places, tensors):
            values[place] = tensor
        args, kwargs = pytree.tree_unflatten(values, spec)
        return op.op(*args, **kwargs)

    tensors = [flat[place] for place in places]
    try:
        due = pytree.tree_leaves(call(*[tensor.clone() for tensor in tensors]))
        module = make_fx(call, tracing_mode="fake")(*[tensor.clone() for tensor in tensors])
    except Exception:  # whatever stops PyTorch's own tracing
        return None
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    output.args = (tuple(pytree.tree_leaves(output.args[0])),)
    return module, tensors, due


def has_fixed_values(module):
    """Whether equal inputs give equal results."""
    return not any(is_random(node) or "empty" in str(node.target) for node in module.graph.nodes)


def assert_as_in_eager_mode(got, due, values):
    assert len(got) == len(due)
    for mine, theirs in zip(got, due):
        if not isinstance(theirs, torch.Tensor):
            continue
        assert (mine.dtype, mine.shape, mine.layout) == (theirs.dtype, theirs.shape, theirs.layout)
        if values:
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
        if theirs.layout == torch.strided and theirs.numel() > 1:
            assert mine.stride() == theirs.stride()


@pytest.fixture(scope="module")
def tally():
    """How many operators ended how; judged when all have run."""
    seen = {"whole": 0, "host": 0, "untraced": 0}
    yield seen
    if sum(seen.values()) < len(OPERATORS) - len(REFUSED):
        return  # only some were asked for
    compiled = 100 * seen["whole"] / (seen["whole"] + seen["host"])
    print(f"\n{len(OPERATORS)} operators: {seen}, {compiled:.0f} % without a host kernel")
    assert compiled >= LEAST_COMPILED
    assert seen["untraced"] <= UNTRACED


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: f"{op.name}-{op.variant_test_name}")
def test_an_operator_gives_what_eager_mode_gives(op, tally):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = graph_of(op)
    if made is None:
        tally["untraced"] += 1
        return
    module, tensors, due = made
    try:
        graph = CompiledGraph(module, "op", config.snapshot())
    except RuntimeError as error:
        assert "CSR" in str(error)
        tally["untraced"] += 1
        return
    if op.name in REFUSED:
        with pytest.raises(REFUSALS, match=REFUSED[op.name]):
            graph.wait()
        return
    got = graph([tensor.clone() for tensor in tensors])
    assert_as_in_eager_mode(got, due, has_fixed_values(module))
    tally["host" if graph.hosts else "whole"] += 1
