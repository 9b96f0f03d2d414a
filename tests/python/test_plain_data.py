"""What Kiln keeps of a graph in AOTAutograd's cache is plain data, and reads back as it was."""

import operator

import pytest
import sympy
import torch
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._sympy.functions import CeilToInt, FloorDiv, IntTrueDiv, Mod, ModularIndexing

from kiln.compiled_graph import CompiledGraph, recording
from kiln.expressions import function_of, plain_expression
from kiln.plain_recipe import Written, from_plain, plain_of
from kiln.recipe import Fixed, HostRecipe, Place, Recipe, Sized, Source
from kiln.torch_inside import keeps_any_backend

PLAIN = (type(None), bool, int, float, str, bytes)


def assert_plain(value):
    if type(value) is list:
        for item in value:
            assert_plain(item)
    elif type(value) is dict:
        for key, held in value.items():
            assert type(key) is str
            assert_plain(held)
    else:
        assert type(value) in PLAIN, value


def test_a_compiled_graph_is_kept_as_plain_data():
    def fn(x):
        return torch.special.bessel_y1(x.sin()).cos() + x.shape[0]

    with recording() as graphs:
        torch.compile(fn, backend="kiln", dynamic=True, fullgraph=True)(torch.rand(5) + 1)
    (graph,) = graphs
    graph.wait()
    assert graph.hosts
    state = graph.__getstate__()
    assert_plain(state)
    again = object.__new__(CompiledGraph)
    again.__setstate__(state)
    assert again.recipe == graph.recipe and again.device == graph.device
    assert_plain(again.__getstate__())


VALUES = [
    [1, 2.5, True, None, "word", b"bytes", 3 + 4j],
    (torch.float32, torch.device("cpu"), torch.strided, torch.channels_last),
    {"a": (1, [2]), "b": slice(1, None, 2)},
    torch.ops.aten.add.Tensor,
    operator.getitem,
    Recipe(
        1,
        3,
        [],
        [HostRecipe(torch.ops.aten.sin.default, (Place(0),), {"dim": Fixed(-1)}, 1, [0], (4, 1))],
        [Place(1), Sized(["floordiv", ["value", 0], 2], (Source(0, "size", 1),))],
    ),
    Written(["list", 1]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_written_reads_back(value):
    plain = plain_of(value)
    assert_plain(plain)
    assert from_plain(plain) == value


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int64, torch.float64])
def test_a_constant_reads_back_with_its_layout(dtype):
    for tensor in (torch.arange(6).view(2, 3).t().to(dtype), torch.ones((), dtype=dtype)):
        again = from_plain(plain_of(tensor))
        assert again.dtype == dtype and again.stride() == tensor.stride()
        assert torch.equal(again, tensor)
    assert from_plain(plain_of(torch.empty(0, 3, dtype=dtype))).shape == (0, 3)


def test_a_constant_is_kept_and_read_also_while_pytorch_traces():
    tensor = torch.arange(6.0)
    with FakeTensorMode():
        again = from_plain(plain_of(tensor))
    assert torch.equal(again, tensor)


@pytest.mark.skipif(not keeps_any_backend(), reason="this torch keeps what Inductor made alone")
def test_a_graph_with_a_constant_is_found_again():
    def function(x):
        return x * torch.tensor(3.0) + 1

    x = torch.arange(4.0)
    hits = []
    for _ in range(2):
        torch._dynamo.reset()
        before = counters["aot_autograd"]["autograd_cache_hit"]
        assert torch.equal(torch.compile(function, backend="kiln")(x), x * 3 + 1)
        hits.append(counters["aot_autograd"]["autograd_cache_hit"] - before)
    assert hits[1] == 1


def test_what_has_no_plain_form_is_refused():
    for value in (object(), print, torch.Generator(), torch.ones(2).to_sparse()):
        with pytest.raises(TypeError, match="no plain data|not what it stands for"):
            plain_of(value)
    for plain in (["system", "ls"], ["function", "eval"], ["torch", "load"]):
        with pytest.raises(LookupError):
            from_plain(plain)


def test_expressions_are_what_sympy_makes_of_them():
    s, t = sympy.symbols("s t", integer=True, positive=True)
    for expr in (
        s * t + 3,
        s**2 - t,
        FloorDiv(s * t, 7),
        Mod(s, 5) + ModularIndexing(s * t, 3, 4),
        sympy.Max(s, t) - sympy.Min(s, 4),
        IntTrueDiv(s, 4),
        CeilToInt(IntTrueDiv(s, 4)),
        s / 2,
        sympy.And(sympy.Lt(s, t), sympy.Ge(t, 2)),
        sympy.Eq(s, 3),
    ):
        compute = function_of(plain_expression(expr, [s, t]))
        for values in ((3, 11), (17, 2), (40, 40)):
            due = expr.xreplace({s: sympy.Integer(values[0]), t: sympy.Integer(values[1])})
            assert float(compute(values)) == pytest.approx(float(bool(due) if due.is_Boolean else due))
    with pytest.raises(LookupError, match="zeta"):
        plain_expression(sympy.zeta(s), [s])
