"""Training steps and calls under a backend and in eager mode, and how they compare.

A number may be off from eager mode's by four times eager mode's own error, which is that against
the same step in float64: the greatest of its tensor. To this come _RTOL of the number itself, and
PyTorch's default for float32 where eager mode's error is less. Integers are exact. That is the rule
for the graphs in tests/corpus, here for whole steps.
"""

import contextlib
import copy

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

_RTOL, _LEAST_ATOL, _TIMES = 1e-4, 1e-5, 4
# How far parameters are moved to see what rounding alone does, and how often.
_NUDGE, _NUDGES = 1e-6, 12


class _Doubles(TorchFunctionMode):
    """Who asks for float32 gets float64: models do so for a norm, a softmax or an embedding."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args, kwargs = tree_map(
            lambda x: torch.float64 if x is torch.float32 else x, (args, kwargs or {})
        )
        return func(*args, **kwargs)


@contextlib.contextmanager
def _in_doubles():
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Doubles():
            yield
    finally:
        torch.set_default_dtype(usual)


def _copied(value, dtype=None):
    if not isinstance(value, torch.Tensor):
        return value
    dtype = dtype if value.is_floating_point() else None
    return value.detach().to(dtype=dtype, copy=True).requires_grad_(value.requires_grad)


def _backward(called, model, batch, loss_of):
    """{name: tensor} of one step, in memory of their own: the loss, the gradients of parameters and
    of inputs that require them, the buffers afterwards."""
    torch.manual_seed(1)
    model.zero_grad()
    batch = tree_map(_copied, batch)
    loss = loss_of(called, batch)
    loss.backward()
    seen = {"loss": loss.detach()}
    seen |= {f"buffer {n}": b.detach().clone() for n, b in model.named_buffers()}
    given = {f"input {i}": leaf for i, leaf in enumerate(tree_leaves(batch))}
    for name, value in (dict(model.named_parameters()) | given).items():
        if isinstance(value, torch.Tensor) and value.grad is not None:
            seen[f"gradient of {name}"] = value.grad.clone()
    return seen


def outcome(called, batch):
    """{name: tensor} of a call without gradients: its results, its inputs as it leaves them."""
    batch = tree_map(_copied, batch)
    with torch.no_grad():
        result = called(**batch) if isinstance(batch, dict) else called(*batch)
    return {
        f"{kind} {i}": leaf
        for kind, tree in (("result", result), ("input", batch))
        for i, leaf in enumerate(tree_leaves(tree))
        if isinstance(leaf, torch.Tensor)
    }


def _in_float64(run, model, batch):
    """{name: tensor} of run(model, batch), all of it in float64."""
    with _in_doubles():
        model = copy.deepcopy(model).double()
        seen = run(model, tree_map(lambda value: _copied(value, torch.float64), batch))
    assert not [name for name, value in seen.items() if value.dtype == torch.float32]
    return seen


def _allowed(due, exact):
    """{name: how far off a number of that tensor may be}."""
    allowed = {}
    for name, value in due.items():
        allowed[name] = torch.zeros_like(value, dtype=torch.float64)
        if value.is_floating_point():
            errors = (value - exact[name]).abs()
            errors = errors[errors.isfinite()]
            worst = float(errors.max()) if errors.numel() else 0.0
            allowed[name] += max(_LEAST_ATOL, _TIMES * worst) + _RTOL * value.abs().double()
    return allowed


def _excess(found, due, allowed):
    """{name: how much further off than it may be, a number each}; the greatest is below zero if the
    tensors are alike."""
    assert found.keys() == due.keys()
    excess = {}
    for name, value in due.items():
        got = found[name]
        assert (got.shape, got.dtype) == (value.shape, value.dtype), name
        same = (got == value) | (got.isnan() & value.isnan())
        off = (got.double() - value.double()).abs() - allowed[name]
        excess[name] = torch.where(same, -1.0, off.nan_to_num(torch.inf, torch.inf))
    return excess


def _assert_none(excess, where):
    worst = {name: float(over.max()) for name, over in excess.items() if over.numel()}
    wrong = [f"{name} is off by {most:.1e}" for name, most in worst.items() if most > 0]
    assert not wrong, f"{where}: {', '.join(wrong)} more than they may be"


def _jumps(model, batch, loss_of, due):
    """How far eager mode's gradients move, an element each, when parameters move by their last
    bits."""
    generator = torch.Generator().manual_seed(1)
    spread = {n: torch.zeros_like(v) for n, v in due.items() if n.startswith("gradient")}
    for _ in range(_NUDGES):
        nudged = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in nudged.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter.mul_(1 + _NUDGE * noise.to(parameter.device))
        seen = _backward(nudged, nudged, batch, loss_of)
        for name, value in spread.items():
            torch.maximum(value, (seen[name] - due[name]).abs(), out=value)
    return spread


def assert_trains_alike(model, batches, loss_of, steps=3, backend="kiln", ties=False, **options):
    """Three steps of SGD under a backend give the losses, gradients and buffers of eager mode.

    Each step starts from eager mode's state, so all three are compared and none inherits the
    rounding of another. `ties`: the model has a max pool. Where two elements of its window are
    equal but for rounding, either may win, and the gradients of both are right; a gradient may
    then jump where eager mode's own does (_jumps), and as far."""
    due_model, model = copy.deepcopy(model), copy.deepcopy(model)
    optimizer = torch.optim.SGD(due_model.parameters(), lr=0.05)
    called = torch.compile(model, backend=backend, **options)
    for number in range(steps):
        batch = batches[number % len(batches)]
        before = copy.deepcopy(due_model)
        model.load_state_dict(before.state_dict())
        exact = _in_float64(lambda m, b: _backward(m, m, b, loss_of), before, batch)
        due = _backward(due_model, due_model, batch, loss_of)
        found = _backward(called, model, batch, loss_of)
        excess = _excess(found, due, _allowed(due, exact))
        if ties and any((over > 0).any() for over in excess.values()):
            for name, jump in _jumps(before, batch, loss_of, due).items():
                excess[name] -= jump
        _assert_none(excess, f"step {number}")
        optimizer.step()


def assert_infers_alike(model, batches, backend="kiln", **options):
    """Calls under a backend give eager mode's results, and leave its inputs as eager mode does."""
    called = torch.compile(model, backend=backend, **options)
    for number, batch in enumerate(batches):
        due, exact = outcome(model, batch), _in_float64(outcome, model, batch)
        excess = _excess(outcome(called, batch), due, _allowed(due, exact))
        _assert_none(excess, f"batch {number}")
