"""Values that only later segments read are computed in the first of these (kiln/sink_values.py)."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from kiln.fx_export import Segment
from kiln.steps import make_plan

_aten = torch.ops.aten
HOSTS = (_aten.linalg_inv_ex.default, _aten.erfinv.default, _aten.maximum.default)  # PyTorch's
ROWS = 128


def host(x):
    return torch.linalg.inv_ex(x)[0]


def small():
    return torch.empty(ROWS, ROWS)


def large(dtype=torch.float32):
    """8 MiB of float32."""
    return torch.empty(ROWS, ROWS, ROWS, dtype=dtype)


SMALL, LARGE, HALF = small().nbytes, large().nbytes, large().nbytes // 2


def segments_of(function, *inputs):
    """The operators of each segment that `function` is cut into, and the bytes that each gives."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        module = make_fx(function)(*(mode.from_tensor(x, static_shapes=True) for x in inputs))
    refused = {node.name: "of the test" for node in module.graph.nodes if node.target in HOSTS}
    found = []
    for step in make_plan(module.graph, refused).steps:
        if isinstance(step, Segment):
            names = [getattr(n.target, "overloadpacket", n.target).__name__ for n in step.nodes]
            found.append((names, sum(node.meta["val"].nbytes for node in step.outputs)))
    return found


def test_what_a_later_segment_alone_reads_is_computed_there():
    def function(g, x):
        saved = x.float().sin()  # twice the bytes of x
        return (host(g + 1)[..., None] * saved).sum(), x.cos()

    (first, given), (second, _) = segments_of(function, small(), large(torch.bfloat16))
    assert first == ["add", "cos"]
    assert second[:2] == ["_to_copy", "sin"]
    assert given == SMALL + HALF


def test_each_segment_computes_its_own():
    """As a backward does with a host kernel in each layer."""

    def function(g, *saved):
        for x in saved:
            g = (host(g)[..., None] * x.float().exp()).sum(-1)
        return g

    found = segments_of(function, small(), *[large(torch.bfloat16) for _ in range(3)])
    assert [names.count("exp") for names, _ in found] == [1, 1, 1]
    assert [given for _, given in found] == [SMALL] * 3


@pytest.mark.parametrize("read", ["there", "as a result", "by the host"])
def test_what_an_earlier_step_reads_too_stays(read):
    def function(g, x):
        saved = x.float().sin()
        y = g + saved.sum(-1) if read == "there" else g + 1
        y = host(saved.sum(-1)) if read == "by the host" else host(y)
        total = (y[..., None] * saved).sum()
        return (total, saved) if read == "as a result" else total

    first, _ = segments_of(function, small(), large(torch.bfloat16))[0]
    assert "sin" in first


def test_what_it_is_made_of_stays_where_something_else_needs_that():
    def function(g, x):
        wide = x.float()
        return (host(wide.sum(-1))[..., None] * (wide * 2)).sum(), wide

    first, _ = segments_of(function, small(), large(torch.bfloat16))[0]
    assert "mul" in first, "one kernel reads x for both"


def test_what_is_smaller_than_what_it_is_made_of_stays():
    def function(g, x):
        return host(g + 1) * x.exp().sum(-1)

    (first, given), _ = segments_of(function, small(), large())
    assert first == ["add", "exp", "sum"]
    assert given == 2 * SMALL


def test_it_goes_where_its_source_is_kept_anyway():
    def function(g, x):
        return (host(g + 1)[..., None] * x.exp()).sum() * x

    (first, given), _ = segments_of(function, small(), large())
    assert first == ["add"]
    assert given == SMALL


def test_little_is_not_worth_another_read():
    def function(g, x):
        return (host(g + 1) * x.exp().sum(-1))[..., None] * x

    (first, _), _ = segments_of(function, small(), large())
    assert first == ["add", "exp", "sum"]


def test_a_source_of_unknown_size_is_not_kept_for_it():
    def function(g, x):
        weight = x.nonzero().float().mean() * x
        total = host(host(g + 1) + 1)
        return (total[..., None] * weight).sum() * x

    *_, (last, _) = segments_of(function, small(), large())
    assert "mean" not in last


def test_a_view_of_an_input_goes_with_its_reader():
    def function(g, w):
        return host(g + 1) @ w.t()

    (first, given), (second, _) = segments_of(function, small(), small())
    assert first == ["add"] and given == SMALL
    assert second == ["t", "mm"]


def test_a_view_that_two_segments_read_stays():
    """Otherwise one of them would give a view of what it takes."""

    def function(g, w):
        wide = w * 2
        turned = wide.t()
        return host(host(g + wide) @ turned) @ turned

    (first, given), *_ = segments_of(function, small(), small())
    assert "t" in first and given == 2 * SMALL


def test_a_view_of_an_input_is_no_segment_of_its_own():
    def function(g, w):
        turned = w.t()
        return host(host(g) @ turned) @ turned

    (first, _), *_ = segments_of(function, small(), small())
    assert first == ["t", "mm"]


def test_a_view_of_an_input_that_the_host_reads_later_is_given_at_first():
    def function(g, w):
        turned = w.t()
        return torch.maximum(host(g + 1) @ turned, turned) * 2

    (first, given), *_ = segments_of(function, small(), small())
    assert "t" in first and given == 2 * SMALL


def test_a_part_of_a_value_is_given_and_not_the_whole():
    def function(g, x):
        y = x.tanh()
        return (host(g + y.mean())[..., None] * y[:, :, :1]).sum()

    (first, given), _ = segments_of(function, small(), large())
    assert "slice" in first
    assert given == 2 * SMALL


def test_a_stretched_view_counts_as_its_memory():
    def function(g, x):
        wide = x.sum(-1, keepdim=True, dtype=torch.float32).expand_as(x)
        return (host(g + 1)[..., None] * wide).sum()

    first, _ = segments_of(function, small(), large(torch.bfloat16))[0]
    assert "sum" in first


def test_random_numbers_are_drawn_where_they_were():
    def function(g, x):
        return host(g + 1)[..., None] * torch.rand_like(x, dtype=torch.float32)

    first, _ = segments_of(function, small(), large(torch.bfloat16))[0]
    assert "rand_like" in first


def test_an_input_is_read_before_it_is_written():
    def function(g, x):
        saved = x.float().sin()
        total = (host(g + 1)[..., None] * saved).sum()
        x.copy_(x + 1)
        return total

    first, _ = segments_of(function, small(), large(torch.bfloat16))[0]
    assert "sin" in first and "copy_" in first


def test_what_the_host_computes_stays_the_hosts():
    def function(g, x):
        saved = x.erfinv()
        return (host(host(g + 1) + 1)[..., None] * saved).sum() * x

    found = segments_of(function, small(), large())
    assert not any("erfinv" in names for names, _ in found)


def test_results_of_one_operator_stay_together():
    def function(g, x):
        values, places = x.float().sort(-1)
        return (host(g + places[..., 0])[..., None] * values).sum()

    first, _ = segments_of(function, small(), large(torch.bfloat16))[0]
    assert "sort" in first


def test_it_computes_the_same(monkeypatch):
    monkeypatch.setattr("kiln.sink_values._LEAST_SAVED", 0)

    def function(g, x, w):
        for _ in range(3):
            y = (x.float() * 3).sin()
            g = torch.linalg.inv(g + 9 * torch.eye(8, dtype=torch.float64)) @ w.t() + y.sum(0)
            x = x + y
        return (g * x[:8]).sum()

    inputs = [torch.rand(8, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    results = []
    for one in (function, torch.compile(function, backend="kiln")):
        total = one(*inputs)
        results.append((total, torch.autograd.grad(total, inputs)))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)  # a sine is in float32
