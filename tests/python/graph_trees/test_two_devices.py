"""A tree for each device, and a device for each process. All need two GPUs."""

import copy
import threading

import pytest
import torch
from torch._dynamo.utils import counters as dynamo_counters

import kiln
from processes import answers_of, end_daemons, start
from test_random_numbers import assert_equal, checkpointed, seeded, stepper, without_graphs
from trees import graphs, skips, thrice

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs here")


def recorded(device):
    tree = kiln.graph_tree_state(device)
    return None if tree is None else tree["recordings"]


def test_each_device_has_its_tree():
    called = graphs(lambda x: x * 2 + 1)
    inputs = [torch.rand(8, device=f"cuda:{device}") for device in range(2)]
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        for x in inputs:
            result = called(x)
            assert result.device == x.device
            assert torch.equal(result, x * 2 + 1)
            del result
    assert (recorded(0), recorded(1)) == (1, 1)


def test_training_on_each_device_is_that_of_one():
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    x = torch.rand(16, 8)
    found = []
    for device in range(2):
        model = copy.deepcopy(layer).to(device)
        called = graphs(model)
        for _ in range(4):
            model.zero_grad(set_to_none=True)
            called(x.to(device)).square().sum().backward()
        found.append([p.grad.cpu() for p in model.parameters()])
        assert recorded(device) == 2
        model.zero_grad(set_to_none=True)
    torch.testing.assert_close(found[0], found[1])


def test_cached_boxed_forward_device_index():
    def function(x, w):
        return (x @ w).relu().sum()

    def step(called, x, w):
        w.grad = None
        called(x, w).backward()
        return w.grad.clone()

    x = torch.rand(4, 8, device="cuda:1")
    w = torch.rand(8, 8, device="cuda:1", requires_grad=True)
    due = torch.autograd.grad(function(x, w), w)[0]
    for turn in range(2):
        torch._dynamo.reset()
        dynamo_counters.clear()
        called = graphs(function)
        for _ in range(3):
            torch.testing.assert_close(step(called, x, w), due)
        assert dynamo_counters["aot_autograd"]["autograd_cache_hit"] == turn
        assert (recorded(0), recorded(1)) == (None, 2)
    w.grad = None


def test_cudagraphs_aot_eager_compat_equal_device_one():
    def block(x):
        return torch.sigmoid(torch.nn.functional.dropout(x, 0.3)) * torch.randn_like(x)

    x = torch.rand(32, 32, device="cuda:1", requires_grad=True)
    due = seeded(stepper(without_graphs(checkpointed(block)), x))
    torch._dynamo.reset()
    assert_equal(seeded(stepper(graphs(checkpointed(block)), x)), due)
    assert skips() == 0
    assert recorded(0) is None


def test_what_is_on_two_devices_is_in_no_graph():
    called = graphs(lambda x, y: (x + 1, y + 2))
    x, y = torch.rand(4, device="cuda:0"), torch.rand(4, device="cuda:1")
    for _ in range(3):
        one, two = called(x, y)
        assert torch.equal(one, x + 1)
        assert torch.equal(two, y + 2)
    assert skips() == 1
    assert (recorded(0), recorded(1)) == (None, None)


def test_the_current_device_is_another_ones():
    called = graphs(lambda x: x @ x)
    x = torch.rand(64, 64, device="cuda:1")
    with torch.cuda.device(0):
        for result in thrice(called, x):
            torch.testing.assert_close(result, x @ x)
        assert torch.cuda.current_device() == 0
    assert (recorded(0), recorded(1)) == (None, 1)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_the_current_device_stays_the_callers(mode):
    """Also on a thread that has used no device yet."""
    x = torch.rand(64, 64, device="cuda:1")
    due = (x @ x).relu()
    called = torch.compile(lambda x: (x @ x).relu(), backend="kiln", mode=mode)
    found = []

    def call():
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            torch.testing.assert_close(called(x), due)
            found.append((torch.cuda.current_device(), torch.empty(1, device="cuda").device.index))

    call()
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert found == [(0, 0)] * 8


MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Linear(64, 512), nn.LayerNorm(512)
        self.b, self.c = nn.Linear(512, 512), nn.Linear(512, 16)
    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.n(self.a(x))))))

def make():
    torch.manual_seed(0)
    return Model(), torch.randn(32, 64)
"""

RANK = f"""
import json, sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import kiln
rank, store = int(sys.argv[1]), sys.argv[2]
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method=f"file://{{store}}", rank=rank, world_size=2)
{MODEL}
model, data = make()
model, data = model.to(rank), data[rank::2].contiguous().to(rank)
called = torch.compile(DistributedDataParallel(model), backend="kiln", mode="reduce-overhead")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    optimizer.zero_grad(set_to_none=True)
    called(data).square().mean().backward()
    grads = [p.grad.tolist() for p in model.parameters()]
    optimizer.step()
tree = kiln.graph_tree_state(rank)
other = kiln.graph_tree_state(1 - rank)
dist.barrier()
print(json.dumps({{
    "grads": grads, "recordings": tree["recordings"], "replays": tree["replays"],
    "state": tree["state"], "other": other, **kiln.counters,
}}))
dist.destroy_process_group()
"""


@pytest.fixture
def answers(tmp_path):
    folders = {"KILN_CACHE_DIR": str(tmp_path / "kiln")}
    ranks = [
        start(
            *(RANK, str(rank), str(tmp_path / "store")),
            **folders,
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path / f"torch{rank}"),
        )
        for rank in range(2)
    ]
    yield answers_of(ranks)
    end_daemons(tmp_path / "kiln")


def test_data_parallel_ranks_replay_and_have_the_gradients_of_the_whole_batch(answers):
    place = {"torch": torch, "nn": torch.nn}
    exec(MODEL, place)
    model, data = place["make"]()
    model, data = model.to("cuda:0"), data.to("cuda:0")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(6):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        due = [p.grad.clone() for p in model.parameters()]
        optimizer.step()
    assert answers[0]["grads"] == answers[1]["grads"]
    for got, expected in zip(answers[0]["grads"], due, strict=True):
        torch.testing.assert_close(torch.tensor(got), expected.cpu(), rtol=1e-4, atol=1e-5)
    for answer in answers:
        assert answer["recordings"] >= 2 and answer["replays"] >= 4 * 2
        assert answer["state"] == "execution"
        assert answer["other"] is None
        assert answer.get("cudagraph_skips", 0) == 0
        assert "eager_graphs" not in answer
