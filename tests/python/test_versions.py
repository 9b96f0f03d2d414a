"""What differs between versions of PyTorch: how tensors cross where torch has no exchange table.

Torch 2.9 has none; of a later one it is taken away before Kiln looks.
"""

import pytest
import torch

from processes import answer_of, start

WITHOUT_TABLE = """
import json, sys, torch
if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    del torch.Tensor.__dlpack_c_exchange_api__
import kiln
device = sys.argv[1]

def same(fn, *inputs):
    torch._dynamo.reset()
    got, due = torch.compile(fn, backend="kiln", fullgraph=True)(*inputs), fn(*inputs)
    if (got.dtype, got.shape, got.stride(), got.device) != (
        due.dtype, due.shape, due.stride(), due.device
    ):
        return f"{got.dtype} {got.shape} {got.stride()}, due {due.dtype} {due.shape} {due.stride()}"
    return True if torch.equal(got, due) else f"{got}, due {due}"

said = {}
"""


def said_by(program, device="cpu"):
    tail = "\nprint(json.dumps(said))\n"
    return answer_of(start(WITHOUT_TABLE + program + tail, device))[0]


DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]

LAYOUTS = """
names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64"
for name in names.split():
    x = torch.arange(24, device=device).reshape(4, 6).to(getattr(torch, name))
    said[name] = same(lambda x: x.flip(0).where(x != 3, x), x)
x = torch.arange(48.0, device=device).reshape(4, 12)
said["view"] = same(lambda x: x * 2, x[1:, 2::3])
said["transposed"] = same(lambda x: x + 1, x.t())
said["expanded"] = same(lambda x: x + 1, x[:1].expand(5, 12))
said["scalar"] = same(lambda x: x + 1, torch.tensor(3.0, device=device))
said["empty"] = same(lambda x: x.sum(0) + 1, torch.empty(0, 3, device=device))
said["parameter"] = same(lambda x: x.detach() * 2, torch.nn.Parameter(x))
"""

TRAINING = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).to(device)
x = torch.randn(4, 8, device=device)
model(x).square().sum().backward()
due = model[0].weight.grad.clone()
model.zero_grad()
torch.compile(model, backend="kiln")(x).square().sum().backward()
said["gradient"] = torch.allclose(model[0].weight.grad, due, rtol=1e-4, atol=1e-4)
def write(x):
    x.mul_(2)
    return x.view(-1)
given = torch.ones(2, 3, device=device)
result = torch.compile(write, backend="kiln")(given)
said["mutated"] = bool((given == 2).all())
said["alias"] = result.data_ptr() == given.data_ptr()
"""

MEMORY = """
called = torch.compile(lambda x: torch.softmax(x @ x, -1).exp(), backend="kiln")
x = torch.randn(1024, 1024, device="cuda")
called(x)
torch.empty_like(x).fill_(0)  # CUDA loads a kernel at its first use, and may wait for all streams
torch.cuda.synchronize()
before = torch.cuda.memory_allocated()
got = called(x)
said["one result"] = torch.cuda.memory_allocated() - before == got.nbytes
del got
said["given back"] = torch.cuda.memory_allocated() == before
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    torch.cuda._sleep(2_000_000_000)
    x.fill_(0)
    got = called(x)
    done = stream.record_event()
said["behind the sleep"] = not done.query()
stream.synchronize()
said["after the fill"] = torch.allclose(got, torch.full_like(got, 1 / 1024).exp())
"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("program", [LAYOUTS, TRAINING], ids=["layouts", "training"])
def test_tensors_cross_without_an_exchange_table(program, device):
    said = said_by(program, device)
    assert said and all(word is True for word in said.values()), said


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_pytorchs_allocator_and_stream_serve_without_an_exchange_table():
    said = said_by(MEMORY, "cuda")
    assert said and all(word is True for word in said.values()), said
