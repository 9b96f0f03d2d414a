"""The same on a GPU: models in float32 and bfloat16, streams, memory, random numbers."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.utils._pytree import tree_map

import kiln
from model_zoo import Case, zoo
from optimizers import STEPS, SHAPES, assert_a_step_is_few_launches
from training import assert_infers_alike, assert_trains_alike, outcome

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
    pytest.mark.usefixtures("full_precision"),
]

ZOO = zoo()


def placed(case, dtype=torch.float32, device="cuda"):
    """A case on the GPU, its floating numbers as `dtype`."""

    def place(value):
        if not isinstance(value, torch.Tensor):
            return value
        moved = value.detach().to(device, dtype if value.is_floating_point() else None)
        return moved.requires_grad_(value.requires_grad)

    model = case.model.to(device, dtype)
    return case._replace(model=model, batch=tree_map(place, case.batch))


def results(case, backend):
    """All that three steps of SGD, or a call, give, as one vector in float64."""
    model = copy.deepcopy(case.model)
    called = model if backend is None else torch.compile(model, backend=backend)
    if case.loss is None:
        seen = outcome(called, case.batch).values()
        return torch.cat([v.double().flatten() for v in seen if v.is_floating_point()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = case.loss(called, case.batch)
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
    return torch.cat([value.double().flatten() for value in (*seen, *model.state_dict().values())])


@pytest.mark.parametrize("name", sorted(ZOO))
def test_a_model_gives_what_eager_mode_gives(name):
    case = placed(ZOO[name]())
    if case.loss is not None:
        assert_trains_alike(case.model, [case.batch], case.loss, ties=case.ties)
    else:
        assert_infers_alike(case.model, [case.batch])


@pytest.mark.parametrize("name", sorted(ZOO))
def test_a_bf16_model_is_no_worse_than_twice_inductors_error(name):
    made = ZOO[name]()
    if made.loss is None:  # its inputs are among what is compared, so they start without an error
        made = placed(made, torch.bfloat16)
    due = results(placed(copy.deepcopy(made), torch.float64), None)
    case = placed(made, torch.bfloat16)
    error = {}
    for backend in ("kiln", "inductor"):
        torch._dynamo.reset()
        error[backend] = (results(case, backend) - due).norm() / due.norm()
    assert error["kiln"] <= 2 * error["inductor"] + 1e-6, error


def test_the_work_is_put_on_the_current_stream():
    called = torch.compile(lambda x: (x * 2).sum(0) + 1, backend="kiln")
    x = torch.ones(4096, 4096, device="cuda")
    called(x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2_000_000_000)
        x.fill_(3)
        got = called(x)
        done = stream.record_event()
    assert not done.query()  # all of it stands behind the sleep
    stream.synchronize()
    assert bool((got == 4096 * 6 + 1).all())


def means_and_rest(x):
    """Three kernels at least, each reads what the one before it wrote."""
    scaled = (x @ x).mul(0.5).relu()
    return scaled.sum(0) + scaled.mean(1), scaled.T.contiguous()


def test_kernels_that_are_launched_early_see_what_is_written_before_them():
    called = torch.compile(means_and_rest, backend="kiln")
    x = torch.zeros(512, 512, device="cuda")
    seen = []
    for number in range(100):  # nothing waits for the device in between
        x.fill_(number)
        seen.append(called(x))
        x.neg_()
    for number, (sums, rest) in enumerate(seen):
        product = 512.0 * number * number / 2
        assert bool((sums == 513 * product).all()), number
        assert bool((rest == product).all()), number


def test_a_call_in_a_cuda_graph_is_repeated_with_it():
    called = torch.compile(means_and_rest, backend="kiln")
    x = torch.ones(512, 512, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        called(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
        sums, rest = called(x)
    for number in range(2, 6):
        graph.replay()
        product = 512.0 * number * number / 2
        assert bool((sums == 513 * product).all() & (rest == product).all())


def test_results_live_in_memory_of_pytorchs_allocator():
    called = torch.compile(lambda x: torch.softmax(x @ x, -1).exp(), backend="kiln")
    x = torch.randn(1024, 1024, device="cuda")
    called(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    got = called(x)
    assert torch.cuda.memory_allocated() - before == got.numel() * got.element_size()
    del got
    assert torch.cuda.memory_allocated() == before


def test_results_that_memory_cannot_hold_are_an_error_of_one_call():
    called = torch.compile(lambda x: x.exp() + 1, backend="kiln", dynamic=True)
    for _ in range(2):  # PyTorch has a dispatch mode around a graph's first call
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 4096.00 GiB"):
            called(torch.zeros(1, device="cuda", dtype=torch.float64).expand(1 << 39))
    assert (called(torch.zeros(8, device="cuda")) == 2).all()


def test_a_results_memory_waits_for_the_streams_that_are_recorded():
    called = torch.compile(lambda x: torch.relu(x) + 1, backend="kiln")
    x = torch.ones(1 << 20, device="cuda")
    side = torch.cuda.Stream()
    # CUDA loads a kernel at its first use, and may wait for all streams.
    torch.zeros_like(x).add_(called(x) + 1)
    torch.cuda.synchronize()
    got = called(x)
    address = got.data_ptr()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(2_000_000_000)
        kept = got + 1
        done = side.record_event()
    got.record_stream(side)
    del got
    others = [torch.zeros_like(x) for _ in range(4)]
    assert not done.query()
    assert address not in [other.data_ptr() for other in others]
    side.synchronize()
    assert bool((kept == 3).all())


def test_a_results_storage_can_be_freed_and_filled_again():
    called = torch.compile(lambda x: torch.relu(x) + 1, backend="kiln")
    got = called(torch.ones(1000, device="cuda"))
    assert got.untyped_storage().nbytes() == 4000
    got.untyped_storage().resize_(0)
    got.untyped_storage().resize_(4000)
    assert bool((got.fill_(2) == 2).all())


def test_a_seed_repeats_a_run_and_the_backward_has_the_forwards_mask():
    called = torch.compile(lambda x: F.dropout(x, 0.5, training=True), backend="kiln")
    x = torch.ones(1000, device="cuda", requires_grad=True)
    torch.manual_seed(7)
    first = called(x)
    first.sum().backward()
    assert torch.equal(x.grad, first.detach())
    assert 300 < int((first == 0).sum()) < 700
    torch.manual_seed(7)
    assert torch.equal(called(x), first)
    assert not torch.equal(called(x), first)


def dropped(x):
    return F.dropout(x, 0.5, training=True)


@pytest.mark.parametrize("seeded", [torch.manual_seed, torch.cuda.manual_seed])
def test_a_seed_of_the_gpus_generator_repeats_a_run_and_the_cpus_does_not_change_it(seeded):
    called = torch.compile(dropped, backend="kiln")
    x = torch.ones(1000, device="cuda")
    seeded(7)
    first, second = called(x), called(x)
    assert not torch.equal(first, second)
    seeded(7)
    torch.rand(3)
    assert torch.equal(called(x), first)
    assert torch.equal(called(x), second)
    seeded(8)
    assert not torch.equal(called(x), first)


def test_a_state_of_the_gpus_generator_that_is_put_back_repeats_a_run():
    called = torch.compile(dropped, backend="kiln")
    x = torch.ones(1000, device="cuda")
    called(x)
    state = torch.cuda.get_rng_state()
    due = called(x), torch.rand(3, device="cuda"), called(x)
    torch.cuda.set_rng_state(state)
    torch.testing.assert_close((called(x), torch.rand(3, device="cuda"), called(x)), due)


def test_a_checkpoint_around_a_compiled_call_draws_its_mask_again():
    called = torch.compile(dropped, backend="kiln")
    x = torch.ones(1000, device="cuda", requires_grad=True)
    called(x)
    got = torch.utils.checkpoint.checkpoint(called, x * 1, use_reentrant=False)
    got.sum().backward()
    assert torch.equal(x.grad, got.detach())


def test_drawing_a_seed_does_not_wait_for_the_gpu():
    called = torch.compile(dropped, backend="kiln")
    x = torch.ones(1000, device="cuda")
    called(x)
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    called(x)
    assert not torch.cuda.current_stream().query()  # it stands behind the sleep


def test_training_under_autocast_is_no_worse_than_twice_inductors_error():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(16 * 14 * 14, 10),
    ).cuda()  # fmt: skip
    pictures = torch.randn(8, 3, 16, 16, device="cuda")
    labels = torch.randint(0, 10, (8,), device="cuda")

    def loss(called, batch):
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(called(batch.to(next(model.parameters()).dtype)), labels)

    def exact(called, batch):
        return F.cross_entropy(called(batch.double()), labels)

    due = results(Case(copy.deepcopy(model).double(), pictures, exact), None)
    error = {}
    for backend in ("kiln", "inductor"):
        torch._dynamo.reset()
        error[backend] = (results(Case(model, pictures, loss), backend) - due).norm()
    assert error["kiln"] <= 2 * error["inductor"], error


class Residual(torch.nn.Module):
    """Two convolutions with batch norms, what the first gives added, and a convolution behind it."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = (
            torch.nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in range(3)
        )
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(64) for _ in range(2))
        for norm in self.norms:
            torch.nn.init.normal_(norm.running_mean)
            torch.nn.init.uniform_(norm.running_var, 0.5, 2)
            torch.nn.init.normal_(norm.weight)

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return self.last(F.relu(self.norms[1](self.second(y)) + y))


@pytest.mark.parametrize("autocast", [True, False])
def test_cudnn_computes_what_stands_behind_a_convolution_while_it_writes(autocast):
    exact = Residual().cuda().eval()
    x = torch.randn(8, 64, 28, 28, device="cuda")
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        model = exact if autocast else copy.deepcopy(exact).bfloat16()
        x = x if autocast else x.bfloat16()
        (graph,) = kiln.explain(model, x).graphs
        whole = [call for call in graph.library_calls if call.endswith(" with its epilogue")]
        assert [call.split(":")[0] for call in whole] == [
            "convolution, bias, relu",
            "convolution, bias, added, relu",
        ]
        found, eager = torch.compile(model, backend="kiln")(x), model(x)
    with torch.no_grad():
        due = copy.deepcopy(exact).double()(x.double())
    assert (found - due).norm() <= 1.2 * (eager - due).norm()


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_an_optimizers_step_is_few_launches_however_many_parameters_it_has(make):
    assert_a_step_is_few_launches(make, [*SHAPES, (1024, 1025)], "cuda")


def test_work_on_two_devices_in_one_graph_is_done_on_each():
    # A number on the CPU may meet a tensor on a GPU, and tensors may move between the two.
    def fn(x, g, scale):
        here = x.cos() * 2 + 1
        there = torch.softmax(g * scale, -1) + here.cuda()
        return here, there, there.cpu() * x

    x, g = torch.randn(8, 16), torch.randn(8, 16, device="cuda")
    scale = torch.tensor(1.5)
    inputs = [x.requires_grad_(), g.requires_grad_(), scale.requires_grad_()]
    twins = [t.detach().clone().requires_grad_() for t in inputs]
    got, due = torch.compile(fn, backend="kiln", fullgraph=True)(*inputs), fn(*twins)
    torch.testing.assert_close(got, due)
    for results in (got, due):
        sum(result.square().sum().cpu() for result in results).backward()
    for mine, theirs in zip(inputs, twins):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    whys = kiln.explain(fn, *inputs).host_kernels.values()
    assert any("a tensor on cpu, in a graph on cuda:0" in why for why in whys), whys
    assert not any("softmax" in why for why in whys), whys


def test_one_operator_on_two_devices_is_pytorchs_error():
    with pytest.raises(Exception, match="cuda"):
        torch.compile(lambda x, y: x + y, backend="kiln")(
            torch.ones(3), torch.ones(3, device="cuda")
        )


def test_threads_on_streams_of_their_own_get_their_own_results():
    def fn(x):
        return torch.softmax(x @ x, -1).sum(0)

    inputs = [torch.randn(256, 256, device="cuda") for _ in range(8)]
    called = torch.compile(fn, backend="kiln")
    due = [fn(x) for x in inputs]
    called(inputs[0])
    torch.cuda.synchronize()

    def work(x):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            results = [called(x) for _ in range(20)]
        stream.synchronize()
        return results

    with ThreadPoolExecutor(8) as pool:
        for results, one in zip(pool.map(work, inputs), due):
            torch.testing.assert_close(results, [one] * 20)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU here")
def test_a_model_runs_on_the_device_it_is_on():
    called = torch.compile(lambda x: torch.softmax(x, -1), backend="kiln")
    for ordinal in (1, 0):
        x = torch.randn(8, 64, device=f"cuda:{ordinal}")
        got = called(x)
        assert got.device == x.device
        torch.testing.assert_close(got, torch.softmax(x, -1))
