"""Layouts of what a convolution network saves for its backward."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import kiln
from kiln import saved_layouts


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, stride=2)
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        image = F.relu(self.norm(self.first(x)))
        image = F.max_pool2d(image, 2)
        image = F.silu(self.second(image))
        return self.last(image.mean((2, 3))), image


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(saved_layouts, "_goes_channels_last", lambda node: True)
    torch._dynamo.reset()


def step(model, x, backend):
    """The results, what is saved beside inputs and results, and all gradients."""
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    called = model if backend is None else torch.compile(model, backend=backend, fullgraph=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        results = called(x)
    known = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *results, x)}
    beside = [t for t in saved if t.untyped_storage().data_ptr() not in known and t.dim() == 4]
    sum(result.square().sum() for result in results).backward()
    return results, beside, [x.grad, *(p.grad for p in model.parameters())]


def layouts(tensors):
    return [(tensor.shape, tensor.stride()) for tensor in tensors]


def test_images_are_saved_channels_last_and_nothing_else_changes():
    model = Net()
    x = torch.randn(2, 3, 10, 12)
    due, _, due_grads = step(copy.deepcopy(model), x.clone().requires_grad_(), None)
    found, saved, grads = step(model, x.clone().requires_grad_(), "kiln")
    assert saved
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in saved), layouts(saved)
    torch.testing.assert_close(found, due)
    torch.testing.assert_close(grads, due_grads, rtol=1e-4, atol=1e-4)
    assert layouts(found) == layouts(due)
    assert layouts(grads) == layouts(due_grads)


def test_a_saved_image_is_not_copied():
    def fn(x, w):
        image = F.conv2d(x, w).sigmoid()
        return F.conv2d(image, w).sin().sum()

    x = torch.randn(2, 4, 9, 9)
    w = torch.randn(4, 4, 3, 3, requires_grad=True)
    code = "".join(kiln.get_code(fn, x, w))
    assert "sigmoid" in code and "clone" not in code, code
    y = torch.compile(fn, backend="kiln", fullgraph=True)(x, w)
    (found,) = torch.autograd.grad(y, w)
    (due,) = torch.autograd.grad(fn(x, w), w)
    torch.testing.assert_close(found, due, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("edge, kept", [(8, True), (9, False)])
def test_products_of_whole_vectors_of_pixels_are_saved_as_they_are(edge, kept):
    def fn(x, w):
        return F.conv2d(F.conv2d(x, w).sigmoid(), w).sin()

    x = torch.randn(2, 4, edge, edge)
    w = torch.randn(4, 4, 1, 1, requires_grad=True)
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        torch.compile(fn, backend="kiln", fullgraph=True)(x, w)
    beside = [t for t in saved if t.shape == x.shape and t.data_ptr() != x.data_ptr()]
    assert beside
    assert all(t.is_contiguous() == kept for t in beside), layouts(beside)


def test_the_option_leaves_layouts_alone():
    model = Net()
    x = torch.randn(2, 3, 10, 12, requires_grad=True)
    with kiln.config.patch(layout_optimization=False):
        _, saved, _ = step(model, x, "kiln")
    assert saved and all(t.is_contiguous() for t in saved)


def test_a_result_that_is_saved_too_stays_one_tensor():
    def fn(x, w):
        image = F.conv2d(x, w)
        return image, image.sin()

    x, w = torch.randn(2, 4, 9, 9), torch.randn(4, 4, 3, 3, requires_grad=True)
    image, y = torch.compile(fn, backend="kiln", fullgraph=True)(x, w)
    assert image.is_contiguous() and y.is_contiguous()
    (found,) = torch.autograd.grad(y.sum() + image.sum(), w)
    due_image, due = fn(x, w)
    torch.testing.assert_close(found, *torch.autograd.grad(due.sum() + due_image.sum(), w))


def test_what_no_convolution_touches_is_saved_as_it_is():
    def fn(x, w, q):
        scores = (q @ q.transpose(-1, -2)).softmax(-1).sin()
        return F.conv2d(x, w).sin(), (scores @ q).cos()

    x, w = torch.randn(2, 4, 9, 9), torch.randn(4, 4, 3, 3, requires_grad=True)
    q = torch.randn(2, 3, 5, 7, requires_grad=True)
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        torch.compile(fn, backend="kiln", fullgraph=True)(x, w, q)
    scores = [t for t in saved if t.shape == (2, 3, 5, 5)]
    assert scores and all(t.is_contiguous() for t in scores)


class Head(nn.Module):
    """A linear layer over classes that are no multiple of 8, and its loss."""

    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        self.linear = nn.Linear(16, 1027, dtype=dtype)

    def forward(self, x, classes):
        logits = self.linear(x).float().flatten(0, 1)
        return F.cross_entropy(logits, classes.flatten())


def head_step(options, backend="kiln"):
    """The strides of the logits as they are saved, the loss and the gradients."""
    torch.manual_seed(0)
    model = Head()
    x = torch.randn(3, 8, 16, dtype=torch.bfloat16, requires_grad=True)
    classes = torch.randint(0, 1027, (3, 8))
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    called = model if backend is None else torch.compile(model, backend=backend, options=options)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = called(x, classes)
    loss.backward()
    strides = [t.stride() for t in saved if t.shape == (24, 1027)]
    return strides, loss.detach(), [x.grad, model.linear.weight.grad, model.linear.bias.grad]


@pytest.mark.parametrize(
    "option, value, rows",
    [
        ("shape_padding", True, 1088),
        ("shape_padding", False, 1027),
        ("comprehensive_padding", False, 1027),
        ("force_shape_pad", True, 1027),
    ],
)
def test_a_product_is_saved_with_room_behind_its_rows(monkeypatch, option, value, rows):
    monkeypatch.setattr(saved_layouts, "is_on_tensor_cores", lambda value: True)
    saved, loss, grads = head_step({option: value})
    assert saved == [(rows, 1)]
    _, due, due_grads = head_step({}, backend=None)
    torch.testing.assert_close(loss, due, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(grads, due_grads, rtol=2e-2, atol=2e-2)
    assert layouts(grads) == layouts(due_grads)


def test_a_product_that_is_a_result_keeps_its_rows(monkeypatch):
    monkeypatch.setattr(saved_layouts, "is_on_tensor_cores", lambda value: True)
    x = torch.randn(8, 16, dtype=torch.bfloat16)
    w = torch.randn(16, 1027, dtype=torch.bfloat16, requires_grad=True)

    def fn(x, w):
        y = x @ w
        return y, y.float().logsumexp(1)

    y, z = torch.compile(fn, backend="kiln", fullgraph=True)(x, w)
    assert y.stride() == (1027, 1)
    (found,) = torch.autograd.grad(y.sum() + z.sum(), w)
    due_y, due_z = fn(x, w)
    torch.testing.assert_close(
        found, *torch.autograd.grad(due_y.sum() + due_z.sum(), w), rtol=2e-2, atol=2e-2
    )
