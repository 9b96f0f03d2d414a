"""Training steps under a backend and in eager mode, and how they compare."""

import copy

import torch


def train(model, batches, loss_of, steps=3, backend="kiln", **options):
    """[(loss, state)] of `steps` SGD steps of a copy of `model`."""
    model = copy.deepcopy(model)
    called = model if backend is None else torch.compile(model, backend=backend, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    for step in range(steps):
        loss = loss_of(called, batches[step % len(batches)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
    return seen, {name: value.detach() for name, value in model.state_dict().items()}


def assert_trains_alike(model, batches, loss_of, rtol=1e-3, atol=1e-4, **options):
    """Three steps under Kiln give the losses, parameters and buffers of eager mode."""
    torch.manual_seed(1)
    losses, state = train(model, batches, loss_of, backend=None)
    torch.manual_seed(1)
    kiln_losses, kiln_state = train(model, batches, loss_of, **options)
    torch.testing.assert_close(kiln_losses, losses, rtol=rtol, atol=atol)
    torch.testing.assert_close(kiln_state, state, rtol=rtol, atol=atol)
