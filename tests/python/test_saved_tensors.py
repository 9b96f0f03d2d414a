"""What a forward saves for its backward, beside inputs and results."""

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
