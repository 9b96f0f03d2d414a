"""A linear and its cross-entropy in chunks (the option fuse_linear_cross_entropy), beside eager mode."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import kiln
from kiln import fuse_linear_cross_entropy

ROWS, HIDDEN, CLASSES, CHUNK = 40, 24, 50, 16
FUSED = {"fuse_linear_cross_entropy": True}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(fuse_linear_cross_entropy, "CHUNK_BYTES", CHUNK * CLASSES * 4)
    torch._dynamo.reset()
    torch.manual_seed(0)
    kiln.counters.clear()


def inputs(dtype=torch.float32, ignored=-100):
    x = torch.randn(ROWS, HIDDEN, dtype=dtype, requires_grad=True)
    target = torch.randint(0, CLASSES, (ROWS,))
    target[::7] = ignored
    return x, target


def gradients(fn, linear, x, target):
    """The loss, and the gradients of x and of the linear's parameters, under a loss of its own."""
    given, x = x, x.detach().clone().requires_grad_(x.requires_grad)
    for name in ("_dynamo_dynamic_indices", "_dynamo_dynamic_range"):
        if hasattr(given, name):
            setattr(x, name, getattr(given, name))
    loss = fn(linear, x, target)
    of_loss = torch.linspace(0.5, 2, loss.numel(), dtype=loss.dtype).reshape(loss.shape)
    loss.backward(of_loss)
    return [loss, x.grad, *(p.grad for p in linear.parameters())]


def check(fn, linear, x, target, fused=1, **tolerance):
    """Compiled with the option, all is as in eager mode."""
    due_linear = copy.deepcopy(linear)
    compiled = torch.compile(fn, backend="kiln", fullgraph=True, options=FUSED)
    found = gradients(compiled, linear, x, target)
    due = gradients(fn, due_linear, x, target)
    torch.testing.assert_close(found, due, equal_nan=True, **tolerance)
    assert kiln.counters["linear_cross_entropy"] == fused
    with torch.no_grad():
        torch.testing.assert_close(compiled(linear, x, target), due[0], equal_nan=True, **tolerance)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss_and_gradients(reduction, bias):
    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target, reduction=reduction)

    check(fn, nn.Linear(HIDDEN, CLASSES, bias), *inputs())


def test_many_chunks(monkeypatch):
    """More than have their gradients of the weight summed at once, and a last one that is shorter."""
    monkeypatch.setattr(fuse_linear_cross_entropy, "CHUNK_BYTES", 4 * CLASSES * 4)

    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target)

    x, target = inputs()
    x = x.detach()[1:].requires_grad_()
    check(fn, nn.Linear(HIDDEN, CLASSES), x, target[1:])


def test_another_number_is_ignored():
    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target, ignore_index=3)

    check(fn, nn.Linear(HIDDEN, CLASSES), *inputs(ignored=3))


def test_a_chunk_alone_may_be_ignored():
    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target)

    x, target = inputs()
    target[CHUNK : 2 * CHUNK] = -100
    check(fn, nn.Linear(HIDDEN, CLASSES), x, target)


def test_without_any_row_the_mean_is_nan_and_gradients_are_zero():
    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target)

    x, target = inputs()
    linear = nn.Linear(HIDDEN, CLASSES)
    check(fn, linear, x, torch.full_like(target, -100))
    assert all(not p.grad.any() for p in linear.parameters())


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_half_types_are_as_near_as_eager_mode(reduction):
    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target, reduction=reduction)

    linear = nn.Linear(HIDDEN, CLASSES).bfloat16()
    x, target = inputs(torch.bfloat16)
    wide = copy.deepcopy(linear).double()
    due = gradients(fn, wide, x.detach().double().requires_grad_(), target)
    eager = gradients(fn, copy.deepcopy(linear), x, target)
    found = gradients(torch.compile(fn, backend="kiln", options=FUSED), linear, x, target)
    assert kiln.counters["linear_cross_entropy"] == 1
    for mine, theirs, exact in zip(found, eager, due):
        assert mine.dtype == theirs.dtype
        off, eager_off = ((t.double() - exact).norm() for t in (mine, theirs))
        assert off <= 1.5 * eager_off + 2**-9 * exact.norm()


def test_autocast_multiplies_in_half_types_and_gives_a_wide_loss():
    def fn(linear, x, target):
        with torch.autocast("cpu", torch.bfloat16):
            logits = linear(x)
        return F.cross_entropy(logits.float(), target)

    linear = nn.Linear(HIDDEN, CLASSES)
    check(fn, linear, *inputs(), rtol=2e-2, atol=2e-3)
    assert linear.weight.grad.dtype == torch.float32


def test_a_model_that_flattens_and_shifts():
    def fn(linear, x, target):
        logits = linear(x.view(5, 8, HIDDEN))
        logits = logits[..., :-1, :].contiguous()
        labels = target.view(5, 8)[..., 1:].contiguous()
        return F.cross_entropy(logits.view(-1, CLASSES), labels.view(-1))

    check(fn, nn.Linear(HIDDEN, CLASSES), *inputs())


CUTS = {
    "all but the last": lambda logits: logits.view(-1, CLASSES)[:-1],
    "as many as a sequence has": lambda logits: logits.view(-1, CLASSES)[1:21],
    "every other": lambda logits: logits.flatten(0, 1)[::2],
    "before and behind": lambda logits: logits[:, 1:].reshape(-1, CLASSES)[2:].float()[:-1],
}


@pytest.mark.parametrize("name", CUTS)
def test_rows_that_are_cut_behind_a_flattening(name):
    def fn(linear, x, target):
        logits = CUTS[name](linear(x.view(2, 20, HIDDEN)))
        return F.cross_entropy(logits, target[: logits.size(0)])

    check(fn, nn.Linear(HIDDEN, CLASSES), *inputs())


def test_a_log_softmax_and_its_loss():
    def fn(linear, x, target):
        return F.nll_loss(F.log_softmax(linear(x), dim=-1), target)

    check(fn, nn.Linear(HIDDEN, CLASSES), *inputs())


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_what_needs_no_gradient_gets_none(reduction):
    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target, reduction=reduction)

    linear = nn.Linear(HIDDEN, CLASSES)
    linear.weight.requires_grad_(False)
    check(fn, linear, *inputs())
    assert linear.weight.grad is None


def test_a_loss_that_is_part_of_a_sum():
    def fn(linear, x, target):
        return 3 * F.cross_entropy(linear(x), target) + x.square().mean()

    check(fn, nn.Linear(HIDDEN, CLASSES), *inputs())


def test_a_target_that_is_no_class_is_an_error():
    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target)

    x, target = inputs()
    target[20] = CLASSES
    compiled = torch.compile(fn, backend="kiln", options=FUSED)
    with pytest.raises(IndexError, match=f"{CLASSES}"):
        compiled(nn.Linear(HIDDEN, CLASSES), x, target)


@pytest.mark.parametrize("reduction, traces", [("mean", 2), ("none", 3)])
def test_the_number_of_rows_may_be_a_symbol(reduction, traces):
    """As many chunks as it had when it was traced; another number of them is traced anew. The backward of a loss a row
    begins with half a chunk, so it has more of them at 49 rows already."""

    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target, reduction=reduction)

    linear = nn.Linear(HIDDEN, CLASSES)
    compiled = torch.compile(fn, backend="kiln", fullgraph=True, options=FUSED)
    for rows in (40, 34, 49, 50, 40):
        x, target = torch.randn(rows, HIDDEN, requires_grad=True), torch.randint(0, CLASSES, (rows,))
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(target, 0)
        due_linear = copy.deepcopy(linear)
        linear.zero_grad()
        due_linear.zero_grad()
        torch.testing.assert_close(
            gradients(compiled, linear, x, target), gradients(fn, due_linear, x, target)
        )
    assert kiln.counters["linear_cross_entropy"] == traces


STAYING = {
    "label_smoothing": lambda logits, target: F.cross_entropy(logits, target, label_smoothing=0.1),
    "weights": lambda logits, target: F.cross_entropy(logits, target, torch.linspace(0.5, 2, CLASSES)),
    "probabilities": lambda logits, target: F.cross_entropy(logits, F.one_hot(target.clamp(0), CLASSES).float()),
    "read_twice": lambda logits, target: F.cross_entropy(logits, target) + logits.mean(),
    "other_dimension": lambda logits, target: F.nll_loss(F.log_softmax(logits, 0), target),
    "narrower": lambda logits, target: F.cross_entropy(logits.to(torch.bfloat16), target).float(),
    "cut_behind_another_shape": lambda logits, target: F.cross_entropy(
        logits.view(4, -1, CLASSES)[1:].view(-1, CLASSES), target[ROWS // 4 :]
    ),
    "cut_behind_wider_rows": lambda logits, target: F.cross_entropy(
        logits.view(-1, 2 * CLASSES)[1:].view(-1, CLASSES), target[2:]
    ),
    "transposed": lambda logits, target: F.cross_entropy(logits.t().reshape(-1, CLASSES), target),
}


@pytest.mark.parametrize("name", STAYING)
def test_others_stay_as_they_are(name):
    def fn(linear, x, target):
        return STAYING[name](linear(x), target)

    found = torch.compile(fn, backend="kiln", options=FUSED)
    x, target = inputs()
    linear = nn.Linear(HIDDEN, CLASSES)
    torch.testing.assert_close(found(linear, x, target), fn(linear, x, target), rtol=1e-2, atol=1e-2)
    assert kiln.counters["linear_cross_entropy"] == 0


def test_what_writes_to_an_operand_in_between_keeps_them_apart():
    def fn(linear, x, target):
        logits = linear(x)
        x.add_(1)
        return F.cross_entropy(logits, target)

    x, target = inputs()
    linear = nn.Linear(HIDDEN, CLASSES)
    with torch.no_grad():
        due = fn(linear, x.clone(), target)
        found = torch.compile(fn, backend="kiln", options=FUSED)(linear, x.clone(), target)
    torch.testing.assert_close(found, due)
    assert kiln.counters["linear_cross_entropy"] == 0


def test_one_chunk_and_the_option_off_change_nothing(monkeypatch):
    def fn(linear, x, target):
        return F.cross_entropy(linear(x), target)

    x, target = inputs()
    linear = nn.Linear(HIDDEN, CLASSES)
    torch.compile(fn, backend="kiln")(linear, x, target)
    monkeypatch.setattr(fuse_linear_cross_entropy, "CHUNK_BYTES", ROWS * CLASSES * 4)
    torch._dynamo.reset()
    torch.compile(fn, backend="kiln", options=FUSED)(linear, x, target)
    assert kiln.counters["linear_cross_entropy"] == 0
