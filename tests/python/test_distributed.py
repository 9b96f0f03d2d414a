"""Several processes that train together: DistributedDataParallel and collectives, over gloo."""

import copy

import pytest
import torch
from torch import nn
from processes import answers_of, end_daemons, start, stats_of

RANKS = 4

# A class of its own: DistributedDataParallel breaks the graph before it calls the module, and
# Dynamo begins no graph in a frame of PyTorch's, as those of nn.Sequential are.
MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = nn.Linear(12, 32), nn.LayerNorm(32), nn.Linear(32, 3)
    def forward(self, x):
        return self.b(self.n(torch.nn.functional.gelu(self.a(x))))

def make():
    torch.manual_seed(0)
    return Model(), torch.randn(32, 12)
"""

START = f"""
import json, sys, torch, torch.distributed as dist
from torch import nn
import kiln
rank, store, ranks = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{{store}}", rank=rank, world_size=ranks)
{MODEL}
"""

DATA_PARALLEL = START + """
from torch.nn.parallel import DistributedDataParallel
model, data = make()
called = torch.compile(DistributedDataParallel(model), backend="kiln")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    optimizer.zero_grad()
    called(data[rank::4].contiguous()).square().mean().backward()
    grads = [p.grad.tolist() for p in model.parameters()]
    optimizer.step()
dist.barrier()
print(json.dumps({"grads": grads, **kiln.counters}))
dist.destroy_process_group()
"""

# Of 1.6 MB: Dynamo compiles each of the two buckets, of 1 MB and of the rest, by itself.
LARGE = START + """
import copy
from torch.nn.parallel import DistributedDataParallel

class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Linear(12, 512), nn.BatchNorm1d(512)
        self.b, self.c = nn.Linear(512, 512), nn.Linear(512, 256)
    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.n(self.a(x))))))

def steps(model, called):
    optimizer, seen = torch.optim.SGD(model.parameters(), 0.1), []
    for step in range(3):
        optimizer.zero_grad()
        result = called(torch.randn(8, 12, generator=torch.Generator().manual_seed(10 * step + rank)))
        result.square().mean().backward()
        seen += [result.detach(), *(p.grad.clone() for p in model.parameters())]
        optimizer.step()
    return [*seen, *map(torch.clone, model.buffers())]

def compiled(model):
    return torch.compile(model, backend="kiln")

torch.manual_seed(0)
first, second, third = Large(), Large(), Large()
second.load_state_dict(first.state_dict()), third.load_state_dict(first.state_dict())
due = steps(first, DistributedDataParallel(first))
graphs = []
for model, nested in [
    (second, lambda: compiled(DistributedDataParallel(second))),
    (third, lambda: DistributedDataParallel(compiled(third))),
]:
    torch._dynamo.reset()
    before = kiln.counters.get("cache_miss", 0) + kiln.counters.get("cache_hit", 0)
    torch.testing.assert_close(steps(model, nested()), due)
    graphs.append(kiln.counters.get("cache_miss", 0) + kiln.counters.get("cache_hit", 0) - before)
dist.barrier()
print(json.dumps({"graphs": graphs, **kiln.counters}))
dist.destroy_process_group()
"""

COLLECTIVES = START + """
from torch.distributed import _functional_collectives as functional
group = dist.group.WORLD

def fn(x):
    y = torch.relu(x) * 2
    total = functional.all_reduce(y + 1, "sum", group)
    whole = functional.all_gather_tensor(y, 0, group)
    return total / 4 + y.mean(), whole.sum(0) * 3

x = torch.arange(6.0).reshape(2, 3) + rank
got, due = torch.compile(fn, backend="kiln", fullgraph=True)(x), fn(x)
for one, other in zip(got, due): torch.testing.assert_close(one, other)
hosts = kiln.explain(fn, x).host_kernels
dist.barrier()
results = [t.tolist() for t in got]
print(json.dumps({"results": results, "hosts": sorted(hosts.values()), **kiln.counters}))
dist.destroy_process_group()
"""


@pytest.fixture
def run_ranks(tmp_path):
    """Runs a program in every rank; each has an AOTAutograd cache of its own, as on four machines.
    Gives what they say and the daemon's counters."""
    folders = {"KILN_CACHE_DIR": str(tmp_path / "kiln")}

    def run(text, count=RANKS):
        ranks = [
            start(
                text,
                str(rank),
                str(tmp_path / "store"),
                str(count),
                **folders,
                TORCHINDUCTOR_CACHE_DIR=str(tmp_path / f"torch{rank}"),
            )
            for rank in range(count)
        ]
        answers = answers_of(ranks)
        return answers, stats_of(folders)

    yield run
    end_daemons(tmp_path / "kiln")


def eager_gradients():
    """Of the third step, in one process with the whole batch."""
    place = {"torch": torch, "nn": nn}
    exec(MODEL, place)
    model, data = place["make"]()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        grads = [copy.deepcopy(p.grad) for p in model.parameters()]
        optimizer.step()
    return grads


def test_data_parallel_ranks_have_the_gradients_of_the_whole_batch(run_ranks):
    answers, stats = run_ranks(DATA_PARALLEL)
    for answer in answers[1:]:
        assert answer["grads"] == answers[0]["grads"]
    for got, due in zip(answers[0]["grads"], eager_gradients(), strict=True):
        torch.testing.assert_close(torch.tensor(got), due)
    # A forward and a backward, each compiled once for all ranks.
    assert sum(answer.get("compiles", 0) for answer in answers) == 2
    assert all("eager_graphs" not in answer for answer in answers)
    assert stats["jobs.started"] == stats["jobs.done"] == 2


def test_models_that_dynamo_cuts_into_buckets_train_inside_and_around_data_parallel(run_ranks):
    answers, _ = run_ranks(LARGE, count=2)
    for answer in answers:
        # Forwards and backwards of the buckets, in both nestings.
        assert answer["graphs"] == [4, 4]
        assert "eager_graphs" not in answer


def test_functional_collectives_are_host_kernels_of_a_whole_graph(run_ranks):
    answers, _ = run_ranks(COLLECTIVES)
    for answer in answers:
        assert answer["results"][1] == answers[0]["results"][1]
        for name in ("all_reduce", "all_gather_into_tensor", "wait_tensor"):
            assert any(name in why for why in answer["hosts"]), answer["hosts"]
        assert "eager_graphs" not in answer
