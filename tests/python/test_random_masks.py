"""What a backward draws again instead of having it saved: dropout's masks, and other random numbers
of a forward."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import kiln
from kiln.compiled_graph import recording
from kiln.random_seeds import draw_from_seeds


def compiled(fn, **options):
    return torch.compile(fn, backend="kiln", fullgraph=True, **options)


def run(fn, *args):
    """The result, and the tensors that are saved for its backward."""
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return fn(*args), saved


def gradient(y, *inputs):
    return torch.autograd.grad(y, inputs, torch.ones_like(y))


def gradient_of_sum(y, x):
    """By ``backward``: a reentrant checkpoint has no other."""
    x.grad = None
    y.sum().backward()
    return x.grad


def bytes_beside(saved, *inputs):
    """Bytes saved that no input holds."""
    known = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    storages = {s.untyped_storage().data_ptr(): s.untyped_storage().nbytes() for s in saved}
    return sum(size for place, size in storages.items() if place not in known)


LAYOUTS = {
    "rows": lambda dtype: torch.ones(64, 48, dtype=dtype),
    "odd": lambda dtype: torch.ones(7, 13, 3, dtype=dtype),
    "transposed": lambda dtype: torch.ones(48, 64, dtype=dtype).t(),
    "channels_last": lambda dtype: torch.ones(2, 5, 6, 7, dtype=dtype).to(
        memory_format=torch.channels_last
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_mask_of_a_dropout_is_drawn_again_and_not_saved(layout, dtype):
    x = LAYOUTS[layout](dtype).requires_grad_()
    y, saved = run(compiled(lambda x: F.dropout(x, 0.25)), x)
    assert y.stride() == x.stride()
    assert 0.6 < (y != 0).float().mean() < 0.9
    assert bytes_beside(saved, x) <= 8
    torch.testing.assert_close(gradient(y, x)[0], y.detach())


def test_each_call_and_each_dropout_has_its_own_mask():
    def fn(x):
        return F.dropout(x, 0.5), F.dropout(x, 0.5), F.dropout(x, 0.5)

    x = torch.ones(4096, requires_grad=True)
    called = compiled(fn)
    results = [y for _ in range(3) for y in called(x)]
    for k, one in enumerate(results):
        for other in results[:k]:
            assert 0.4 < ((one != 0) == (other != 0)).float().mean() < 0.6
    (first,), (second,) = gradient(results[0], x), gradient(results[4], x)
    torch.testing.assert_close(first, results[0].detach())
    torch.testing.assert_close(second, results[4].detach())


def test_a_seed_gives_the_same_masks_again():
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.3), nn.ReLU(), nn.Dropout(0.1))
    called, x = compiled(model), torch.randn(8, 16)

    def step():
        model.zero_grad()
        y = called(x)
        y.square().sum().backward()
        return y.detach(), *(p.grad.clone() for p in model.parameters())

    torch.manual_seed(5)
    first, second = step(), step()
    torch.manual_seed(5)
    again = step()
    for one, due in zip(again, first):
        assert torch.equal(one, due)
    assert not torch.equal(first[0], second[0])


def test_masks_of_dynamic_shapes_are_drawn_again():
    called = compiled(lambda x: F.dropout(x * 1, 0.5), dynamic=True)
    kiln.counters.clear()
    for rows in (5, 64, 33):
        x = torch.ones(rows, 40, requires_grad=True)
        y, saved = run(called, x)
        assert bytes_beside(saved, x) <= 8
        torch.testing.assert_close(gradient(y, x)[0], y.detach())
    assert kiln.counters["compiles"] == 2


RANDOM = {
    "rand": lambda x: x * torch.rand(x.shape),
    "randn": lambda x: x * torch.randn(*x.shape),
    "rand_like": lambda x: x * torch.rand_like(x, dtype=torch.float64),
    "randn_like": lambda x: x * torch.randn_like(x),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full(x.shape, 0.25)),
    "bernoulli_of_p": lambda x: x * torch.empty_like(x).bernoulli_(0.25),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_factors_are_drawn_again_and_not_saved(name):
    x = torch.ones(100, 200, requires_grad=True)
    with recording() as graphs:
        y, saved = run(compiled(RANDOM[name]), x)
    assert bytes_beside(saved, x) <= 8
    (found,) = gradient(y, x)
    torch.testing.assert_close(found, y.detach().to(found.dtype))
    assert not any(graph.hosts for graph in graphs)
    mean, deviation = {"rand": (0.5, 12**-0.5), "randn": (0, 1)}.get(
        name.removesuffix("_like"), (0.25, 0.1875**0.5)
    )
    y = y.detach().double()
    assert abs(y.mean() - mean) < 0.03
    assert abs(y.std() - deviation) < 0.03


def test_dropout_of_attention_is_drawn_again():
    def attend(q):
        return F.scaled_dot_product_attention(q, q, torch.ones_like(q), dropout_p=0.5)

    q = torch.randn(2, 4, 32, 16, requires_grad=True)
    y, saved = run(compiled(attend), q)
    assert not any(tensor.dtype == torch.bool for tensor in saved)
    # Rows of weights that are no longer a sum of one, since some were dropped.
    assert y.std() > 0.05
    y.sum().backward()
    assert q.grad.isfinite().all() and q.grad.abs().max() > 0


def test_a_random_number_that_only_the_forward_reads_saves_no_seed():
    x = torch.randn(50, requires_grad=True)
    y, saved = run(compiled(lambda x: x.sin() + torch.rand(50)), x)
    assert bytes_beside(saved, x) == 0
    torch.testing.assert_close(gradient(y, x)[0], x.cos())


def test_with_fallback_random_masks_are_eager_modes_own():
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.3), nn.Linear(64, 4))
    twin, x = copy.deepcopy(model), torch.randn(8, 16)
    with kiln.config.patch(fallback_random=True):
        called = compiled(model)
        torch.manual_seed(3)
        called(x).square().sum().backward()
    torch.manual_seed(3)
    twin(x).square().sum().backward()
    for mine, due in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(mine.grad, due.grad)


def test_a_checkpointed_dropout_needs_no_host_kernel():
    layer = nn.Linear(32, 32)

    def fn(x):
        for _ in range(2):
            x = torch.utils.checkpoint.checkpoint(
                lambda a: F.dropout(torch.sin(layer(a)), 0.5), x, use_reentrant=False
            )
        return x

    x = torch.randn(8, 32, requires_grad=True)
    with recording() as graphs:
        y, saved = run(torch.compile(fn, backend="kiln"), x)
        y.sum().backward()
    assert len(graphs) == 2 and not any(graph.hosts for graph in graphs)
    assert not any(tensor.dtype == torch.bool for tensor in saved)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_around_a_compiled_call_draws_its_mask_again(reentrant):
    called = compiled(lambda a: F.dropout(a.sin().exp(), 0.5))
    x = torch.ones(100, 100, requires_grad=True)
    for _ in range(2):
        y = torch.utils.checkpoint.checkpoint(called, x, use_reentrant=reentrant)
        torch.testing.assert_close(gradient_of_sum(y, x), y.detach() * torch.cos(x))


def test_a_checkpoint_reads_random_numbers_of_outside_without_saving_them():
    def fn(x):
        factors = torch.rand_like(x)
        return torch.utils.checkpoint.checkpoint(
            lambda a: torch.sin(a) * factors, x, use_reentrant=False
        )

    x = torch.ones(100, 200, requires_grad=True)
    y, saved = run(compiled(fn), x)
    assert bytes_beside(saved, x) <= 8
    torch.testing.assert_close(gradient(y, x)[0], y.detach() / torch.sin(x) * torch.cos(x))


def test_equal_dropouts_are_one_kernel_with_masks_of_their_own():
    weight = torch.randn(64, 64)

    def fn(x):
        first = F.dropout(x, 0.5)
        return first, F.dropout(first @ weight, 0.5)

    called, x = compiled(fn), torch.ones(64, 64)
    kiln.metrics.reset()
    with torch.no_grad():
        first, second = called(x)
    # The seed's and the dropouts'.
    assert kiln.metrics.generated_kernel_count == 2
    assert kiln.metrics.launch_count == 3
    masks = first != 0, second != 0
    assert all(0.4 < mask.double().mean() < 0.6 for mask in masks)
    assert 0.4 < (masks[0] != masks[1]).double().mean() < 0.6


def test_a_dropout_costs_the_forward_no_kernel_but_that_of_the_seed():
    def fn(x):
        return F.dropout(F.dropout(x, 0.1).sin(), 0.2).cos()

    x = torch.randn(64, 64, requires_grad=True)
    kiln.metrics.reset()
    compiled(fn)(x).sum().backward()
    # The seed and the forward; the backward.
    assert kiln.metrics.launch_count <= 3


def test_random_numbers_of_two_devices_have_a_seed_each():
    def fn(x, y):
        return x * torch.rand_like(x), y * torch.rand_like(y)

    module = make_fx(fn, tracing_mode="fake")(torch.ones(8), torch.ones(8, device="meta"))
    draw_from_seeds(module)
    names = [node.name for node in module.graph.nodes]
    assert [node.name for node in reversed(module.graph.nodes)] == names[::-1]
    module.graph.lint()
    seeds = module.graph.find_nodes(
        op="call_function", target=torch.ops.prims.inductor_seed.default
    )
    assert [str(seed.args[0]) for seed in seeds] == ["meta", "cpu"]
