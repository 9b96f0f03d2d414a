"""Optimizers whose compiled step is a few launches, and how that is seen."""

import torch

import kiln

# {name: function of the parameters}
STEPS = {
    "sgd_with_momentum": lambda weights: torch.optim.SGD(
        weights, lr=0.1, momentum=0.9, foreach=True
    ),
    "adam": lambda weights: torch.optim.Adam(weights, foreach=True),
    "adamw": lambda weights: torch.optim.AdamW(weights, foreach=True),
    "adamw_without_lists": lambda weights: torch.optim.AdamW(weights, foreach=False),
    "adamw_amsgrad": lambda weights: torch.optim.AdamW(weights, foreach=True, amsgrad=True),
}
SHAPES = [(n, 64) for n in range(1, 17)] + [(3 * n,) for n in range(1, 17)]
MOST_LAUNCHES = 4


def assert_a_step_is_few_launches(make, shapes, device="cpu"):
    """Four steps of `make(parameters)` give eager mode's parameters, in few launches however many
    parameters there are."""
    weights = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    theirs = [weight.detach().clone().requires_grad_() for weight in weights]
    mine, eager = make(weights), make(theirs)
    step = torch.compile(mine.step, backend="kiln")
    counts, before = [], kiln.counters["host_kernels"]
    for _ in range(4):
        for weight, other in zip(weights, theirs):
            weight.grad = torch.randn_like(weight)
            other.grad = weight.grad.clone()
        kiln.metrics.reset()
        step()
        eager.step()
        counts.append(kiln.metrics.launch_count)
    assert 0 < max(counts) <= MOST_LAUNCHES, counts
    assert kiln.counters["host_kernels"] == before
    # Dynamo has 1 - 0.999**step in float32, where eager mode has Python's float: 6e-5 of it at the
    # first step, half of that after the root, of an update of 0.1.
    torch.testing.assert_close(weights, theirs, rtol=1e-5, atol=1e-5)
