"""What writes to a tensor between the parts of a fusion, in every way that a program can say it."""

import pytest
import torch
import torch.nn.functional as F
from kiln import fuse_linear_cross_entropy
from kiln.traced_nodes import may_write

import kiln

aten = torch.ops.aten


@torch.library.custom_op("kiln_tests::bump", mutates_args={"x"})
def bump(x: torch.Tensor) -> None:
    x.mul_(3)


@bump.register_fake
def _(x):
    return None


@torch.library.custom_op("kiln_tests::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@tripled.register_fake
def _(x):
    return torch.empty_like(x)


WRITES = {
    "method": lambda x: x.mul_(3),
    "function": lambda x: torch.relu_(x),
    "view": lambda x: x[0].fill_(3),
    "out": lambda x: torch.add(x, 1, out=x),
    "operator_of_python": lambda x: x.__imul__(3),
    "item": lambda x: x.__setitem__(0, 1.0),
    "overload": lambda x: aten.mul_.Tensor(x, 3),
    "packet": lambda x: aten.mul_(x, 3),
    "out_of_a_packet": lambda x: aten.add(x, 1, out=x),
    "overload_of_indices": lambda x: aten.index_put_.default(x, [torch.tensor([0])], torch.tensor(2.0)),
    "custom_operator": lambda x: torch.ops.kiln_tests.bump(x),
    "list": lambda x: torch._foreach_add_([x], 1.0),
    "relu": lambda x: F.relu(x, True),
    "relu_by_name": lambda x: F.relu(x, inplace=True),
    "hardtanh": lambda x: F.hardtanh(x, -0.1, 0.1, True),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01, True),
    "elu": lambda x: F.elu(x, 1.0, True),
    "celu": lambda x: F.celu(x, 1.0, True),
    "silu": lambda x: F.silu(x, True),
    "dropout": lambda x: F.dropout(x, 0.5, False, True),
    "module": lambda x: torch.nn.LeakyReLU(0.1, inplace=True)(x),
    "embedding": lambda x: F.embedding(torch.tensor([0]), x.view(-1, x.size(-1)), None, 0.1),
}
READS = {
    "function": lambda x: torch.relu(x),
    "relu": lambda x: F.relu(x, False),
    "dropout": lambda x: F.dropout(x, 0.5, False),
    "module": lambda x: torch.nn.LeakyReLU(0.1)(x),
    "overload": lambda x: aten.mul.Tensor(x, 3),
    "packet": lambda x: aten.mul(x, 3),
    "custom_operator": lambda x: torch.ops.kiln_tests.tripled(x),
    "embedding": lambda x: F.embedding(torch.tensor([0]), x.view(-1, x.size(-1))),
    "inverse": lambda x: (x > 0).__invert__(),
}


def attention(write):
    def fn(q, k, v):
        scores = q @ k.mT / 4
        write(k)
        return scores.softmax(-1) @ v

    return fn, [torch.randn(2, 3, n, 16) for n in (9, 13, 13)]


def writers(fn, *args):
    """The nodes of Dynamo's graph that may write."""
    seen = []

    def backend(module, inputs):
        seen.extend(node for node in module.graph.nodes if may_write(node))
        return module.forward

    torch.compile(fn, backend=backend, fullgraph=True)(*args)
    return seen


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_seen(name):
    with torch.no_grad():
        assert writers(WRITES[name], torch.randn(4, 3))


@pytest.mark.parametrize("name", READS)
def test_what_only_reads_is_no_write(name):
    assert not writers(READS[name], torch.randn(4, 3))


@pytest.mark.parametrize("name", WRITES)
def test_attention_reads_its_operands_before_the_write(name):
    fn, (q, k, v) = attention(WRITES[name])
    kiln.counters.clear()
    due_k = k.clone()
    due = fn(q, due_k, v)
    torch.testing.assert_close(torch.compile(fn, backend="kiln")(q, k, v), due)
    torch.testing.assert_close(k, due_k)
    assert kiln.counters["fuse_attention"] == 0


@pytest.mark.parametrize("name", ["overload", "custom_operator", "operator_of_python", "relu"])
def test_a_linear_reads_its_weight_before_the_write(name, monkeypatch):
    def fn(x, weight, target):
        logits = F.linear(x, weight)
        WRITES[name](weight)
        return F.cross_entropy(logits, target)

    monkeypatch.setattr(fuse_linear_cross_entropy, "CHUNK_BYTES", 1024)
    kiln.counters.clear()
    x, weight, target = torch.randn(30, 8), torch.randn(40, 8), torch.randint(0, 40, (30,))
    due = fn(x, weight.clone(), target)
    compiled = torch.compile(fn, backend="kiln", options={"fuse_linear_cross_entropy": True})
    torch.testing.assert_close(compiled(x, weight, target), due)
    assert kiln.counters["linear_cross_entropy"] == 0
