"""torch._assert_async: PyTorch's own kernel, in its place between Kiln's. It waits for nothing, so that a
device graph holds it."""

import textwrap

import pytest
import torch

import kiln
from processes import answer_of, start

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def checked(x):
    torch._assert_async(x.sum() > 0, "should throw")
    return x + 1


@pytest.fixture(params=["default", "reduce-overhead"])
def mode(request):
    return request.param


@pytest.mark.parametrize("device", DEVICES)
def test_one_that_holds_says_nothing(device, mode):
    called = torch.compile(checked, backend="kiln", mode=mode)
    x = torch.rand(8, device=device)
    kiln.counters.clear()
    for step in range(4):
        torch.testing.assert_close(called(x + step), x + step + 1)
    assert kiln.counters["cudagraph_skips"] == 0
    if device == "cuda" and mode == "reduce-overhead":
        assert kiln.counters["cudagraph_partitions"] == 1
        assert kiln.graph_tree_state()["replays"] == 2
    torch._dynamo.reset()


def test_one_that_does_not_raises_on_the_cpu(mode):
    called = torch.compile(checked, backend="kiln", mode=mode)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="should throw"):
            called(-torch.rand(8))
        torch.testing.assert_close(called(torch.ones(8)), torch.full((8,), 2.0))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_one_that_does_not_stops_a_gpu(mode):
    text = f"""
        import json, torch, kiln
        def checked(x):
            torch._assert_async(x.sum() > 0, "should throw")
            return x + 1
        called = torch.compile(checked, backend="kiln", mode="{mode}")
        x = torch.rand(8, device="cuda")
        for _ in range(4):
            called(x)
        torch.cuda.synchronize()
        try:
            called(-x)
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(json.dumps(str(error)))
    """
    said, errors = answer_of(start(textwrap.dedent(text)))
    assert "device-side assert" in said, said
    assert "should throw" in errors or "Assertion" in errors, errors
