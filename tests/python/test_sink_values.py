"""Values that only later segments read are computed in the first of these (kiln/sink_values.py)."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from kiln.fx_export import Segment
from kiln.steps import make_plan

HOST = torch.ops.aten.linalg_inv_ex.default  # PyTorch runs it


def host(x):
    return torch.linalg.inv_ex(x)[0]


def segments_of(function, *inputs):
    """The operators of each segment that `function` is cut into, and the bytes that each gives."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        module = make_fx(function)(*inputs)
    refused = {node.name: "of the test" for node in module.graph.nodes if node.target is HOST}
    found = []
    for step in make_plan(module.graph, refused).steps:
        if isinstance(step, Segment):
            names = [node.target.overloadpacket.__name__ for node in step.nodes]
            found.append((names, sum(node.meta["val"].nbytes for node in step.outputs)))
    return found


def small():
    return torch.empty(16, 16)


def large(dtype=torch.float32):
    return torch.empty(16, 16, 64, dtype=dtype)


def test_what_a_later_segment_alone_reads_is_computed_there():
    def function(g, x):
        saved = x.float().sin()  # twice the bytes of x
        return (host(g + 1)[..., None] * saved).sum(), x.cos()

    (first, given), (second, _) = segments_of(function, small(), large(torch.bfloat16))
    assert "sin" not in first and "_to_copy" not in first and "cos" in first
    assert second[:2] == ["_to_copy", "sin"]
    assert given == small().nbytes + large(torch.bfloat16).nbytes


def test_each_segment_computes_its_own():
    """As a backward does with a host kernel in each layer."""

    def function(g, *saved):
        for x in saved:
            g = (host(g)[..., None] * x.float().exp()).sum(-1)
        return g

    found = segments_of(function, small(), *[large(torch.bfloat16) for _ in range(3)])
    assert [names.count("exp") for names, _ in found] == [1, 1, 1]
    assert [given for _, given in found] == [small().nbytes] * 3


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


def test_what_is_smaller_than_what_it_is_made_of_stays():
    def function(g, x):
        return host(g + 1) * x.exp().sum(-1)

    (first, given), _ = segments_of(function, small(), large())
    assert first == ["add", "exp", "sum"]
    assert given == 2 * small().nbytes


def test_it_goes_where_its_source_is_kept_anyway():
    def function(g, x):
        return (host(g + 1) * x.exp().sum(-1))[..., None] * x

    (first, given), _ = segments_of(function, small(), large())
    assert first == ["add"]
    assert given == small().nbytes


def test_a_view_of_an_input_goes_with_its_reader():
    def function(g, w):
        return host(g + 1) @ w.t()

    (first, given), (second, _) = segments_of(function, small(), torch.empty(16, 16))
    assert first == ["add"] and given == small().nbytes
    assert second == ["t", "mm"]


def test_random_numbers_are_drawn_where_they_were():
    def function(g, x):
        return host(g + 1)[..., None] * torch.rand_like(x)

    first, _ = segments_of(function, small(), large())[0]
    assert "rand_like" in first


def test_an_input_is_read_before_it_is_written():
    def function(g, x):
        saved = x.float().sin()
        total = (host(g + 1)[..., None] * saved).sum()
        x.copy_(x + 1)
        return total

    first, _ = segments_of(function, small(), large(torch.bfloat16))[0]
    assert "sin" in first and "copy_" in first
