"""Gradients over classes that are no multiple of 8, where a graph break stands between a model and
its loss: on padded rows from one backward to the other."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kiln import saved_layouts
from torch._functorch._aot_autograd import runtime_wrappers

ROWS, CLASSES, PADDED = 8, 1027, 1088


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, CLASSES, dtype=torch.bfloat16)

    def forward(self, x):
        return self.linear(x)


def loss(logits, classes):
    return F.cross_entropy(logits.float().flatten(0, -2), classes.flatten())


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(
        saved_layouts, "is_on_tensor_cores", lambda value: value.dtype == torch.bfloat16
    )
    torch._dynamo.reset()


def broken(head, x, classes, seen):
    logits = head(x)
    torch._dynamo.graph_break()
    logits.register_hook(lambda gradient: seen.append(gradient.stride()))
    torch._dynamo.graph_break()
    return loss(logits, classes)


def step(fn, head=None):
    """The strides of the logits' gradient, the loss and the gradients of x and the parameters."""
    torch.manual_seed(0)
    head = Head() if head is None else head()
    x = torch.randn(3, ROWS, 16, dtype=torch.bfloat16, requires_grad=True)
    classes = torch.randint(0, CLASSES, (3, ROWS))
    seen = []
    found = fn(head, x, classes, seen)
    found.backward()
    return seen, found.detach(), [x.grad, *(p.grad for p in head.parameters())]


def by_kiln(fn, **options):
    return torch.compile(fn, backend="kiln", options=options)


def assert_as_eager(found, grads, head=None):
    _, due, due_grads = step(broken, head)
    torch.testing.assert_close(found, due, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(grads, due_grads, rtol=3e-2, atol=3e-2)
    for mine, its in zip(grads, due_grads):
        assert mine.stride() == its.stride()


@pytest.fixture
def made(monkeypatch):
    """For each gradient that comes into a backward, whether AOTAutograd lays it out anew."""
    made = []
    coerce = runtime_wrappers.coerce_to_expected_memory_format

    def counted(x, memory_format):
        y = coerce(x, memory_format)
        made.append(y is not x)
        return y

    monkeypatch.setattr(runtime_wrappers, "coerce_to_expected_memory_format", counted)
    return made


def test_a_gradient_goes_from_loss_to_model_on_padded_rows(made):
    strides, found, grads = step(by_kiln(broken))
    assert strides == [(ROWS * PADDED, PADDED, 1)]
    assert made and not any(made)
    assert_as_eager(found, grads)


@pytest.mark.parametrize("option", ["shape_padding", "comprehensive_padding"])
def test_without_padding_rows_stay_as_they_are(option, made):
    strides, found, grads = step(by_kiln(broken, **{option: False}))
    assert strides == [(ROWS * CLASSES, CLASSES, 1)] and not any(made)
    assert_as_eager(found, grads)


@pytest.mark.parametrize("head_too", [True, False])
@pytest.mark.parametrize("loss_too", [True, False])
def test_without_a_break_rows_stay_as_they_are(head_too, loss_too, made):
    called_loss = by_kiln(loss) if loss_too else loss

    def apart(head, x, classes, seen):
        logits = by_kiln(head)(x) if head_too else head(x)
        logits.register_hook(lambda gradient: seen.append(gradient.stride()))
        return called_loss(logits, classes)

    strides, found, grads = step(apart)
    assert strides == [(ROWS * CLASSES, CLASSES, 1)] and not any(made)
    assert_as_eager(found, grads)


def test_a_gradient_that_comes_dense_behind_a_break_is_laid_out(made):
    def dense(head, x, classes, seen):
        logits = head(x)
        torch._dynamo.graph_break()
        return loss(torch.compiler.disable(torch.mul)(logits, 1.0), classes)

    _, found, grads = step(by_kiln(dense))
    assert sum(made) == 1
    assert_as_eager(found, grads)


def test_the_gradient_of_a_leaf_keeps_its_rows():
    def fn(logits, classes):
        torch._dynamo.graph_break()
        return loss(logits, classes)

    logits = torch.randn(24, CLASSES, dtype=torch.bfloat16, requires_grad=True)
    by_kiln(fn)(logits, torch.randint(0, CLASSES, (24,))).backward()
    assert logits.grad.stride() == (CLASSES, 1)


class Scaled(Head):
    def forward(self, x):
        return super().forward(x) * self.linear.bias


def test_a_gradient_that_more_than_products_reads_is_awaited_as_it_was(made):
    strides, found, grads = step(by_kiln(broken), Scaled)
    assert strides == [(ROWS * PADDED, PADDED, 1)] and sum(made) == 1
    assert_as_eager(found, grads, Scaled)
