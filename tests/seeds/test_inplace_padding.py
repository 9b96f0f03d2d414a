"""A matrix that one product reads with columns added has them in its own memory, where its rows have
room: how often that is counted, what is allocated, and that all is as in eager mode. Of 2048 by 2048
numbers of float32, padded with 12345."""

import copy

import pytest
import torch

import kiln

from norms import assert_close_by_norm

N, PAD = 2048, 8
ROOMY = N + 10  # elements from row to row
# A product of two thousand terms, of which some are 12345.
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="of CUDA alone: padded to whole vectors, 20 GB of memory"
)


def matrix(device, rows=N, columns=N, stride=ROOMY):
    """Within rows that are longer."""
    return torch.randn(rows, stride, device=device)[:, :columns]


def padded(x):
    return torch.nn.functional.pad(x, (0, PAD), value=12345.0)


def compiled(fn, *args, **options):
    """What the compiled function gives, which is what eager mode gives; mutated inputs too."""
    given = copy.deepcopy(args)
    got = torch.compile(fn, backend="kiln", fullgraph=True, options=options)(*args)
    torch.testing.assert_close(got, fn(*given), **TOLERANCE)
    torch.testing.assert_close(args, given, **TOLERANCE)


def in_place():
    return kiln.counters["inplace_padding"]


def test_skip_pad_due_to_fusion(device):
    def fn(x):
        return padded(x).sum(-1)

    x = matrix(device)
    got = torch.compile(fn, backend="kiln", fullgraph=True)(x)
    torch.testing.assert_close(got, fn(x), rtol=1e-3, atol=1e-3)
    assert in_place() == 0


def test_skip_pad_input(device):
    compiled(lambda x, y: padded(x) @ y, matrix(device), torch.randn(N + PAD, N, device=device))
    assert in_place() == 0


def add_and_pad(x):
    x = torch.nn.functional.pad(x + 1, (0, 1), value=12345.0)
    return x @ x


def test_pad_non_zero(device):
    x = torch.randn(N, N - 1, device=device)
    compiled(add_and_pad, x)
    assert (in_place(), kiln.metrics.num_comprehensive_padding) == (1, 1)
    (code,) = kiln.get_code(add_and_pad, x)
    # 2048 by 2048 are allocated, of which 2048 by 2047 are written.
    (line,) = (line for line in code.splitlines() if " written " in line)
    assert f" bytes {N * N * 4} " in line
    assert f" f32 [{N}, {N - 1}] strides [{N}, 1] offset 0" in line


@pytest.mark.parametrize(
    "option, rows", [("inplace_padding", 0), ("comprehensive_padding", 0), ("shape_padding", 1)]
)
def test_pad_non_zero_without(option, rows, device):
    """Without longer rows there is no room; the sizes of products are another matter."""
    compiled(add_and_pad, torch.randn(N, N - 1, device=device), **{option: False})
    assert (in_place(), kiln.metrics.num_comprehensive_padding) == (rows, rows)


def test_an_artifact_of_the_cache_counts_the_same(device):
    for _ in range(2):
        torch._dynamo.reset()
        kiln.counters.clear()
        compiled(add_and_pad, torch.randn(N, N - 1, device=device))
        assert in_place() == 1
    assert (kiln.counters["cache_hit"], kiln.counters["compiles"]) == (1, 0)


def test_pad_non_zero_cpp_wrapper(device):
    """Kiln's runtime, which is C++, runs the same plan with the option and without it."""
    x = torch.randn(N, N - 1, device=device)
    codes = []
    for on in (True, False):
        torch._dynamo.reset()
        kiln.counters.clear()
        kiln.metrics.reset()
        compiled(add_and_pad, x, cpp_wrapper=on, cache_tag="cpp_wrapper")
        assert (in_place(), kiln.metrics.num_comprehensive_padding) == (1, 1)
        assert (kiln.counters["compiles"], kiln.counters["cache_hit"]) == (on, not on)
        with kiln.config.patch(cpp_wrapper=on):
            codes += kiln.get_code(add_and_pad, x)
    assert codes[0] == codes[1]
    # The rows of a padded matrix are written in the memory of the wider one.
    assert f" f32 [{N}, {N - 1}] strides [{N}, 1] offset 0" in codes[0]


def test_pad_too_large(device):
    x = matrix(device, stride=N + 5)
    compiled(lambda x, y: padded(x) @ y, x, torch.randn(N + PAD, N, device=device))
    assert in_place() == 0
    torch._dynamo.reset()  # nor where an input may be padded
    y = torch.randn(N + PAD, N, device=device)
    compiled(lambda x, y: padded(x) @ y, x, y, can_inplace_pad_graph_input=True)
    assert in_place() == 0


def mutate_input(x, y):
    wider = padded(x)
    x.add_(5)
    return wider @ y


def test_mutating_padding_input(device):
    x, y = matrix(device), torch.randn(N + PAD, N, device=device)
    compiled(mutate_input, x, y, can_inplace_pad_graph_input=True)
    assert in_place() == 1


def test_mutating_padding_output(device):
    def fn(x, y):
        wider = padded(x)
        wider.add_(1)
        return wider @ y

    compiled(fn, matrix(device), torch.randn(N + PAD, N, device=device))
    assert in_place() == 0


def test_an_input_whose_last_row_ends_early_is_refused(device):
    """The storage of a call is not that of the compile: its room is looked at each time."""

    def fn(x, y):
        return padded(x) @ y

    y = torch.randn(N + PAD, N, device=device)
    called = torch.compile(
        fn, backend="kiln", fullgraph=True, options={"can_inplace_pad_graph_input": True}
    )
    x = matrix(device)
    torch.testing.assert_close(called(x, y), fn(x, y), **TOLERANCE)
    assert in_place() == 1
    short = torch.randn((N - 1) * ROOMY + N, device=device).as_strided((N, N), (ROOMY, 1))
    with pytest.raises(ValueError, match=f"input 0: found a storage of .*, expected {N * ROOMY}: "):
        called(short, y)
    whole = torch.randn(N, 2 * ROOMY, device=device)
    neighbour = whole[:, N : N + PAD]
    with pytest.raises(ValueError, match="its storage is input 0's too"):
        torch.compile(
            lambda x, y, z: (padded(x) @ y) + z.sum(),
            backend="kiln",
            options={"can_inplace_pad_graph_input": True},
        )(whole[:, :N], y, neighbour)


def linear_and_cross_entropy(device, **options):
    """32,768 words of 50,257: the sum over words of the gradient of the logits is padded to 50,264
    in its own rows of 50,304."""
    words, width, classes = 32 * 1024, 768, 50257
    x = torch.randn(words, width, dtype=torch.bfloat16, device=device, requires_grad=True)
    target = torch.randint(0, classes, (words,), device=device)
    linear = torch.nn.Linear(width, classes, dtype=torch.bfloat16, device=device)
    loss = torch.nn.CrossEntropyLoss()

    def step(x):
        return loss(linear(x), target)

    def gradients():
        found = [x.grad, linear.weight.grad, linear.bias.grad]
        x.grad = linear.weight.grad = linear.bias.grad = None
        return found

    due = step(x)
    due.backward()
    its = gradients()
    got = torch.compile(step, backend="kiln", options={"force_shape_pad": True, **options})(x)
    got.backward()
    torch.testing.assert_close(got, due, rtol=1e-2, atol=0)
    for mine, its_own in zip(gradients(), its, strict=True):
        assert_close_by_norm(mine, its_own)


@needs_gpu
@pytest.mark.parametrize("on", [True, False])
def test_linear_and_cel(on, device):
    linear_and_cross_entropy(device, inplace_padding=on)
    assert in_place() == on


@needs_gpu
def test_linear_and_cel_max_autotune(device):
    linear_and_cross_entropy(device, inplace_padding=True, max_autotune=True)
    assert in_place()
