"""torch._assert_async: a part of the kernel that computes what it looks at. It waits for nothing, so
that a device graph holds it."""

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


@pytest.mark.parametrize("device", DEVICES)
def test_it_is_in_the_kernel_of_its_reduction(device):
    def both(x):
        torch._assert_async((x > 0).all(), "all positive")
        torch._assert_async((x < 9).all(), 'below "9"')

    called = torch.compile(lambda x: (both(x), x.sum())[1], backend="kiln")
    x = torch.rand(8, device=device) + 0.5
    launches = []
    called(x)
    with kiln.register_launch_hooks(lambda launch: launches.append(dict(launch))):
        called(x)
    (graph,) = kiln.explain(called, x).graphs
    assert not graph.host_kernels
    (launch,) = launches
    assert "_assert_async" in launch["operators"]
    torch._dynamo.reset()


def test_each_says_its_own_text_on_the_cpu():
    @torch.compile(backend="kiln")
    def called(x):
        torch._assert_async((x > 0).all(), "all positive")
        torch._assert_async((x < 9).all(), 'below "9"')
        return x * 2

    for x, text in [(-torch.ones(8), "all positive"), (torch.full((8,), 9.0), 'below "9"')]:
        with pytest.raises(RuntimeError, match=text) as raised:
            called(x)
        assert type(raised.value) is RuntimeError
    torch.testing.assert_close(called(torch.ones(8)), torch.full((8,), 2.0))


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
    assert "Assertion `should throw` failed" in errors, errors
