"""Attention that is written by hand, in the forms that models have it, is PyTorch's own operator."""

import math

import pytest
import torch
import torch.nn.functional as F
from kiln.fuse_attention import fuse_attention
from torch import fx
from torch._subclasses import FakeTensorMode

import kiln

B, H, M, N, E = 2, 3, 10, 14, 16
_DRAWS = torch.Generator().manual_seed(1)
SEEN = torch.rand(B, 1, M, N, generator=_DRAWS) < 0.7
SEEN[..., 0] = True
# A row that sees nothing.
PARTLY = SEEN.clone()
PARTLY[1, 0, 3] = False
# What is added in their place, of float32.
ADDED = torch.zeros(SEEN.shape).masked_fill(~SEEN, -math.inf)
ROUNDING = {"emulate_precision_casts": True}
OF_KEYS = torch.randn(B, H, 1, N, generator=_DRAWS)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    kiln.counters.clear()


def operands(dtype=torch.float32, sizes=(B, H)):
    return [(torch.randn(*sizes, n, E) / 2).to(dtype) for n in (M, N, N)]


def plain(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(E), dim=-1) @ v


def scaled_first(q, k, v):
    return torch.matmul(F.softmax(torch.matmul(q * 0.3, k.mT), -1), v)


def in_float32(q, k, v):
    scores = torch.matmul(q, k.permute(0, 1, 3, 2)) * 0.25
    return F.dropout(F.softmax(scores, -1, dtype=torch.float32).to(q.dtype), 0.1, False).matmul(v)


def unscaled(q, k, v):
    return (q @ k.swapaxes(-1, -2)).softmax(3) @ v


def without_a_transpose(q, k, v):
    return (q @ k).softmax(-1) @ v


def hidden(q, k, v, seen):
    scores = (q @ k.transpose(2, 3)).mul(0.25).masked_fill(seen == 0, float("-inf"))
    return scores.softmax(-1) @ v


def far(q, k, v, seen):
    scores = q @ k.transpose(2, 3) / 4
    return torch.softmax(scores.masked_fill_(~seen, -1e9), -1) @ v


def chosen(q, k, v, seen):
    scores = torch.where(seen, (q @ k.transpose(2, 3)).float() * 0.25, torch.finfo(torch.float32).min)
    return scores.softmax(-1).type_as(q) @ v


def chosen_by_a_tensor(q, k, v, seen):
    scores = torch.matmul(q, k.transpose(-1, -2)) / E**0.5
    far = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
    return torch.matmul(F.softmax(torch.where(seen, scores, far), dim=-1), v)


def added(q, k, v, mask):
    scores = q @ k.transpose(2, 3) / 4
    scores += mask
    return scores.softmax(-1) @ v


def added_in_front(q, k, v, mask):
    return (mask + q @ k.transpose(2, 3)).softmax(-1) @ v


def gradients(fn, *args):
    """The result, and the gradients of query, key and value."""
    given = [x.detach().requires_grad_(x.is_floating_point() and x.dim() > 2 and x.size(-1) == E) for x in args]
    y = fn(*given)
    weights = torch.arange(y.numel()).cos().view(y.shape)
    (y.nan_to_num().float() * weights).sum().backward()
    return [y, *(x.grad for x in given)]


def check(fn, *args, fused=1):
    """All is as in eager mode."""
    found = gradients(torch.compile(fn, backend="kiln", fullgraph=True), *args)
    assert kiln.counters["fuse_attention"] == fused
    torch.testing.assert_close(found, gradients(fn, *args), equal_nan=True)


@pytest.mark.parametrize("fn", [plain, scaled_first, in_float32, unscaled])
def test_a_softmax_between_two_products(fn):
    check(fn, *operands())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fn", [plain, in_float32])
def test_half_types_are_as_near_as_eager_mode(fn, dtype):
    args = operands(dtype)
    due = gradients(fn, *(x.float() for x in args))
    eager = gradients(fn, *args)
    found = gradients(torch.compile(fn, backend="kiln", fullgraph=True), *args)
    assert kiln.counters["fuse_attention"] == 1
    for mine, its, exact in zip(found, eager, due):
        assert mine.dtype == dtype
        assert (mine.float() - exact).norm() <= 1.2 * (its.float() - exact).norm()


def test_three_dimensions_are_heads():
    check(plain, *(x[0] for x in operands()))


def test_keys_that_come_transposed():
    q, k, v = operands()
    check(without_a_transpose, q, k.mT.contiguous(), v)


@pytest.mark.parametrize("fn", [hidden, far, chosen, chosen_by_a_tensor])
@pytest.mark.parametrize("sizes", [(B, 1), (1, 1), (B, H), ()], ids=str)
def test_a_bool_hides_scores(fn, sizes):
    seen = SEEN.expand(B, H, M, N)[tuple(slice(n) for n in sizes)].clone() if sizes else SEEN[0, 0]
    check(fn, *operands(), seen)


@pytest.mark.parametrize("fn", [far, chosen])
def test_a_row_of_which_all_is_far_is_the_mean_of_all_values(fn):
    check(fn, *operands(), PARTLY)


@pytest.mark.parametrize("fn, mask", [(hidden, PARTLY), (added, ADDED.masked_fill(~PARTLY, -math.inf))])
def test_a_row_that_sees_nothing_is_nan_as_it_was_written(fn, mask):
    q, k, v = operands()
    with torch.no_grad():
        due = fn(q, k, v, mask)
        found = torch.compile(fn, backend="kiln")(q, k, v, mask)
    assert due[1, :, 3].isnan().all() and due.isnan().sum() == H * E
    torch.testing.assert_close(found, due, equal_nan=True)
    assert kiln.counters["fuse_attention"] == 1


@pytest.mark.parametrize("far", [-1e9, torch.finfo(torch.float32).min])
def test_a_row_to_which_far_numbers_are_added_has_pytorchs_own_gradients(far):
    """They are not those of what was written: PyTorch keeps the logarithm of the row's sum, rounded."""
    mask = torch.zeros(PARTLY.shape).masked_fill(~PARTLY, far)
    args = [*operands(), mask]
    found = gradients(torch.compile(added, backend="kiln", fullgraph=True), *args)
    assert kiln.counters["fuse_attention"] == 1
    due = gradients(lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask, scale=0.25), *args)
    torch.testing.assert_close(found, due)
    torch.testing.assert_close(found[0], added(*args))


@pytest.mark.parametrize("fn", [added, added_in_front])
@pytest.mark.parametrize("mask", [ADDED, ADDED[0, 0], ADDED[0, 0, 0], OF_KEYS], ids=lambda mask: str(tuple(mask.shape)))
def test_a_mask_is_added(fn, mask):
    check(fn, *operands(), mask)


def test_lengths_may_be_symbols():
    called = torch.compile(hidden, backend="kiln", dynamic=True)
    for n in (5, 9, 30):
        q, k, v = (torch.randn(B, H, n, E) for _ in range(3))
        seen = torch.ones(n, n, dtype=torch.bool).tril()
        torch.testing.assert_close(called(q, k, v, seen), hidden(q, k, v, seen))
    assert kiln.counters["fuse_attention"] == 1


STAYING = {
    "weights_are_read": lambda q, k, v: (w := (q @ k.mT).softmax(-1)) @ v + w[..., :1],
    "scores_are_read": lambda q, k, v: ((s := q @ k.mT).softmax(-1) @ v) + s[..., :1],
    "other_dimension": lambda q, k, v: (q @ k.mT).softmax(-2) @ v,
    "scaled_behind_a_mask": lambda q, k, v: ((q @ k.mT + ADDED) * 0.5).softmax(-1) @ v,
    "near_number": lambda q, k, v: (q @ k.mT).masked_fill(~SEEN, -3.0).softmax(-1) @ v,
    "of_float64": lambda q, k, v: (q.double() @ k.double().mT).softmax(-1) @ v.double(),
    "heads_that_broadcast": lambda q, k, v: (q @ k[:, :1].mT).softmax(-1) @ v,
    "no_keys": lambda q, k, v: (q @ k[:, :, :0].mT).softmax(-1) @ v[:, :, :0],
    "two_masks": lambda q, k, v: (q @ k.mT + ADDED + ADDED).softmax(-1) @ v,
    "a_mask_that_learns": lambda q, k, v: (q @ k.mT + v[..., :1].mT).softmax(-1) @ v,
    "a_scale_beyond_float32_on_the_way": lambda q, k, v: (q @ k.mT * 1e30 * 1e30 * 1e-60).softmax(-1) @ v,
    "a_scale_that_is_zero_on_the_way": lambda q, k, v: (q @ k.mT * 1e-30 * 1e-30 * 1e60).softmax(-1) @ v,
    "an_infinite_divisor": lambda q, k, v: (q @ k.mT / math.inf).softmax(-1) @ v,
    "in_float64": lambda q, k, v: (q @ k.mT).softmax(-1, dtype=torch.float64).float() @ v,
    "not_a_matrix": lambda q, k, v: (q[0, 0] @ k[0, 0].mT).softmax(-1) @ v[0, 0],
}


@pytest.mark.parametrize("name", STAYING)
def test_others_stay_as_they_are(name):
    check(STAYING[name], *operands(), fused=0)


ROUNDED = {
    "scores": lambda q, k, v: (q @ k.mT * 9).half().float().softmax(-1) @ v,
    "weights": lambda q, k, v: (q @ k.mT).softmax(-1).bfloat16().float() @ v,
    "by_a_softmax": lambda q, k, v: (q @ k.mT).softmax(-1, dtype=torch.float16).type_as(v) @ v,
}


@pytest.mark.parametrize("name", ROUNDED)
def test_what_is_rounded_on_purpose_is_not_taken(name):
    fn, args = ROUNDED[name], operands()
    assert F.scaled_dot_product_attention not in traced(fn, *args)
    torch._dynamo.reset()
    found = torch.compile(fn, backend="kiln", options=ROUNDING)(*args)
    torch.testing.assert_close(found, fn(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_where_half_types_are_rounded_as_in_eager_mode_parts_stay_apart(dtype):
    args = operands(dtype)
    found = torch.compile(plain, backend="kiln", options=ROUNDING)(*args)
    assert kiln.counters["fuse_attention"] == 0
    due, eps = plain(*args), torch.finfo(dtype).eps
    torch.testing.assert_close(found, due, rtol=eps, atol=eps / 4)


def test_what_writes_to_an_operand_in_between_keeps_them_apart():
    def fn(q, k, v):
        scores = q @ k.mT
        v.add_(1)
        return scores.softmax(-1) @ v

    q, k, v = operands()
    due = fn(q, k, v.clone())
    torch.testing.assert_close(torch.compile(fn, backend="kiln")(q, k, v.clone()), due)
    assert kiln.counters["fuse_attention"] == 0


def added_to_the_mask(q, k, v, mask):
    return mask.add_(q @ k.mT).softmax(-1) @ v


def added_to_the_mask_by_an_operator(q, k, v, mask):
    mask += q @ k.mT
    return mask.softmax(-1) @ v


@pytest.mark.parametrize("fn", [added_to_the_mask, added_to_the_mask_by_an_operator])
def test_a_mask_that_scores_are_added_to_in_place_is_written(fn):
    q, k, v = operands()
    given = torch.randn(B, H, M, N)
    mask, due_mask = given.clone(), given.clone()
    due = fn(q, k, v, due_mask)
    torch.testing.assert_close(torch.compile(fn, backend="kiln")(q, k, v, mask), due)
    torch.testing.assert_close(mask, due_mask)
    assert kiln.counters["fuse_attention"] == 0


def traced(fn, *args, draws=True):
    """The targets of Dynamo's graph, its attention fused."""
    seen = []

    def backend(module, inputs):
        fuse_attention(module, draws=draws)
        seen.extend(node.target for node in module.graph.nodes)
        return module.forward

    torch._dynamo.reset()
    torch.compile(fn, backend=backend, fullgraph=True)(*args)
    return seen


def merged(q, k, v):
    return plain(q, k, v).view(B, H, -1)


def at_places(q, k, v):
    return plain(q, k, v).as_strided((B, H * M, E), (H * M * E, E, 1))


def known_contiguous(q, k, v):
    y = plain(q, k, v)
    return y * 2 if y.is_contiguous() else y


def heads_joined(q, k, v):
    return plain(q, k, v).transpose(1, 2).reshape(B, M, H * E)


def heads_copied(q, k, v):
    return plain(q, k, v).permute(0, 2, 1, 3).contiguous().flatten(2)


@pytest.mark.parametrize("fn", [plain, merged, at_places, known_contiguous, heads_joined, heads_copied])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)], ids=str)
def test_a_result_lies_as_the_last_product_does(fn, order):
    """Query, key and value lie in another order of batches, heads and rows."""
    back = [order.index(d) for d in range(3)]
    given = [x.permute(*order, 3).contiguous().permute(*back, 3) for x in operands()]
    due, found = fn(*given), torch.compile(fn, backend="kiln", fullgraph=True)(*given)
    torch.testing.assert_close(found, due)
    assert found.stride() == due.stride()
    assert kiln.counters["fuse_attention"] == 1


def test_what_copies_heads_to_their_rows_needs_no_other_copy():
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in operands())
    assert "contiguous" not in traced(heads_joined, q, k, v)
    assert traced(heads_copied, q, k, v).count("contiguous") == 1
    assert "contiguous" in traced(merged, q, k, v)


def test_dropout_on_the_cpu_stays_where_it_is():
    def fn(q, k, v):
        return F.dropout((q @ k.mT).softmax(-1), 0.1) @ v

    assert F.scaled_dot_product_attention not in traced(fn, *operands())


def on_a_gpu(dtype, width=E, p=0.0, draws=True):
    """The words of the attention that a graph on a GPU gets; None without one."""
    graph = fx.Graph()
    names = [graph.placeholder(name) for name in "qkv"]
    q, k, v = names
    with FakeTensorMode():
        values = {node: torch.empty(B, H, n, width, dtype=dtype, device="cuda") for node, n in zip(names, (M, N, N))}
        scores = torch.empty(B, H, M, N, dtype=dtype, device="cuda")
        nodes = [graph.call_method("transpose", (k, -2, -1))]
        values[nodes[0]] = values[k].transpose(-2, -1)
    steps = [(torch.matmul, (q, nodes[0])), (torch.softmax, (None, -1)), (F.dropout, (None, p, True))]
    for target, args in steps:
        nodes.append(graph.call_function(target, tuple(nodes[-1] if x is None else x for x in args)))
        values[nodes[-1]] = scores
    nodes.append(graph.call_function(torch.matmul, (nodes[-1], v)))
    values[nodes[-1]] = values[q]
    graph.output((nodes[-1],))
    for node, value in values.items():
        node.meta["example_value"] = value
    module = fx.GraphModule(torch.nn.Module(), graph)
    fuse_attention(module, draws)
    return next((n.kwargs for n in graph.nodes if n.target is F.scaled_dot_product_attention), None)


def test_on_a_gpu_where_fused_kernels_have_it():
    assert on_a_gpu(torch.bfloat16) == {"dropout_p": 0.0, "scale": 1.0}
    assert on_a_gpu(torch.float16, p=0.1) == {"dropout_p": 0.1, "scale": 1.0}
    assert on_a_gpu(torch.float16, width=256) is not None
    assert on_a_gpu(torch.float16, width=264) is None
    assert on_a_gpu(torch.float16, width=20) is None
    assert on_a_gpu(torch.float32) is None
    # Eager mode's own numbers.
    assert on_a_gpu(torch.float16, p=0.1, draws=False) is None


def test_flex_attention_is_pytorchs_by_name():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (torch.randn(1, 2, 128, E) for _ in range(3))
    causal = create_block_mask(lambda b, h, m, n: m >= n, None, None, 128, 128, device="cpu")

    def fn(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, m, n: s + n - m, block_mask=causal) * 2

    due = F.scaled_dot_product_attention(q, k, v, far_and_near(128)) * 2
    torch.testing.assert_close(torch.compile(fn, backend="kiln")(q, k, v), due)
    assert kiln.counters["host_kernels"] == 1
    torch._dynamo.reset()
    assert "flex_attention" in str(kiln.explain(fn, q, k, v))


def far_and_near(length):
    """Adds how far a key is in front of a query, of those that come first."""
    places = torch.arange(length)
    ahead = (places[None, :] - places[:, None]).float()
    return ahead.masked_fill(ahead > 0, -math.inf)
