"""Sizes and numbers of graphs that are cut: section 14.8 of the fact sheet."""

import pytest
import torch

from trees import assert_thrice, graphs, partitions, recordings, skips, state, unsafe_operator


def test_graph_partition_item():
    def function(x):
        y = x.sum()
        return x * y.item() + 1

    called = graphs(function)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for scale in (1.0, 2.0, 3.0, 4.0):
            x = torch.full((4,), scale, device="cuda")
            torch.testing.assert_close(called(x), function(x))
    assert skips() == 0
    assert recordings() >= 1


def test_graph_partition_unbacked_symint():
    def function(x, y):
        places = x.nonzero()
        return (places * 2).sum() + y.sin(), y.cos() * 2

    called = graphs(function)
    y = torch.rand(4, device="cuda")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for count in (2, 3, 2, 3, 2, 3):
            x = torch.zeros(8, device="cuda")
            x[:count] = 1
            torch.testing.assert_close(called(x, y), function(x, y))
    assert partitions() >= 1
    assert skips() == 0


def test_graph_partition_dynamic_shapes():
    called = torch.compile(
        lambda x: x + 1, backend="kiln", dynamic=True, options={"cudagraphs": True}
    )
    for size in (2, 3, 4, 2, 3, 4):
        assert_thrice(called, lambda x: x + 1, torch.rand(size, 3, device="cuda"))
    assert recordings() == 3
    assert skips() == 0


def test_graph_partition_cpu_tensor_symints():
    """Sizes that the CPU's part alone knows are no key of what is on the GPU."""

    def function(x, y):
        return x + 1, y + 1

    called = torch.compile(function, backend="kiln", dynamic=True, options={"cudagraphs": True})
    for number, size in enumerate((4, 6, 8) * 4):
        x, y = torch.rand(size, 3, device="cuda"), torch.rand(number + 5, 3)
        torch.testing.assert_close(called(x, y), function(x, y))
    assert recordings() == 3
    assert skips() == 0


def test_graph_partition_unbacked_symint_multi_output_layout():
    def function(x):
        places = x.nonzero()
        values, order = torch.sort(places.squeeze(1) * 2)
        first, second = values.split([2, values.shape[0] - 2])
        return first.sum(), second * 3, order

    called = graphs(function)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for count in (3, 5, 3, 5, 3, 5):
            x = torch.zeros(16, device="cuda")
            x[:count] = 1
            torch.testing.assert_close(called(x), function(x))
    assert skips() == 0
    assert partitions() >= 1


@pytest.mark.parametrize("skipped", [False, True])
def test_graph_partition_cpu_op_and_dynamic_shapes(skipped):
    def function(x):
        return (x + 1).cpu().cuda() * x.size(0)

    options = {"cudagraphs": True, "cudagraph_skip_dynamic_graphs": skipped}
    called = torch.compile(function, backend="kiln", dynamic=True, options=options)
    for size in (4, 6, 4, 6):
        assert_thrice(called, function, torch.rand(size, device="cuda"))
    assert skips() == 0
    assert (recordings() if state() else 0) == (0 if skipped else 4)


def test_graph_partition_reorder_cpu_and_gpu():
    def function(x, y):
        x1 = x + 1
        y1 = y.sin()
        x2 = torch.linalg.inv(x1.view(4, 4) + 9 * torch.eye(4, device="cuda"))
        y2 = y1 * 2
        return x2, y2

    called = graphs(function)
    x, y = torch.rand(16, device="cuda"), torch.rand(4)
    assert_thrice(called, function, x, y)
    assert recordings() == 1


def test_graph_partition_reorder_cpu_and_gpu_interleave():
    def function(on_gpu, on_cpu):
        for number in range(1, 4):
            on_gpu, on_cpu = on_gpu.sin() + number, on_cpu * 2 + number
        return on_gpu, on_cpu

    called = graphs(function)
    x, y = torch.rand(16, device="cuda"), torch.rand(4)
    assert_thrice(called, function, x, y)
    assert recordings() == 1
    assert skips() == 0


def _copies(called, *inputs):
    """How often a call copies to the GPU, once it is replayed."""
    for _ in range(3):
        called(*inputs)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        called(*inputs)
        torch.cuda.synchronize()
    return sum(event.count for event in seen.key_averages() if "Memcpy HtoD" in event.key)


def test_graph_partition_cpu_scalar():
    def function(x, scale):
        return (x * scale).sin() + scale

    x = torch.rand(8, device="cuda")
    called = graphs(function)
    for value in (1.0, 2.0, 3.0, 4.0):
        scale = torch.tensor(value)
        torch.testing.assert_close(called(x, scale), function(x, scale))
    assert recordings() == 1
    assert _copies(called, x, torch.tensor(5.0)) == 1
    assert skips() == 0


def test_graph_partition_cpu_scalar_mutation():
    def function(x, count):
        y = x + count
        count.add_(1)
        return y

    x = torch.rand(8, device="cuda")
    called = graphs(function)
    count, plain = torch.tensor(1.0), torch.tensor(1.0)
    for _ in range(4):
        torch.testing.assert_close(called(x, count), function(x, plain))
        assert count == plain
    assert recordings() == 1


def test_graph_partition_cpu_scalar_device_put():
    def function(x, count):
        return x + count.to("cuda") * 2

    x, count = torch.rand(8, device="cuda"), torch.tensor(3.0)
    called = graphs(function)
    for _ in range(4):
        torch.testing.assert_close(called(x, count), function(x, count))
    assert (count.device.type, count.item()) == ("cpu", 3.0)
    assert recordings() == 1


def test_graph_partition_symint():
    def function(x):
        y = x[: x.size(0) // 2] * 2
        return (y.cpu() + y.size(0)).cuda() + x.size(0)

    called = torch.compile(function, backend="kiln", dynamic=True, options={"cudagraphs": True})
    for size in (8, 12, 8, 12, 20):
        assert_thrice(called, function, torch.rand(size, device="cuda"))
    assert skips() == 0
    assert recordings() >= 1


def test_graph_partition_symint_cat_backward():
    def function(x, w):
        y = torch.cat((x, w), 0)
        z = y @ x.t()
        return (z.cpu() + 1).cuda().sum()

    called = torch.compile(function, backend="kiln", dynamic=True, options={"cudagraphs": True})
    for rows in (4, 6, 4, 6):
        for _ in range(3):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.rand(rows, 8, device="cuda", requires_grad=True)
            w = torch.rand(3, 8, device="cuda", requires_grad=True)
            called(x, w).backward()
            due = torch.autograd.grad(function(x, w), (x, w))
            torch.testing.assert_close((x.grad, w.grad), due)
    assert recordings() >= 1


def test_graph_partition_symint_from_nested_indirect_indexing():
    def function(x, places):
        found = places.nonzero().squeeze(1)
        return x[found] * 2, x.cos()

    called = graphs(function)
    x = torch.rand(16, 4, device="cuda")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for count in (3, 5, 3, 5, 3, 5):
            places = torch.zeros(16, device="cuda")
            places[:count] = 1
            torch.testing.assert_close(called(x, places), function(x, places))
    assert recordings() >= 1


def test_graph_partition_symint_from_mutation_index():
    def function(place, x):
        x[place] = -1
        return x

    x = torch.zeros(7, device="cuda")
    called = torch.compile(function, backend="kiln", fullgraph=True, options={"cudagraphs": True})
    for place in range(2, 7):
        called(place, x)
        assert x[place] == -1
    called(-7, x)
    assert x[0] == -1
    assert skips() >= 1  # it writes to its input


def test_graph_partition_dynamic_scalar_inputs():
    def function(x, number):
        y = x.cpu() * number
        return y.cuda() + number

    called = torch.compile(function, backend="kiln", dynamic=True, options={"cudagraphs": True})
    x = torch.rand(8, device="cuda")
    for number in (2, 3, 4, 2, 3, 4):
        torch.testing.assert_close(called(x, number), function(x, number))
    assert recordings() >= 1


@pytest.mark.parametrize("kind", ["constant", "returned", "also_on_the_cpu", "computed"])
def test_graph_partition_cpu_scalars(kind):
    scale = torch.tensor(3.0)

    def function(x, count):
        if kind == "constant":
            return x * scale + 1
        if kind == "returned":
            return x * count, count
        if kind == "also_on_the_cpu":
            return x * count, count + 1
        return x * (count + 1) + count

    called = graphs(function)
    x = torch.rand(8, device="cuda")
    for value in (1.0, 2.0, 3.0, 4.0):
        count = torch.tensor(value)
        torch.testing.assert_close(called(x, count), function(x, count))
    assert skips() == 0
    assert recordings() == 1
    assert _copies(called, x, torch.tensor(5.0)) == 1


def test_graph_partition_cpu_scalar_multiple():
    def function(x, a, b, c):
        return (x * a + b).sin() * c

    called = graphs(function)
    x = torch.rand(8, device="cuda")
    for value in (1.0, 2.0, 3.0, 4.0):
        given = [torch.tensor(value + step) for step in range(3)]
        torch.testing.assert_close(called(x, *given), function(x, *given))
    assert recordings() == 1
    assert _copies(called, x, *given) == 1
    assert skips() == 0


def test_graph_partition_custom_op_dynamic_shapes():
    halved = unsafe_operator("halved_dynamic", (torch.Tag.cudagraph_unsafe,))

    def function(x):
        return halved(x + 1) * x.size(0)

    called = torch.compile(function, backend="kiln", dynamic=True, options={"cudagraphs": True})
    for size in (4, 6, 8):
        assert_thrice(called, function, torch.rand(size, device="cuda"))
    assert recordings() == 6


def test_graph_partition_input_layout_symints():
    def function(x):
        y = x.transpose(0, 1) * 2
        return (y.cpu() + 1).cuda() + x.transpose(0, 1)

    called = torch.compile(function, backend="kiln", dynamic=True, options={"cudagraphs": True})
    for rows in (4, 6, 8):
        assert_thrice(called, function, torch.rand(rows, rows + 1, device="cuda"))
    assert recordings() >= 1
