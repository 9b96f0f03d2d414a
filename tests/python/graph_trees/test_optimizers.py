"""Steps of optimizers as device graphs."""

import copy

import pytest
import torch

from trees import graphs, recordings, skips, state

MAKERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), capturable=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, capturable=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, capturable=True),
    # With momentum its first step makes the buffers, as results of a graph that the next one overwrites.
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_step_of_an_optimizer_is_replayed(name):
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)).cuda()
    model = copy.deepcopy(plain)
    optimizers = [MAKERS[name](list(m.parameters())) for m in (plain, model)]
    for parameter in [*plain.parameters(), *model.parameters()]:
        parameter.grad = torch.zeros_like(parameter)  # which stays where it is
    step = graphs(optimizers[1].step)
    x = torch.rand(4, 8, device="cuda")
    for number in range(8):
        for one in (plain, model):
            one.zero_grad(set_to_none=False)
            one(x + number).square().mean().backward()
        optimizers[0].step()
        step()
        for got, due in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(got, due, rtol=1e-5, atol=1e-6)
    assert skips() == 0
    assert state()["replays"] >= 3
    assert recordings() <= 2  # the first step makes the optimizer's state


def test_a_whole_step_of_training_is_replayed():
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).cuda()
    model = copy.deepcopy(plain)
    optimizers = [torch.optim.AdamW(m.parameters(), capturable=True) for m in (plain, model)]
    forward, update = graphs(model), graphs(optimizers[1].step)
    x = torch.rand(4, 8, device="cuda")
    for number in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        for called, one, optimizer in (
            (plain, plain, optimizers[0].step),
            (forward, model, update),
        ):
            one.zero_grad(set_to_none=True)
            called(x + number).square().mean().backward()
            optimizer()
        for got, due in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-5)
    assert skips() == 0
    model.zero_grad(set_to_none=True)
