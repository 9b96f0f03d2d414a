"""Random numbers: section 14.10 of the fact sheet, its second class too, and seeds."""

import functools
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import kiln
from trees import graphs, recordings, skips, state

STEPS = 6


def seeded(called, steps=STEPS):
    """What calls give after a seed: the first is a warm-up, the second a recording."""
    torch.manual_seed(3)
    return [called() for _ in range(steps)]


def assert_equal(got, due):
    for number, (one, other) in enumerate(zip(got, due, strict=True)):
        assert all(map(torch.equal, one, other)), number


def without_graphs(function):
    return torch.compile(function, backend="kiln")


def stepper(called, x):
    """Forward and backward of a function, as new tensors."""

    def step():
        x.grad = None
        y = called(x)
        y.square().sum().backward()
        return y.detach().clone(), x.grad.clone()

    return step


def test_rng_trees():
    called = graphs(lambda: torch.rand(100, device="cuda") + 2)
    draws = seeded(lambda: (called().clone(),), 3) + seeded(lambda: (called().clone(),), 3)
    assert_equal(draws[:3], draws[3:])
    assert len({draw[0][0].item() for draw in draws}) == 3
    assert recordings() == 1
    assert skips() == 0


def twice_dropped(x):
    return F.dropout(F.gelu(F.dropout(x, 0.5)), 0.1)


def attention(x):
    heads = x.view(8, 32, 4, 16).transpose(1, 2).bfloat16()
    return F.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.2).float()


def torchs_own_between(x):
    """Random numbers of Kiln's kernels, of PyTorch's operators, and of Kiln's again."""
    picked = torch.multinomial(F.dropout(x, 0.2).abs() + 1, 8)
    return F.dropout(x * 2, 0.2)[:, :8] + picked


@pytest.mark.parametrize("function", [twice_dropped, attention, torchs_own_between])
def test_a_seed_gives_the_same_numbers_with_and_without_graphs(function):
    x = torch.rand(256, 64, device="cuda", requires_grad=True)
    due = seeded(stepper(without_graphs(function), x))
    torch._dynamo.reset()
    step = stepper(graphs(function), x)
    assert_equal(seeded(step), due)
    assert_equal(seeded(step), due)
    assert recordings() == 2
    assert skips() == 0
    assert not torch.equal(due[3][0], due[4][0])


def test_replays_that_nothing_waits_for_have_seeds_of_their_own():
    x = torch.ones(1 << 16, device="cuda")
    draws = {}
    for name, make in (("plain", without_graphs), ("graphs", graphs)):
        called = make(lambda x: F.dropout(x, 0.5) + torch.randn_like(x))
        torch.manual_seed(5)
        kept = []
        for _ in range(60):
            torch.compiler.cudagraph_mark_step_begin()
            kept.append(called(x)[:64].clone())
        draws[name] = torch.stack(kept)
    assert state()["replays"] >= 50
    assert torch.equal(draws["plain"], draws["graphs"])
    assert len({tuple(row) for row in draws["plain"].tolist()}) == 60


def test_a_state_that_is_put_back_gives_a_replay_the_same_numbers():
    called = graphs(lambda x: F.dropout(x, 0.5))
    x = torch.ones(4096, device="cuda")
    for _ in range(3):
        called(x)
    kept = torch.cuda.get_rng_state()
    first = called(x).clone()
    with torch.random.fork_rng(devices=[0]):
        called(x)
        called(x)
    torch.cuda.set_rng_state(kept)
    assert torch.equal(called(x), first)
    assert not torch.equal(called(x), first)
    assert state()["replays"] >= 4


def test_a_graph_that_draws_nothing_leaves_the_generator_alone():
    called = graphs(lambda x: F.dropout(x, 0.0) * 2 + F.dropout(x, 0.5, training=False))
    x = torch.ones(64, device="cuda")
    for _ in range(4):
        before = torch.cuda.get_rng_state()
        called(x)
        assert torch.equal(torch.cuda.get_rng_state(), before)
    assert recordings() == 1


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints_around_a_graph_draw_the_same_again(use_reentrant):
    called = graphs(lambda x: F.dropout(x, 0.5))
    x = torch.ones(64, 64, device="cuda", requires_grad=True)
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        x.grad = None
        y = checkpoint(called, x, use_reentrant=use_reentrant)
        kept = y.detach().clone()
        y.sum().backward()
        assert torch.equal(x.grad, kept)
        assert 0.4 < (kept == 0).float().mean() < 0.6
    assert state()["replays"] >= 1


# Of the second class: what a selective checkpoint draws again.


def _policy(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_RECOMPUTE


def checkpointed(function):
    contexts = functools.partial(create_selective_checkpoint_contexts, _policy)

    def run(x):
        return checkpoint(function, x, use_reentrant=False, context_fn=contexts)

    return run


def noisy(x):
    """Whose gradient is the numbers that were drawn."""
    return x * torch.rand_like(x)


def gradient(y, x, **options):
    return torch.autograd.grad(y.sum(), x, **options)[0].clone()


def test_simple():
    called = graphs(checkpointed(noisy))
    x = torch.ones(4, 4, device="cuda", requires_grad=True)
    runs = []
    for _ in range(4):
        y = called(x)
        kept = y.detach().clone()
        assert torch.equal(gradient(y, x), kept)
        runs.append(kept)
        del y
    for one, other in itertools.combinations(runs, 2):
        assert not torch.equal(one, other)
    assert skips() == 0
    assert recordings() == 2


def test_cudagraph_uneven_forward_backward():
    def shuffled(x):
        """Whose gradient says which row went where."""
        return x[torch.randperm(8, device=x.device)] * torch.arange(8.0, device=x.device)

    called = graphs(checkpointed(shuffled))
    x = torch.arange(8.0, device="cuda", requires_grad=True)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        y = called(x)
        # x[order[k]] * k; the gradient of x[order[k]] is k.
        found = gradient(y, x)
        assert sorted(found.tolist()) == list(range(8))
        for source, place in enumerate(found.int().tolist()):
            assert y[place] == source * place
        del y
    assert recordings() == 2


def test_cpu_and_cuda_rng():
    def function(x, z):
        return noisy(x), noisy(z)

    called = graphs(function)
    x = torch.ones(8, device="cuda", requires_grad=True)
    z = torch.ones(8, requires_grad=True)
    runs = []
    for _ in range(2):
        on_gpu, on_cpu = called(x, z)
        assert (on_gpu.device.type, on_cpu.device.type) == ("cuda", "cpu")
        kept = on_gpu.detach().clone(), on_cpu.detach().clone()
        found = torch.autograd.grad(on_gpu.sum().cpu() + on_cpu.sum(), (x, z))
        assert_equal([found], [kept])
        runs.append(kept)
    assert not torch.equal(runs[0][0], runs[1][0])
    assert not torch.equal(runs[0][1], runs[1][1])
    assert skips() == 0
    assert recordings() >= 1


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_uneven_forward_backward(order):
    called = graphs(checkpointed(noisy))
    x = torch.ones(8, 8, device="cuda", requires_grad=True)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        results = [called(x) for _ in range(3)]
        kept = [y.detach().clone() for y in results]
        for number in order:
            assert torch.equal(gradient(results[number], x), kept[number])
        for one, other in itertools.combinations(kept, 2):
            assert not torch.equal(one, other)
        del results
    assert state()["replays"] >= 1


def test_cudagraphs_aot_eager_compat_equal():
    def block(x):
        return torch.sigmoid(F.dropout(x, 0.3)) * torch.randn_like(x)

    x = torch.rand(32, 32, device="cuda", requires_grad=True)
    due = seeded(stepper(without_graphs(checkpointed(block)), x))
    torch._dynamo.reset()
    assert_equal(seeded(stepper(graphs(checkpointed(block)), x)), due)
    assert skips() == 0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU here")
def test_multi_device():
    def function(x, y):
        return noisy(x), noisy(y)

    called = graphs(function)
    x = torch.ones(8, device="cuda:0", requires_grad=True)
    y = torch.ones(8, device="cuda:1", requires_grad=True)
    for _ in range(3):
        one, other = called(x, y)
        kept = one.detach().clone(), other.detach().clone()
        found = torch.autograd.grad(one.sum() + other.sum().to(0), (x, y))
        assert_equal([found], [kept])


def test_retain_graph():
    called = graphs(checkpointed(noisy))
    x = torch.ones(8, 8, device="cuda", requires_grad=True)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        y = called(x)
        kept = y.detach().clone()
        for last in (False, False, True):
            assert torch.equal(gradient(y, x, retain_graph=not last), kept)
        del y
    assert state()["replays"] >= 1


def test_training_with_dropout_goes_through_graphs():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True).cuda()
    x = torch.rand(4, 32, 64, device="cuda")
    seen = []
    for make in (without_graphs, graphs):
        torch._dynamo.reset()
        kiln.counters.clear()
        called = make(layer)
        torch.manual_seed(1)
        for _ in range(5):
            layer.zero_grad(set_to_none=True)
            loss = called(x).square().mean()
            loss.backward()
            seen.append(loss.detach().clone())
    assert recordings() == 2
    assert state()["forwards_pending"] == 0
    assert skips() == 0
    torch.testing.assert_close(seen[5:], seen[:5], rtol=1e-6, atol=0)
    layer.zero_grad(set_to_none=True)
