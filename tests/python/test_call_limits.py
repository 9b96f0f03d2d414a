"""Calls that Kiln leaves to PyTorch for their dtype, or since they are an error in eager mode."""

import pathlib
import resource
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from kiln import _native
from kiln.compiled_graph import CompiledGraph, SegmentRefused, recording
from kiln.fx_export import Exported


def run(fn, *inputs):
    """The result, and the graph that gave it, none of which ran in eager mode as a whole."""
    with recording() as graphs:
        result = torch.compile(fn, backend="kiln", fullgraph=True)(*inputs)
    (graph,) = graphs
    assert graph.refusal is None
    return result, graph


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.max(),
        lambda x: x.relu().min() * 2,
        lambda x: x.max(0),
        lambda x: (x > 0).max(),
        lambda x: x.long().min(0),
    ],
    ids=["max", "min of a product", "max of rows", "max of booleans", "min of integers"],
)
def test_the_largest_of_no_elements_is_eager_modes_error(fn):
    x = torch.randn(0, 5)
    with pytest.raises((RuntimeError, IndexError)) as due:
        fn(x)
    with pytest.raises(due.type) as got:
        torch.compile(fn, backend="kiln")(x)
    assert str(got.value).split("\n")[0] == str(due.value).split("\n")[0]


def test_an_empty_reduction_is_an_error_after_others_were_none():
    called = torch.compile(lambda x: x.exp().max(), backend="kiln", dynamic=True)
    for rows in (3, 7):
        x = torch.randn(rows)
        torch.testing.assert_close(called(x), x.exp().max())
    with pytest.raises(RuntimeError, match="numel"):
        called(torch.randn(0))
    assert called(torch.zeros(4)) == 1


@pytest.fixture
def little_memory():
    """A gigabyte more than there is now."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def test_results_that_memory_cannot_hold_are_an_error_of_one_call(request):
    called = torch.compile(lambda x: x.exp() + 1, backend="kiln", dynamic=True)
    assert (called(torch.zeros(8)) == 2).all()
    request.getfixturevalue("little_memory")
    with pytest.raises(torch.OutOfMemoryError, match="8589934592 bytes"):
        called(torch.zeros(1).expand(1 << 31))
    assert (called(torch.zeros(9)) == 2).all()


def test_the_median_of_no_elements_is_no_number():
    result, graph = run(lambda x: x.median() + 1, torch.randn(0, 5))
    assert result.isnan() and list(graph.hosts.values())


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x // 0,
        lambda x: x % 0,
        lambda x: torch.fmod(x, 0),
        lambda x: torch.div(x, 0, rounding_mode="trunc"),
    ],
    ids=["quotient", "remainder", "fmod", "div"],
)
def test_an_integer_divided_by_a_literal_zero_is_eager_modes_error(fn):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.compile(fn, backend="kiln")(torch.arange(5))
    x = torch.arange(5.0)
    torch.testing.assert_close(run(fn, x)[0], fn(x), equal_nan=True)


def test_an_integer_divided_by_a_tensors_zero_is_zero_and_not_the_end_of_the_process():
    x, y = torch.arange(-20, 20), torch.zeros(40, dtype=torch.int64)
    for fn in (lambda x, y: x // y, lambda x, y: x % y):
        assert torch.equal(run(fn, x, y)[0], torch.zeros_like(x))


IMAGE = torch.arange(72).view(1, 2, 6, 6) % 7
KERNEL = torch.arange(36).view(2, 2, 3, 3) % 5
WHOLE = {
    "conv2d": lambda x, w: F.conv2d(x + 1, w) * 2,
    "conv_transpose1d": lambda x, w: F.conv_transpose1d(x[:, :, 0] + 1, w[:, :, 0]),
    "avg_pool2d": lambda x, w: F.avg_pool2d(x + 1, 2) * 3,
    "local_response_norm": lambda x, w: F.local_response_norm(x + 1, 2),
    "a sum of booleans": lambda x, w: (x[0, 0] > 3).put(
        torch.tensor([0, 0]), torch.tensor([True, True]), accumulate=True
    ),
    "a product of bytes": lambda x, w: x[0, 0].to(torch.int8) @ w[0, 0].to(torch.int8).repeat(2, 2),
}


@pytest.mark.parametrize("case", WHOLE)
def test_what_no_library_computes_runs_in_pytorch_and_the_rest_is_compiled(case):
    fn = WHOLE[case]
    result, graph = run(fn, IMAGE, KERNEL)
    assert torch.equal(result, fn(IMAGE, KERNEL))
    assert len(graph.hosts) == 1 and graph.segments >= 1


def refused(refusals, reason="UNSUPPORTED_OP"):
    """The nodes that are left to PyTorch after `refusals`, of a graph of sin, sin, add and mm."""
    module = make_fx(lambda x: (x.sin().sin() + 1) @ x)(torch.randn(2, 2))
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    error = _native.Error(12, reason, "node #2: aten.mm.default: words that nobody reads")
    error.refusals = [_native.Refusal(refusal) for refusal in refusals]
    return SegmentRefused(error, Exported(b"", [], False, nodes)).nodes


def test_a_refusal_leaves_the_nodes_that_it_numbers_to_pytorch():
    sin = (1, "aten.sin.default", "UNSUPPORTED_OP", "no sin")
    mm = (3, "aten.mm.default", "MALFORMED_GRAPH", "another shape")
    assert refused([sin, mm]) == {"sin_1": "no sin", "mm": "another shape"}
    assert refused([mm], "MALFORMED_GRAPH") == {"mm": "another shape"}


def test_a_refusal_of_no_node_leaves_the_segment_to_pytorch():
    assert list(refused([])) == ["sin", "sin_1", "add", "mm"]
    assert refused([], "MALFORMED_GRAPH") == {}


def test_all_that_is_refused_of_a_graph_comes_in_one_answer():
    """Each kind by another step of the compiler, after others have changed the graph's numbers."""

    def fn(x):
        y = torch.nn.functional.silu(x).mvlgamma(100)
        for _ in range(100):
            y = torch.special.bessel_y1(y.cos()).mvlgamma(99)
        return y

    x = torch.rand(8) + 60
    asked = []
    ask = CompiledGraph._ask

    def counted(graph):
        asked.append(graph.name)
        ask(graph)

    with mock.patch.object(CompiledGraph, "_ask", counted):
        result, graph = run(fn, x)
    torch.testing.assert_close(result, fn(x), equal_nan=True)
    assert len(graph.hosts) == 201
    assert len(asked) == 3  # all nodes that are not known, then all that have no decomposition
