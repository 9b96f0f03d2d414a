"""What a forward saves for its backward, beside inputs and results."""

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from kiln.compiled_graph import recording


def saved_by(fn, *args):
    """The result, the tensors saved for its backward that no input holds, and what is left to
    PyTorch."""
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    with recording() as graphs, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = torch.compile(fn, backend="kiln", fullgraph=True)(*args)
    known = {tensor.untyped_storage().data_ptr() for tensor in (*args, y)}
    beside = [t for t in saved if t.untyped_storage().data_ptr() not in known]
    return y, beside, [graph.hosts for graph in graphs if graph.hosts]


POOLS = {
    "overlapping": dict(kernel_size=3, stride=2, padding=1),
    "tiles": dict(kernel_size=2),
    "dilated": dict(kernel_size=3, stride=1, padding=1, dilation=2),
    "oblong": dict(kernel_size=(3, 2), stride=(2, 3), ceil_mode=True),
}


@pytest.mark.parametrize("name", POOLS)
def test_indices_of_a_max_pool_take_a_byte_each(name):
    def pool(x):
        return F.max_pool2d(x, **POOLS[name])

    x = torch.randn(2, 3, 13, 17, requires_grad=True)
    y, saved, hosts = saved_by(pool, x)
    assert [(tensor.dtype, tensor.shape) for tensor in saved] == [(torch.int8, y.shape)]
    assert not hosts
    slope = torch.randn_like(y)
    (found,) = torch.autograd.grad(y, x, slope)
    (due,) = torch.autograd.grad(pool(x), x, slope)
    torch.testing.assert_close(found, due)


def test_a_pool_whose_indices_are_a_result_gives_them_as_they_are():
    def pool(x):
        return F.max_pool2d(x, 2, return_indices=True)

    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    y, indices = torch.compile(pool, backend="kiln", fullgraph=True)(x)
    due, due_indices = pool(x)
    torch.testing.assert_close((y, indices), (due, due_indices))
    torch.testing.assert_close(*(torch.autograd.grad(r.sum(), x) for r in (y, due)))


def test_a_gelu_saves_nothing_but_its_input():
    x = torch.randn(64, 48, requires_grad=True)
    y, saved, _ = saved_by(lambda x: F.gelu(x, approximate="tanh") * torch.tanh(x), x)
    assert saved == []
    (found,) = torch.autograd.grad(y.sum(), x)
    (due,) = torch.autograd.grad((F.gelu(x, approximate="tanh") * torch.tanh(x)).sum(), x)
    torch.testing.assert_close(found, due)


def test_a_clone_that_is_a_result_is_another_tensor():
    def fn(x):
        y = x.sin()
        return y, y.clone(), x.clone().view(-1), y.clone()[1:]

    x = torch.randn(5, 3, requires_grad=True)
    results = torch.compile(fn, backend="kiln", fullgraph=True)(x)
    places = {tensor.untyped_storage().data_ptr() for tensor in (x, *results)}
    assert len(places) == 5
    torch.testing.assert_close(results, fn(x))
    (found,) = torch.autograd.grad(sum(r.sum() for r in results), x)
    (due,) = torch.autograd.grad(sum(r.sum() for r in fn(x)), x)
    torch.testing.assert_close(found, due)


def mutate_a_buffer(x, b):
    r = x * (b + 0.5)
    b.mul_(0.9)
    return r


def mutate_what_is_read_through_views(x, b):
    r = x * b.view(3, 1).expand(3, 3).sin()
    b.mul_(0.9)
    return r


def mutate_twice(x, b):
    r = x * b.exp()
    b.add_(1)
    r = r * b.cos()
    b.add_(1)
    return r


def mutate_with_an_input_that_is_differentiated(x, b):
    r = x * (b + 0.5)
    b.mul_(x)
    return r * 2


def mutate_and_read_as_a_matrix(x, b):
    r = (x * 2) @ torch.outer(b, b)
    b.mul_(0.5)
    return r


# {function: whether what it writes to may be differentiated too, in eager mode}.
MUTATING = {
    mutate_a_buffer: True,
    mutate_what_is_read_through_views: False,
    mutate_twice: False,
    mutate_with_an_input_that_is_differentiated: True,
    mutate_and_read_as_a_matrix: False,
}


@pytest.mark.parametrize("layout", ["dense", "strided"])
@pytest.mark.parametrize(
    ("fn", "differentiated"),
    [(fn, on) for fn, may in MUTATING.items() for on in ([False, True] if may else [False])],
)
def test_a_backward_sees_an_input_as_it_was_before_the_forward_wrote_to_it(
    fn, differentiated, layout
):
    def step(called):
        x = torch.arange(1.0, 4.0).requires_grad_()
        made = torch.linspace(1, 2, 3) if layout == "dense" else torch.linspace(1, 2, 6)[::2]
        b = made.clone(memory_format=torch.preserve_format).requires_grad_(differentiated)
        held = b * 1 if differentiated else made
        if layout == "strided" and differentiated:
            held = torch.stack([held, held], 1).flatten()[::2]
        called(x, held).sum().backward()
        return x.grad, b.grad if differentiated else None, held.detach()

    for found, due in zip(step(torch.compile(fn, backend="kiln")), step(fn)):
        torch.testing.assert_close(found, due)


def test_statistics_that_a_forward_moves_are_saved_for_no_backward():
    norm = torch.nn.BatchNorm1d(4096)
    x = torch.randn(8, 4096, requires_grad=True)
    _, saved, _ = saved_by(norm, x)
    known = {t.data_ptr() for t in norm.parameters()}
    # The mean and the inverse deviation of the batch.
    beside = [t for t in saved if t.data_ptr() not in known]
    assert sum(t.numel() for t in beside) <= 2 * 4096


_BENCH = Path(__file__).parents[2] / "bench" / "saved_bytes.py"


# Traced alone, so the figures are the same everywhere. Without Kiln's decompositions before the cut
# they are 1.39 and 1.04.
@pytest.mark.skipif(not _BENCH.exists(), reason="bench/ is not in the GPU bundle; CI has it")
@pytest.mark.parametrize("name", ["unet", "distilbert"])
def test_a_model_saves_at_most_a_twentieth_more_bytes_than_with_inductor(name):
    spec = importlib.util.spec_from_file_location("saved_bytes", _BENCH)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    found = {
        who: sum(tensor.untyped_storage().nbytes() for _, tensor in saved)
        for who, saved in bench.measure(name, "cpu", each=False).items()
    }
    assert 0 < found["kiln"] <= 1.05 * found["inductor"], found
    assert found["kiln without the list"] > found["kiln"], found
