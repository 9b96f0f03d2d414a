"""Warm-up, recording, replay: section 14.1 of the fact sheet."""

import pytest
import torch

from trees import (
    assert_thrice,
    checkpoints,
    descendants,
    graphs,
    live_blocks,
    private_segments,
    recordings,
    skips,
    state,
    thrice,
)


def cube(x):
    return x * x * x


def test_a_function_is_warmed_up_recorded_and_replayed():
    called = graphs(cube)
    seen = []
    for number in range(4):
        x = torch.full((4, 4), float(number), device="cuda")
        assert torch.equal(called(x), cube(x))
        seen.append(state()["state"])
    assert seen == ["warm-up", "recording", "execution", "execution"]
    assert recordings() == 1
    assert state()["replays"] == 2


def test_mode_reduce_overhead():
    called = torch.compile(cube, backend="kiln", mode="reduce-overhead")
    for number in range(4):
        x = torch.full((64, 64), float(number), device="cuda")
        assert torch.equal(called(x), cube(x))
    assert recordings() == 1


def test_run_simple():
    called = torch.compile(
        cube, backend="kiln", dynamic=False, options={"cudagraphs": True}
    )
    for shape in ((4, 4), (5, 5)):
        x = torch.ones(shape, device="cuda")
        for result in thrice(called, x):
            assert torch.equal(result, cube(x))
    assert descendants() == [0, 0]


def test_function_compiled_multiple_times():
    def inner(x):
        torch._dynamo.graph_break()
        return x * x * x

    def function(x):
        y = inner(x)
        return y + inner(y)

    called = graphs(function)
    x = torch.ones(4, 4, device="cuda")
    for _ in range(4):
        assert torch.equal(called(x), function(x))
    assert descendants() == [2]


def test_execution_into_recording():
    def function(x):
        y = x + x
        return y + 10 if y.sum() > 0 else y - 10

    called = graphs(function)
    x = torch.zeros(4, 4, device="cuda")
    for _ in range(3):
        assert torch.equal(called(x), function(x))
    x.add_(1)
    warm = called(x)
    assert torch.equal(warm, function(x))
    assert live_blocks() == 1
    live = called(x)
    assert torch.equal(live, function(x))
    assert live_blocks() == 1
    del warm
    assert live_blocks() == 1
    del live
    assert live_blocks() == 0
    assert torch.equal(called(x), function(x))
    assert live_blocks() == 0


def test_end_recording_early():
    def broken(x):
        y = x * x * x
        torch._dynamo.graph_break()
        return x + y

    first, second = graphs(broken), graphs(lambda x: x + 4)
    x = torch.ones(4, 4, device="cuda")
    for _ in range(4):
        assert torch.equal(first(x), broken(x))
        assert torch.equal(second(x), x + 4)
    assert descendants() == [1, 0]


def test_accumulate_multiple_recordings():
    def function(x):
        y = x + x + x
        torch._dynamo.graph_break()
        return y if y.sum() <= 0 else y * y

    called = torch.compile(
        function,
        backend="kiln",
        dynamic=False,
        options={"cudagraphs": True, "slow_path_cudagraph_asserts": True},
    )

    def second_run(x):
        called(x)
        return called(x)

    first = second_run(torch.zeros(5, device="cuda"))
    second = second_run(torch.zeros(6, device="cuda"))
    assert live_blocks() == 1
    third = second_run(torch.ones(5, device="cuda"))
    assert torch.equal(third, torch.full((5,), 9.0, device="cuda"))
    assert live_blocks() == 1
    del first, second
    assert live_blocks() == 1
    del third
    assert live_blocks() == 0


def test_sparsity():
    def function(indices, values):
        return torch.sparse_coo_tensor(indices, values * 2, (4, 4)).to_dense()

    called = graphs(function)
    indices = torch.tensor([[0, 1, 3], [2, 0, 3]], device="cuda")
    values = torch.rand(3, device="cuda")
    for _ in range(3):
        assert torch.equal(called(indices, values), function(indices, values))
    assert recordings() >= 1


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate):
    def function(x, mask, values):
        return x.index_put((mask,), values, accumulate=accumulate) + 1

    called = graphs(function)
    x = torch.zeros(8, device="cuda")
    mask = torch.arange(8, device="cuda") % 2 == 0
    values = torch.rand(4, device="cuda")
    for _ in range(3):
        torch.testing.assert_close(called(x, mask, values), function(x, mask, values))
    assert recordings() >= 1


def test_meta_tensor():
    called = graphs(lambda x, y: x + y.shape[0])
    x, y = torch.rand(4, device="cuda"), torch.empty(3, device="meta")
    for _ in range(3):
        assert torch.equal(called(x, y), x + 3)
    assert recordings() == 1
    assert skips() == 0


def test_side_stream_memory_allocation():
    side = torch.cuda.Stream()

    @torch.library.custom_op("graph_trees::on_a_side_stream", mutates_args=())
    def on_a_side_stream(x: torch.Tensor) -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            doubled = x * 2
            result = doubled + 1
        torch.cuda.current_stream().wait_stream(side)
        return result

    on_a_side_stream.register_fake(torch.empty_like)
    called = graphs(lambda x: on_a_side_stream(x + 1) * 3, slow_path_cudagraph_asserts=False)
    x = torch.rand(64, 64, device="cuda")
    for _ in range(4):
        torch.testing.assert_close(called(x), ((x + 1) * 2 + 1) * 3)
    assert recordings() == 1


def test_constant_output():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(4, device="cuda"))

        def forward(self, x):
            return self.weight, self.weight.view(2, 2), x + 1

    module = Module()
    called = graphs(module)
    x = torch.rand(4, device="cuda")
    with torch.no_grad():
        assert_thrice(called, module, x, rtol=0, atol=0)
    assert recordings() >= 1


def test_live_outputs_multiple_graphs():
    def function(x):
        tripled = x + x + x
        y = tripled + 1
        return y + 1 if (tripled * tripled).sum() > 0 else y

    called = graphs(function)
    for _ in range(2):
        called(torch.zeros(5, device="cuda"))
    assert checkpoints() == 0
    for _ in range(2):
        out = called(torch.ones(5, device="cuda"))
    assert torch.equal(out, torch.full((5,), 5.0, device="cuda"))
    assert checkpoints() == 2
    assert live_blocks() == 1
    del out
    assert live_blocks() == 0


def test_expanded_inputs():
    called = graphs(lambda x: x + 5)
    x = torch.rand(1, 8, device="cuda").expand(4, 8)
    for _ in range(4):
        assert torch.equal(called(x), x + 5)
    assert recordings() == 1


def test_non_static_inputs_are_copied_where_they_are_read():
    called = graphs(lambda x, y: x * 2 + y)
    for number in range(4):
        x = torch.full((16,), float(number), device="cuda")
        y = torch.arange(16.0, device="cuda")
        assert torch.equal(called(x, y), x * 2 + y)
    assert state()["recorded_copied_inputs"] == 2


def test_empty_cpu_tensor():
    def function(x):
        return x + 1, torch.tensor([])

    called = graphs(function)
    x = torch.rand(5, device="cuda")
    for _ in range(3):
        result, empty = called(x)
        assert torch.equal(result, x + 1)
        assert (empty.device.type, empty.numel()) == ("cpu", 0)
    assert recordings() == 1
    assert skips() == 0


def test_single_stream_use():
    called = graphs(cube)
    x = torch.ones(4, 4, device="cuda")
    for _ in range(3):
        called(x)
    assert len({segment["stream"] for segment in private_segments()}) == 1


def test_warmup_stream_sync():
    side = torch.cuda.Stream()
    called = graphs(lambda x: x @ x)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x = torch.rand(256, 256, device="cuda")
        expected = x @ x
        results = [called(x).clone() for _ in range(4)]
    torch.cuda.current_stream().wait_stream(side)
    for result in results:
        torch.testing.assert_close(result, expected)
    assert recordings() == 1


@pytest.mark.parametrize("kind", ["kilns", "pytorchs"])  # the library's caller
def test_conv_benchmark(kind):
    @torch.library.custom_op("graph_trees::convolves", mutates_args=())
    def convolves(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.conv2d(x, weight)

    convolves.register_fake(lambda x, weight: torch.conv2d(x, weight))

    class Module(torch.nn.Conv2d):
        def forward(self, x):
            return convolves(x * 2, self.weight) + 1

    made = torch.nn.Conv2d if kind == "kilns" else Module
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=False):
        model = made(5, 6, [3, 3]).cuda().eval()
        called = graphs(model)
        x = torch.randn(2, 5, 16, 16, device="cuda")
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(called(x), model(x), rtol=1e-4, atol=1e-4)
    assert recordings() == 1
    assert skips() == 0


def test_multinomial():
    def sample(weights, count):
        return torch.multinomial(weights, count, replacement=True)

    called = graphs(sample, fallback_random=True)
    weights = torch.tensor([0.0, 10.0, 3.0, 0.0], device="cuda")
    for _ in range(4):
        torch.cuda.manual_seed(7)
        expected = sample(weights, 6)
        torch.cuda.manual_seed(7)
        assert torch.equal(called(weights, 6), expected)
    assert skips() == 0
    assert recordings() == 1


def test_kernels_and_operators_of_pytorch_are_in_one_graph():
    def function(x):
        return torch.linalg.inv(x * 2 + torch.eye(8, device="cuda")) + 1

    called = graphs(function)
    x = torch.zeros(8, 8, device="cuda")
    for _ in range(4):
        torch.testing.assert_close(called(x), function(x))
    assert recordings() == 1


def test_outputs_kept_and_dropped_at_random_keep_their_values():
    torch.manual_seed(0)
    functions = [cube, lambda x: x * 2 + 1, lambda x: (x.sum(0, keepdim=True) + x) / 8]
    called = [graphs(function) for function in functions]
    x = torch.rand(8, 8, device="cuda")
    generator = torch.Generator().manual_seed(1)

    def below(end):
        return int(torch.randint(end, (), generator=generator))

    kept = []
    # From the first mark on an iteration lasts until the next.
    torch.compiler.cudagraph_mark_step_begin()
    for _ in range(200):
        if below(6) == 0:
            kept.clear()
            torch.compiler.cudagraph_mark_step_begin()
        number = below(3)
        source = kept[below(len(kept))][0] if kept and below(2) else x
        result = called[number](source)
        kept.append((result, functions[number](source).clone()))
        for value, expected in kept:
            torch.testing.assert_close(value, expected)
        if below(3) == 0:
            kept.pop(below(len(kept)))
        del result, source
    kept.clear()
    assert state()["replays"] >= 1
