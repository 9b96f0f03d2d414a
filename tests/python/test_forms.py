"""The forms that a program takes around torch.compile: function transforms, inference mode, steps
of training, sizes that are fixed, marked or found in data, floats that change."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import kiln
from kiln import program
from kiln.compiled_graph import recording


def compiled(fn, **options):
    return torch.compile(fn, backend="kiln", fullgraph=True, **options)


def assert_same(got, due):
    torch.testing.assert_close(got, due, rtol=1e-5, atol=1e-5)


def tanh_layer(w, x):
    return torch.tanh(w @ x)


def loss_of_layer(w, x, y):
    return (tanh_layer(w, x) - y).square().mean()


# {name: (what is compiled, the operators that may be left to PyTorch)}
_TANGENTS = {"_new_zeros_with_same_feature_meta"}
TRANSFORMS = {
    "vmap": (torch.func.vmap(tanh_layer, in_dims=(None, 0)), set()),
    "grad": (lambda w, x: torch.func.grad(loss_of_layer)(w, x[0], x[1]), set()),
    "jacrev": (lambda w, x: torch.func.jacrev(tanh_layer, argnums=1)(w, x[0]), set()),
    "jacfwd": (lambda w, x: torch.func.jacfwd(tanh_layer, argnums=1)(w, x[0]), _TANGENTS),
    "hessian": (lambda w, x: torch.func.hessian(loss_of_layer, 1)(w, x[0], x[1]), _TANGENTS),
}


@pytest.mark.parametrize("transformed, left", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_function_transform_inside_is_one_graph(transformed, left):
    w, x = torch.randn(6, 6), torch.randn(6, 6)
    with recording() as graphs:
        assert_same(compiled(transformed)(w, x), transformed(w, x))
    (graph,) = graphs
    assert graph.segments > 0 and graph.hosts.keys() <= left


def test_the_gradient_of_a_function_transform_is_eager_modes():
    def penalty(w, x):
        slopes = torch.func.vmap(torch.func.grad(lambda a: tanh_layer(w, a).sum()))(x)
        return slopes.square().sum()

    w, x = torch.randn(6, 6, requires_grad=True), torch.randn(3, 6)
    (due,) = torch.autograd.grad(penalty(w, x), w)
    with recording() as graphs:
        (got,) = torch.autograd.grad(compiled(penalty)(w, x), w)
    assert_same(got, due)
    assert [graph.hosts for graph in graphs] == [{}, {}]  # forward, backward


def test_inference_mode_compiles_one_graph_and_gives_inference_tensors():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16))
    called, x = compiled(model), torch.randn(4, 8)
    with recording() as graphs, torch.inference_mode():
        got = called(x)
        assert_same(got, model(x))
    assert got.is_inference() and not got.requires_grad
    (graph,) = graphs
    assert graph.name.startswith("inference") and graph.hosts == {}


def small_models():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))
    return model, copy.deepcopy(model), compiled(model)


def assert_same_parameters(model, twin):
    mine, due = list(model.parameters()), list(twin.parameters())
    assert_same(mine, due)
    assert_same([each.grad for each in mine], [each.grad for each in due])


def test_gradients_accumulate_over_steps_and_one_compile_serves_all():
    model, twin, called = small_models()
    kiln.counters.clear()
    for _ in range(2):
        for _ in range(4):
            x = torch.randn(5, 8)
            for run in (called, twin):
                (run(x).square().mean() / 4).backward()
        assert_same_parameters(model, twin)
        for each in (model, twin):
            torch.optim.SGD(each.parameters(), lr=0.1).step()
            each.zero_grad(set_to_none=False)
    assert_same_parameters(model, twin)
    assert kiln.counters["compiles"] + kiln.counters["cache_hit"] == 2
    assert kiln.counters["recompiles"] == 0


@pytest.mark.parametrize("foreach", [False, True], ids=["one_by_one", "foreach"])
@pytest.mark.parametrize("clip_is_compiled", [False, True], ids=["eager", "compiled"])
def test_gradients_are_clipped_between_backward_and_step(clip_is_compiled, foreach):
    def clip(parameters):
        return nn.utils.clip_grad_norm_(parameters, 0.05, foreach=foreach)

    model, twin, called = small_models()
    mine = torch.compile(clip, backend="kiln") if clip_is_compiled else clip
    with recording() as graphs:
        for _ in range(3):
            x, norms = torch.randn(5, 8), []
            for run, its, clipped in ((called, model, mine), (twin, twin, clip)):
                optimizer = torch.optim.SGD(its.parameters(), lr=0.5)
                optimizer.zero_grad()
                run(x).square().mean().backward()
                norms.append(clipped(list(its.parameters())))
                optimizer.step()
            assert norms[1] > 0.05
            assert_same(norms[0], norms[1])
            assert_same_parameters(model, twin)
    assert len(graphs) == (3 if clip_is_compiled else 2)
    assert not any(graph.hosts for graph in graphs)


def assert_serves(called, fn, sizes, make=lambda n: torch.randn(n, 3)):
    """Eager mode's values at each size; what Dynamo and the service were asked for meanwhile."""
    kiln.counters.clear()
    with recording() as graphs:
        for n in sizes:
            x = make(n)
            assert_same(called(x), fn(x))
    assert not any(graph.hosts for graph in graphs)
    assert kiln.counters["compiles"] == len(graphs)
    return len(graphs), kiln.counters["recompiles"]


def test_without_dynamic_shapes_each_size_is_a_recompile():
    def fn(x):
        return F.silu(x) * x.shape[0] + 0.125

    called = compiled(fn, dynamic=False)
    assert assert_serves(called, fn, (4, 7, 12, 7, 4)) == (3, 2)
    assert assert_serves(called, fn, (12, 4, 7)) == (0, 0)


def test_with_dynamic_shapes_one_artifact_serves_all_sizes_of_all_dimensions():
    def fn(x):
        return torch.softmax(x * 0.375, -1).sum(0) + x.shape[1]

    called = compiled(fn, dynamic=True)
    assert assert_serves(called, fn, ((4, 6), (9, 31), (128, 2)), torch.randn) == (1, 0)


def test_a_marked_dimension_is_dynamic_from_the_first_size_on():
    def fn(x):
        return F.softplus(x).mean(0) + 0.625

    def marked(n):
        x = torch.randn(n, 3)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
        return x

    assert assert_serves(compiled(fn), fn, (5, 9, 33, 64), marked) == (1, 0)


def enlarged(mode, **others):
    return lambda x: F.interpolate(x * 2, scale_factor=2.5, mode=mode, **others) + 1


# {name: (what is compiled, why an operator is left to PyTorch)}
FRACTIONS = {
    "nearest": (enlarged("nearest"), None),
    "bilinear": (enlarged("bilinear"), None),
    "twice": (lambda x: F.interpolate(enlarged("nearest")(x), scale_factor=0.7) * 3, None),
    "ceil": (lambda x: (x * 2)[..., : math.ceil(x.shape[-1] / 3)] + 1, None),
    "sqrt": (lambda x: (x * 2)[..., : int(math.sqrt(x.shape[-1]))] + 1, None),
    "number": (lambda x: x.relu() * int(x.shape[-1] * 0.3) + int(x.shape[-2] * 0.3), None),
    "host": (enlarged("bilinear", antialias=True), "_upsample_bilinear2d_aa"),
    "negative": (lambda x: x.relu() * int(3 - x.shape[-1] * 0.5) + 1, "may be negative"),
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_sizes_that_are_fractions_of_sizes_are_one_compile_for_all(name):
    fn, why = FRACTIONS[name]
    called = compiled(fn, dynamic=True)
    with recording() as graphs:
        for height, width in ((6, 7), (9, 13), (8, 20)):
            x = torch.randn(2, 3, height, width, dtype=torch.float64, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            got, due = called(x), fn(y)
            assert_same(got, due)
            got.square().sum().backward()
            due.square().sum().backward()
            assert_same(x.grad, y.grad)
    assert len(graphs) == 2
    assert all(graph.segments >= 1 for graph in graphs)
    told = list(graphs[0].hosts.values())
    assert [why in words for words in told] == [True] * (why is not None)


def test_a_size_that_is_a_fraction_of_a_size_is_there_where_pytorch_takes_over(monkeypatch):
    def fn(x):
        return torch.arange(int(x.shape[0] * 0.7)) * 2 + x.sum()

    def segment(callable_, unserved, instead, rescue, draw):
        lost = kiln.KilnError(14, "", "no worker")
        return lambda inputs: (instead(inputs) if unserved else None) or rescue(lost, inputs)

    monkeypatch.setenv("KILN_STRICT", "0")
    monkeypatch.setattr(program._native, "segment", segment)
    called = compiled(fn, dynamic=True)
    with pytest.warns(UserWarning, match="runs in eager mode for some inputs: no worker"):
        assert_same(called(torch.ones(10)), fn(torch.ones(10)))
    assert_same(called(torch.ones(13)), fn(torch.ones(13)))


def head(x, n):
    size = n.item()
    torch._check(size >= 0)
    torch._check(size <= x.shape[0])
    return (x * 2)[:size] + 1


def test_a_slice_of_a_size_found_in_data_is_one_compile():
    x, called = torch.randn(20, 3), compiled(head)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        with recording() as graphs:
            for n in map(torch.tensor, (7, 3, 20)):
                assert_same(called(x, n), head(x, n))
        (graph,) = graphs
        assert graph.segments == 2 and list(graph.hosts) == ["_local_scalar_dense"]
        # Dynamo has guards of its own on these.
        for n in map(torch.tensor, (1, 0)):
            assert_same(called(x, n), head(x, n))


def test_nonzero_is_a_host_kernel_between_two_segments():
    def fn(x):
        return (x * 2 > 0.5).nonzero() * 3 + 1

    called = compiled(fn)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        with recording() as graphs:
            for x in (torch.randn(4, 5), torch.randn(4, 5), torch.zeros(4, 5), torch.ones(4, 5)):
                assert_same(called(x), fn(x))
    (graph,) = graphs
    assert graph.segments == 2
    assert any("aten.nonzero.default" in why for why in graph.hosts.values())


def test_gradients_of_elements_that_a_mask_chose():
    def fn(x, w):
        chosen = x[x > 1]
        columns = chosen.unsqueeze(1) * w.expand(chosen.shape[0], 1)
        return (chosen * w).sum() * chosen.shape[0], columns.exp()

    def gradients(run, values):
        leaves = torch.tensor(values, requires_grad=True), torch.tensor(3.0, requires_grad=True)
        total, columns = run(*leaves)
        return total, columns, *torch.autograd.grad(total + columns.sum(), leaves)

    called = compiled(fn)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for values in ([1.0, 2.0, 3.0], [0.0, 2.0, 1.0], [0.0, 1.0, 1.0], [2.0, 3.0, 4.0]):
            assert_same(gradients(called, values), gradients(fn, values))


FLOATS = {
    "arithmetic": lambda x, d: x * d + x / d,
    "lerp": lambda x, d: (torch.lerp(x, x * 2, d), x / d),
    "full": lambda x, d: torch.full((3,), d) + x[0] * d,
    "clamp": lambda x, d: x.clamp(max=d) * (d // 2),
}


@pytest.mark.parametrize("fn", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_a_float_argument_counts_in_each_call(fn, trains):
    x = torch.rand(3, requires_grad=trains)
    called = compiled(fn)
    for d in (2.0, 3.5, -4.0, 7.25, 3.5, 0.125):
        got, due = called(x, d), fn(x, d)
        assert_same(got, due)
        if trains:
            results = ([got], [due]) if torch.is_tensor(got) else (got, due)
            assert_same(*(torch.autograd.grad([r.sum() for r in rs], x) for rs in results))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_autograd_compiles_a_backward_whose_inputs_are_a_list(dynamic):
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    kiln.counters.clear()
    with torch._dynamo.config.patch(compiled_autograd=True):
        backward = torch.compile(lambda loss: loss.backward(), backend="kiln", dynamic=dynamic)
        for rows in (4, 4, 5):
            x = torch.rand(rows, 6)
            due = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
            backward(model(x).square().sum())
            for parameter, gradient in zip(model.parameters(), due, strict=True):
                torch.testing.assert_close(parameter.grad, gradient)
                parameter.grad = None
    assert kiln.counters["compiles"] + kiln.counters["cache_hit"] > 0
    assert kiln.counters["eager_graphs"] == 0
