"""A backward writes to what its forward saved for it alone, and spares it where it runs again."""

import functools
import types

import pytest
import torch
import torch.nn.functional as F

import kiln
from kiln import backend

ROWS, WIDTH, CLASSES = 640, 16, 1024


def loss_of(x, w, classes):
    return F.cross_entropy((x @ w).float(), classes)


def batch():
    torch.manual_seed(0)
    x = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(WIDTH, CLASSES, dtype=torch.bfloat16, requires_grad=True)
    return x, w, torch.randint(0, CLASSES, (ROWS,))


def annotated(forward, module, inputs, **options):
    """The backend, where override_cudagraphs of newer versions of PyTorch says so of a forward."""
    if forward is not None:
        module.meta["cudagraph_annotation"] = types.SimpleNamespace(fwd=forward, bwd=None)
    return backend.kiln(module, inputs, options=options)


class Saved:
    """The logits that a forward saves, and what they were."""

    def __init__(self, fn, *inputs, annotation=None, **options):
        torch._dynamo.reset()
        tensors = []

        def pack(tensor):
            tensors.append(tensor)
            return tensor

        made = functools.partial(annotated, annotation, **options)
        called = torch.compile(fn, backend=made, fullgraph=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self.result = called(*inputs)
        (self.tensor,) = (t for t in tensors if t.shape == (ROWS, CLASSES))
        self.was = self.tensor.clone()

    def is_as_it_was(self):
        return torch.equal(self.tensor, self.was)


def close(found, due):
    torch.testing.assert_close(found, due, rtol=2e-2, atol=2e-3)


def test_the_gradient_takes_the_place_of_the_logits():
    x, w, classes = batch()
    due = torch.autograd.grad(loss_of(x, w, classes), (x, w))
    saved = Saved(loss_of, x, w, classes)
    close(torch.autograd.grad(saved.result, (x, w)), due)
    assert not saved.is_as_it_was()


def test_a_backward_that_runs_again_gets_what_was_saved():
    x, w, classes = batch()
    due = torch.autograd.grad(loss_of(x, w, classes), (x, w))
    saved = Saved(loss_of, x, w, classes)
    first = torch.autograd.grad(saved.result, (x, w), retain_graph=True)
    assert saved.is_as_it_was()
    second = torch.autograd.grad(saved.result, (x, w))
    assert not saved.is_as_it_was()
    close(first, due)
    assert all(map(torch.equal, first, second))


@pytest.mark.parametrize("rows", [ROWS, ROWS + 8])
def test_rows_of_any_number(rows):
    """Of symbolic sizes too."""
    x, w, classes = batch()
    called = torch.compile(loss_of, backend="kiln", fullgraph=True, dynamic=True)
    for count in (rows, rows - 1):
        given = x[:1].detach().expand(count, WIDTH).clone().requires_grad_()
        picked = classes[:1].expand(count).clone()
        due = torch.autograd.grad(loss_of(given, w, picked), (given, w))
        loss = called(given, w, picked)
        for again in (True, False):
            close(torch.autograd.grad(loss, (given, w), retain_graph=again), due)


def test_what_the_user_holds_is_never_written():
    def fn(x, w, classes):
        logits = x @ w
        return logits, F.cross_entropy(logits.float(), classes)

    x, w, classes = batch()
    logits, loss = torch.compile(fn, backend="kiln", fullgraph=True)(x, w, classes)
    was = [t.detach().clone() for t in (logits, x, w)]
    loss.backward()
    assert all(map(torch.equal, (logits, x, w), was))


def test_a_saved_tensor_that_is_a_gradient_is_not_written():
    """It leaves the backward as it came."""

    def fn(x, w):
        held = (x @ w).sin()
        return (held.detach() * x.sum()).sum() + held.exp().sum()

    x, w, _ = batch()
    due = torch.autograd.grad(fn(x, w), (x, w))
    found = torch.autograd.grad(torch.compile(fn, backend="kiln", fullgraph=True)(x, w), (x, w))
    torch.testing.assert_close(found, due, rtol=5e-2, atol=5e-1)


@pytest.mark.parametrize(
    ("option", "annotation", "device_graphs"),
    [(True, None, True), (False, True, True), (True, False, False), (False, False, False)],
)
def test_device_graphs_write_to_nothing_that_is_saved(option, annotation, device_graphs):
    """Whether the option asks for them or the program does."""
    x, w, classes = batch()
    saved = Saved(loss_of, x, w, classes, annotation=annotation, cudagraphs=option)
    torch.autograd.grad(saved.result, (x, w))
    assert saved.is_as_it_was() == device_graphs


def test_a_cached_backward_spares_what_it_runs_again_with():
    x, w, classes = batch()
    for _ in range(2):
        kiln.counters.clear()
        saved = Saved(loss_of, x, w, classes)
        first = torch.autograd.grad(saved.result, (x, w), retain_graph=True)
        second = torch.autograd.grad(saved.result, (x, w))
        assert all(map(torch.equal, first, second))
