"""Inputs that are written: section 14.4 of the fact sheet."""

import pytest
import torch

from trees import graphs, recordings, skips, state


def _adds(x):
    x.add_(1)
    return x * 2


def test_mutation_on_inp(messages):
    called = graphs(_adds)
    for _ in range(3):
        x = torch.zeros(4, device="cuda")
        assert torch.equal(called(x), torch.full((4,), 2.0, device="cuda"))
        assert torch.equal(x, torch.ones(4, device="cuda"))
    assert skips() == 1
    (said,) = messages()
    assert said.startswith("skipping cudagraphs due to mutated inputs (1 instances). Found from : \n")
    assert "x.add_(1)" in said
    assert state()["nodes"] == []


def test_a_buffer_may_be_written():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(4, device="cuda"))

        def forward(self, x):
            self.count.add_(x)
            return self.count + x

    module = Module()
    called = graphs(module)
    x = torch.ones(4, device="cuda")
    with torch.no_grad():
        for number in range(5):
            assert torch.equal(called(x), torch.full((4,), number + 2.0, device="cuda"))
            assert torch.equal(module.count, torch.full((4,), number + 1.0, device="cuda"))
    assert skips() == 0
    assert recordings() == 1


def test_mutation_cudagraph_managed_tensors(messages):
    first, second = graphs(lambda x: x + 1), graphs(_adds)
    x = torch.zeros(4, device="cuda")
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        y = first(x)
        z = second(y)
        assert torch.equal(y, torch.full((4,), 2.0, device="cuda"))
        assert torch.equal(z, torch.full((4,), 4.0, device="cuda"))
        del y, z
    assert (skips(), messages()) == (0, [])
    torch.compiler.cudagraph_mark_step_begin()
    y = first(x).clone()
    assert torch.equal(second(y), torch.full((4,), 4.0, device="cuda"))
    assert skips() == len(messages()) == 1


def test_mutation_cudagraph_managed_tensors_config(messages):
    first = graphs(lambda x: x + 1)
    second = graphs(_adds, cudagraph_support_input_mutation=False)
    x = torch.zeros(4, device="cuda")
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        assert torch.equal(second(first(x)), torch.full((4,), 4.0, device="cuda"))
    assert len(messages()) == 1


def test_cudagraph_or_error():
    called = graphs(_adds, cudagraph_or_error=True)
    with pytest.raises(Exception, match="mutated inputs"):
        called(torch.zeros(4, device="cuda"))


def test_mutation_cudagraph_managed_tensor_warn_only_once(messages):
    called = graphs(_adds)
    for _ in range(5):
        called(torch.zeros(4, device="cuda"))
    assert skips() == 1
    assert len(messages()) == 1


def test_mutation_reinplaced(messages):
    def function(x, other, out):
        out = torch.logical_xor(input=x, other=other, out=out)
        return out

    called = graphs(function)
    x = torch.rand(4, device="cuda").abs() > 0.5
    other = torch.rand(4, device="cuda") > 0.5
    for _ in range(3):
        out = torch.zeros(4, dtype=torch.bool, device="cuda")
        got = called(x, other, out)
        assert torch.equal(got, x ^ other)
        assert torch.equal(out, x ^ other)
    assert skips() == 1
    (said,) = messages()
    assert said.startswith("skipping cudagraphs due to mutated inputs (1 instances). Found from : \n")
    assert "logical_xor" in said


def test_tensor_constant_mutation():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tensor_constant = torch.ones(4, device="cuda")

        def forward(self, x):
            self.tensor_constant += 1
            return x + self.tensor_constant

    module = Module()
    called = graphs(module)
    x = torch.zeros(4, device="cuda")
    with torch.no_grad():
        for number in range(3):
            assert torch.equal(called(x), torch.full((4,), number + 2.0, device="cuda"))
    assert recordings() == 1
