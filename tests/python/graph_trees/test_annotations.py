"""Graphs that the program asks for or refuses in its own words: section 14.9 of the fact sheet."""

import pytest
import torch

import kiln
from trees import graphs, recordings

pytestmark = pytest.mark.skipif(
    not hasattr(torch._dynamo, "override_cudagraphs"), reason="this PyTorch has no annotations"
)


def _said(*words, **given):
    return torch._dynamo.override_cudagraphs(*words, **given)


def _run(called, backward=False, times=4):
    for _ in range(times):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.rand(8, device="cuda", requires_grad=backward)
        y = called(x)
        if backward:
            y.sum().backward()
            torch.testing.assert_close(x.grad, x.detach().cos())
        torch.testing.assert_close(y, x.sin())
        del y


def _sine(x):
    return x.sin()


def plain(function):
    """Compiled without graphs, but for what it says itself."""
    return torch.compile(function, backend="kiln")


def test_annotation_disable():
    _run(graphs(_said(fwd=False)(_sine)))
    assert kiln.graph_tree_state() is None


def test_annotation_disable_fwd_bwd():
    _run(graphs(_said(fwd=False, bwd=False)(_sine)), backward=True)
    assert kiln.graph_tree_state() is None


def test_annotation_multiple_functions():
    first, second = _said(fwd=False)(_sine), _said(fwd=False)(lambda x: x * 1)
    _run(graphs(lambda x: second(first(x))))
    assert kiln.graph_tree_state() is None


def test_annotation_deeply_nested():
    inner = _said(fwd=False)(_sine)

    def middle(x):
        return inner(x)

    _run(graphs(lambda x: middle(x) * 1))
    assert kiln.graph_tree_state() is None


def test_annotation_module_forward():
    class Module(torch.nn.Module):
        @_said(fwd=False)
        def forward(self, x):
            return x.sin()

    _run(graphs(Module()))
    assert kiln.graph_tree_state() is None


def test_annotation_disable_bwd_only():
    _run(graphs(_said(bwd=False)(_sine)), backward=True)
    assert recordings() == 1


def test_annotation_disable_fwd_only():
    _run(graphs(_said(fwd=False)(_sine)), backward=True)
    assert kiln.graph_tree_state() is None


def test_annotation_graph_break_selective():
    disabled = _said(fwd=False)(lambda x: x * 2)

    def function(x):
        y = disabled(x)
        torch._dynamo.graph_break()
        return (y / 2).sin()

    _run(graphs(function))
    assert recordings() == 1


def test_annotation_enable():
    _run(plain(_said(fwd=True)(_sine)))
    assert recordings() == 1


@pytest.mark.parametrize("backward", [None, True])
def test_annotation_enable_fwd_bwd(backward):
    _run(plain(_said(fwd=True, bwd=backward)(_sine)), backward=True)
    assert recordings() == 2


def test_annotation_enable_context_manager():
    def function(x):
        with _said(fwd=True):
            y = x * 2
            torch._dynamo.graph_break()
            return (y / 2).sin()

    _run(plain(function))
    assert recordings() == 2


def test_annotation_context_manager():
    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        with _said(fwd=False):
            y = y * 1
        torch._dynamo.graph_break()
        return (y / 2).sin()

    _run(graphs(function))
    assert recordings() == 2
