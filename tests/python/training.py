"""Training steps under a backend and in eager mode, and how they compare."""

import copy

import torch

# How far parameters are moved to see what rounding alone does, and how often.
_NUDGE, _NUDGES = 1e-6, 12


def _backward(called, model, batch, loss_of):
    """(loss, gradients, buffers afterwards) of one step, in memory of their own."""
    torch.manual_seed(1)
    model.zero_grad()
    loss = loss_of(called, batch)
    loss.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), gradients, copy.deepcopy(dict(model.named_buffers()))


def _jumps(model, batch, loss_of, due):
    """How far eager mode's gradients move, an element each, when parameters move by their last
    bits. For a smooth network that is next to nothing. Where two elements of a max pool's window
    are equal but for rounding, it is what the other winner makes of the gradients."""
    generator = torch.Generator().manual_seed(1)
    spread = {name: torch.zeros_like(value) for name, value in due.items()}
    for _ in range(_NUDGES):
        nudged = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in nudged.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter.mul_(1 + _NUDGE * noise.to(parameter.device))
        _, gradients, _ = _backward(nudged, nudged, batch, loss_of)
        for name, value in spread.items():
            torch.maximum(value, (gradients[name] - due[name]).abs(), out=value)
    return spread


def assert_trains_alike(
    model, batches, loss_of, rtol=1e-3, atol=1e-4, steps=3, backend="kiln", **options
):
    """Three steps of SGD under a backend give the losses, gradients and buffers of eager mode.

    Each step starts from eager mode's state, so all three are compared and none inherits the
    rounding of another. A gradient may jump where eager mode's own does (_jumps), and as far."""
    due_model, model = copy.deepcopy(model), copy.deepcopy(model)
    optimizer = torch.optim.SGD(due_model.parameters(), lr=0.05)
    called = torch.compile(model, backend=backend, **options)
    for number in range(steps):
        batch = batches[number % len(batches)]
        before = copy.deepcopy(due_model)
        model.load_state_dict(before.state_dict())
        loss, gradients, buffers = _backward(due_model, due_model, batch, loss_of)
        found = _backward(called, model, batch, loss_of)
        within = {"rtol": rtol, "atol": atol}
        torch.testing.assert_close(found[0], loss, **within)
        torch.testing.assert_close(found[2], buffers, **within)
        assert found[1].keys() == gradients.keys()
        excess = {
            name: (found[1][name] - due).abs() - (atol + rtol * due.abs())
            for name, due in gradients.items()
        }
        if not all((over <= 0).all() for over in excess.values()):
            jumps = _jumps(before, batch, loss_of, gradients)
            for name, over in excess.items():
                worst = float((over - jumps[name]).max())
                assert worst <= 0, f"step {number}: gradient of {name} is off by {worst:.1e}"
        optimizer.step()
