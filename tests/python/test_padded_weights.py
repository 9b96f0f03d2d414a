"""A weight whose sizes or rows are no whole vectors is padded once, for forward and backward."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kiln import padded_weights


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(padded_weights, "is_on_tensor_cores", lambda value: True)
    monkeypatch.setattr(padded_weights, "_is_on_cuda", lambda value: True)
    monkeypatch.setattr(padded_weights, "_LEAST_WORK", 1)
    torch._dynamo.reset()


def step(model, x, options):
    """The result, the gradients, and sizes and strides of all matrices that are saved."""
    saved = []

    def pack(tensor):
        if tensor.dim() == 2:
            saved.append((tuple(tensor.size()), tensor.stride()))
        return tensor

    called = model
    if options is not None:
        called = torch.compile(model, backend="kiln", fullgraph=True, options=options)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = called(x)
    y.sin().sum().backward()
    return y.detach(), [x.grad, *(p.grad for p in model.parameters())], saved


def compare(model, sizes, options):
    """What is saved; results and gradients are eager mode's, and lie as they do."""
    torch.manual_seed(0)
    x = torch.randn(sizes)
    due, due_grads, _ = step(copy.deepcopy(model), x.clone().requires_grad_(), None)
    found, grads, saved = step(model, x.clone().requires_grad_(), options)
    torch.testing.assert_close(found, due, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(grads, due_grads, rtol=1e-4, atol=1e-4)
    for mine, its in zip([found, *grads], [due, *due_grads]):
        assert mine.stride() == its.stride()
    return saved


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("rows, columns", [(33, 8), (8, 30), (33, 30)])
def test_sizes_are_padded_once_when_they_have_to_be(rows, columns, bias):
    model = nn.Linear(columns, rows, bias=bias)
    saved = compare(model, (5, columns), {"force_shape_pad": True})
    sizes = {size for size, _ in saved}
    due = ((rows + 3) // 4 * 4, (columns + 3) // 4 * 4)
    assert due in sizes or due[::-1] in sizes, sizes
    assert not {(rows, columns), (columns, rows)} & sizes


def test_long_rows_are_moved_apart_once():
    model = nn.Linear(1027, 16)
    saved = compare(model, (5, 1027), {})
    assert ((16, 1027), (1056, 1)) in saved
    assert ((16, 1027), (1027, 1)) not in saved


@pytest.mark.parametrize(
    "options",
    [{"shape_padding": False}, {"comprehensive_padding": False}],
    ids=lambda options: next(iter(options)),
)
def test_options_leave_the_weight_as_it_is(options):
    saved = compare(nn.Linear(1027, 16), (5, 1027), options)
    assert ((16, 1027), (1027, 1)) in saved


def test_whole_vectors_and_short_sums_are_left_alone():
    for width in (1024, 510):
        saved = compare(nn.Linear(width, 16), (5, width), {})
        assert ((16, width), (width, 1)) in saved


def test_a_weight_that_something_else_reads_in_the_backward_is_saved_itself():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 1027) / 32)

        def forward(self, x):
            return F.linear(x, self.weight) + (self.weight * self.weight).sum()

    saved = compare(Scaled(), (5, 1027), {})
    assert ((16, 1027), (1027, 1)) in saved


def test_a_weight_that_two_layers_share_is_padded_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(30, 33) / 6)

        def forward(self, x):
            return (x @ self.weight).tanh() @ self.weight.t()

    saved = compare(Tied(), (5, 30), {"force_shape_pad": True})
    assert [s for s, _ in saved].count((32, 36)) == 1
