"""One compiled function called by many threads at once, each with inputs of its own."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch import nn

import kiln
from kiln.compiled_graph import CompiledGraph, recording
from processes import answer_of, start

THREADS = 8


def at_once(work):
    """What `work` gives for each of THREADS numbers, begun together on a thread each."""
    begin = threading.Barrier(THREADS)

    def one(number):
        begin.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def in_a_thread(work, *args):
    """What `work` gives in a thread that ends then."""
    done = Future()
    thread = threading.Thread(target=lambda: done.set_result(work(*args)))
    thread.start()
    thread.join()
    return done.result(timeout=0)


def traced(fn, *args, **options):
    """`fn` compiled, as a first call in a thread left it."""
    called = torch.compile(fn, backend="kiln", fullgraph=True, **options)
    in_a_thread(called, *args)
    return called


def gradient(fn, x):
    """The result and the gradient of its sum, of an input that nobody else has."""
    x = x.detach().clone().requires_grad_()
    y = fn(x)
    y.sum().backward()
    return y.detach(), x.grad


def test_a_thread_for_each_call_gets_the_result_of_its_own_input():
    def fn(x):
        return F.softmax(x * 3, -1) + 1

    inputs = [torch.randn(5, 9) + number for number in range(30)]
    called = traced(fn, inputs[0])
    kiln.counters.clear()
    results = [None] * len(inputs)

    def work(number):
        results[number] = called(inputs[number])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.testing.assert_close(results, [fn(x) for x in inputs])
    assert kiln.counters == {}


def test_threads_with_sizes_of_their_own_get_their_own_results():
    def fn(x, w):
        return torch.relu(x @ w) + x.shape[0]

    w = torch.randn(12, 20)
    inputs = [[torch.randn(3 + 5 * i + j, 12) for j in range(12)] for i in range(THREADS)]
    called = traced(fn, inputs[0][0], w, dynamic=True)
    results = at_once(lambda number: [called(x, w) for x in inputs[number]])
    torch.testing.assert_close(results, [[fn(x, w) for x in row] for row in inputs])


def test_threads_that_differentiate_get_their_own_gradients():
    layer = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32))
    for parameter in layer.parameters():  # the threads share them: no sums of gradients
        parameter.requires_grad_(False)
    inputs = [[torch.randn(2 + 3 * i + j, 16) for j in range(6)] for i in range(THREADS)]
    called = torch.compile(layer, backend="kiln", dynamic=True)
    in_a_thread(gradient, called, inputs[0][0])
    results = at_once(lambda number: [gradient(called, x) for x in inputs[number]])
    due = [[gradient(layer, x) for x in row] for row in inputs]
    torch.testing.assert_close(results, due, rtol=1e-4, atol=1e-5)


def test_threads_that_train_models_of_their_own_give_eager_modes_parameters():
    models = [nn.Linear(6, 4) for _ in range(THREADS)]
    twins = [nn.Linear(6, 4) for _ in range(THREADS)]
    for model, twin in zip(models, twins):
        twin.load_state_dict(model.state_dict())
    batches = [torch.randn(10, 6) for _ in range(THREADS)]

    def loss(x, weight, bias):
        return torch.tanh(F.linear(x, weight, bias)).square().mean()

    called = torch.compile(loss, backend="kiln", fullgraph=True)
    in_a_thread(lambda: called(batches[0], models[0].weight, models[0].bias).backward())

    def train(fn, model, batch):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(5):
            optimizer.zero_grad()
            fn(batch, model.weight, model.bias).backward()
            optimizer.step()
        return list(model.parameters())

    got = at_once(lambda number: train(called, models[number], batches[number]))
    due = [train(loss, *both) for both in zip(twins, batches)]
    torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-5)


def test_threads_that_mutate_write_their_own_inputs():
    def fn(x, y):
        x.mul_(2).add_(y)
        return x.sum()

    pairs = [(torch.randn(64, 8), torch.randn(64, 8)) for _ in range(THREADS)]
    twins = [(x.clone(), y.clone()) for x, y in pairs]
    called = traced(fn, torch.randn(64, 8), torch.randn(64, 8))
    sums = at_once(lambda number: [called(*pairs[number]) for _ in range(5)])
    due = [[fn(x, y) for _ in range(5)] for x, y in twins]
    torch.testing.assert_close(sums, due, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(pairs, twins)


def test_threads_that_come_cold_share_one_compile(threads_meet):
    def fn(x):
        return torch.tanh(x) * 13 - x.sum(-1, keepdim=True)

    inputs = [torch.randn(33, 7) for _ in range(THREADS)]
    called = torch.compile(fn, backend="kiln", options={"cache_tag": "cold"})
    kiln.counters.clear()
    results = at_once(lambda number: called(inputs[number]))
    torch.testing.assert_close(results, [fn(x) for x in inputs])
    # Each may trace it; the daemon compiles it once.
    assert kiln.counters["compiles"] == 1


def test_threads_whose_sizes_make_a_graph_dynamic_get_their_own_results(threads_meet):
    # The second size that comes, whichever it is, has the graph traced again. (So may those that
    # wait for that trace: Dynamo asks them for nothing when their turn comes. The first size is
    # compiled before they come, or all might wait for it.)
    def fn(x):
        return F.gelu(x) * x.shape[0]

    inputs = [torch.randn(4 + number, 6) for number in range(THREADS)]
    called = torch.compile(fn, backend="kiln")
    called(inputs[0])
    kiln.counters.clear()
    results = at_once(lambda number: called(inputs[number]))
    torch.testing.assert_close(results, [fn(x) for x in inputs])
    assert kiln.counters["recompiles"] >= 1


# The first trace of a process is done in a thread that ends, the second in another one.
TRACED_BY_THREADS = """
import json, threading, torch
called = [torch.compile(lambda x, k=k: torch.cos(x) * k, backend="kiln") for k in range(3)]
x, results = torch.ones(2), []
for fn in called:
    thread = threading.Thread(target=lambda: results.append(fn(x).tolist()))
    thread.start()
    thread.join()
due = [(torch.cos(x) * k).tolist() for k in range(3)]
print(json.dumps({"right": torch.allclose(torch.tensor(results), torch.tensor(due))}))
"""


def test_a_process_whose_threads_alone_trace_goes_on():
    done, _ = answer_of(start(TRACED_BY_THREADS))
    assert done["right"]


def test_threads_that_come_while_a_compile_is_under_way_share_it(monkeypatch):
    # Beneath Dynamo: all have one graph, whose compile has not ended when they call it.
    held, compile_ = threading.Event(), CompiledGraph._compile

    def slow(graph, exported):
        held.wait()
        return compile_(graph, exported)

    monkeypatch.setattr(CompiledGraph, "_compile", slow)

    def fn(x):
        return torch.tanh(x) * 11 - x.sum(-1, keepdim=True)

    inputs = [torch.randn(33, 7) for _ in range(THREADS)]
    options = {"cache_tag": "under way"}
    called = torch.compile(fn, backend="kiln", dynamic=False, options=options)
    kiln.counters.clear()
    with recording() as graphs, torch._functorch.config.patch(enable_autograd_cache=False):
        first = threading.Thread(target=called, args=(inputs[0],))
        first.start()
        while not graphs:
            first.join(0.01)
        (graph,) = graphs
        threading.Timer(0.2, held.set).start()
        results = at_once(lambda number: graph([inputs[number]]))
        first.join()
    torch.testing.assert_close([y for (y,) in results], [fn(x) for x in inputs])
    assert kiln.counters["compiles"] == 1


# 65 threads of PyTorch's; a pool of Kiln's own would have as many.
ON_MANY_THREADS = """
import json, os, torch
torch.set_num_threads(65)
x = torch.randn(2048, 2048)
due = (x * 2).sum(1)
before = len(os.listdir("/proc/self/task"))
y = torch.compile(lambda x: (x * 2).sum(1), backend="kiln")(x)
added = len(os.listdir("/proc/self/task")) - before
print(json.dumps({"before": before, "added": added, "right": torch.allclose(y, due, atol=1e-3)}))
"""


def test_kernels_run_on_the_threads_of_pytorch():
    done, _ = answer_of(start(ON_MANY_THREADS))
    assert done["right"]
    assert done["before"] >= 65 and done["added"] < 64, done
