"""A child that was forked after a compile goes on, in PyTorch."""

import pytest

from kiln.torch_inside import keeps_any_backend
from processes import answer_of, start

PROGRAM = """
import json, os, signal, warnings
import torch, torch.nn.functional as F
import kiln
torch.manual_seed(0)
torch.set_num_threads(1)  # of PyTorch itself, a forked child waits for threads of its parent

def fn(x, w, k):
    y = F.gelu(x @ w).softmax(-1)
    return F.conv2d(y.view(1, 2, 8, 8), k).relu().sum((2, 3))

x, w = torch.randn(8, 32), torch.randn(32, 16, requires_grad=True)
k = torch.randn(3, 2, 3, 3)
called = torch.compile(fn, backend="kiln")
due = called(x, w, k).detach()  # its backward may still be compiled

def in_child():
    return [called(x, w, k) for _ in range(20)], [due] * 20

reader, writer = os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(60)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got, wanted = in_child()
    right = all(torch.allclose(g, d, rtol=1e-3, atol=1e-4) for g, d in zip(got, wanted))
    told = [str(w.message) for w in seen if "kiln" in str(w.message)]
    os.write(writer, json.dumps({"right": right, "told": told, **kiln.counters}).encode())
    os._exit(0)
os.close(writer)
said = os.read(reader, 1 << 16).decode()
status = os.waitpid(child, 0)[1]
called(x, w, k).sum().backward()  # the parent goes on
print(json.dumps({"status": status, **json.loads(said or "{}")}))
"""


@pytest.mark.parametrize("start_of", ["cold", "warm"])
def test_a_forked_child_runs_in_pytorch_after_one_warning_also_what_came_from_a_cache(
    folders, start_of
):
    done, _ = answer_of(start(PROGRAM, **folders))
    if start_of == "warm":
        done, _ = answer_of(start(PROGRAM, **folders))
        assert not keeps_any_backend() or "compiles" not in done
    assert (done["status"], done["right"]) == (0, True)
    (words,) = done["told"]
    assert "runs in eager mode: the process was forked after the compile: start children" in words


# Forked while other threads hold each lock of a module, and the collector is held back.
NEW_GRAPHS = """
import gc, json, os, signal, sys, threading, warnings
import torch
import kiln
torch.set_num_threads(1)
usual = gc.get_threshold()

def first(x):
    return torch.tanh(x) + 3

def fn(x):
    return torch.relu(x) * 2 + x.shape[0]

x = torch.randn(8, 32)
torch.compile(first, backend="kiln")(x)
modules = "artifacts aot_cache background compiled_graph config counters recompiles run_seeds"
locks = [
    lock
    for name in [*modules.split(), "service"]
    for lock in vars(sys.modules["kiln." + name]).values()
    if hasattr(lock, "_at_fork_reinit")
]
held, over = threading.Event(), threading.Event()

def hold():
    for lock in locks: lock.acquire()
    held.set()
    over.wait()
    for lock in locks: lock.release()

holder = threading.Thread(target=hold)
holder.start()
held.wait()
kiln.rare_collections._begin(None)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(60)
    # Autograd's threads, which start together, break PyTorch's own pool that the fork left else.
    torch.set_num_threads(1)
    said, right, told = "", [], []
    collected = gc.get_threshold()
    called = torch.compile(fn, backend="kiln")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            right = [torch.equal(called(x), fn(x)) for _ in range(20)]
            y = x.clone().requires_grad_()
            called(y).sum().backward()
            right.append(torch.equal(y.grad, (x > 0) * 2.0))
        except OSError as error:
            said = str(error)
    told = [str(w.message) for w in seen if "kiln" in str(w.message)]
    answer = {"said": said, "right": right, "told": told, "usual": collected == usual}
    os.write(writer, json.dumps({**answer, **kiln.counters}).encode())
    os._exit(0)
over.set()
holder.join()
kiln.rare_collections._end(None)
os.close(writer)
said = os.read(reader, 1 << 16).decode()
status = os.waitpid(child, 0)[1]
right = torch.equal(torch.compile(fn, backend="kiln")(x), fn(x))  # the parent goes on
answer = {"status": status, "parent": right, "locks": len(locks)}
print(json.dumps({**answer, **json.loads(said or "{}")}))
"""
# With a GPU in sight Dynamo asks CUDA for its generator's state before any backend is called, which
# PyTorch refuses in a forked child.
ON_A_CPU = {"CUDA_VISIBLE_DEVICES": ""}
REFUSED = (
    "this process is a forked child, and cannot use its parent's kiln session, whose threads and "
    "connections are not here: start children with multiprocessing's spawn or forkserver"
)


def test_a_new_graph_in_a_forked_child_runs_in_pytorch_after_a_warning_whatever_is_locked(folders):
    done, errors = answer_of(start(NEW_GRAPHS, KILN_STRICT="0", **ON_A_CPU, **folders))
    assert (done["status"], done["parent"], done["locks"]) == (0, True, 10), errors
    assert done["right"] == [True] * 21 and done["usual"]
    # Without gradients, with them, and the gradients.
    assert [words.partition(": ")[2].partition(": ")[2] for words in done["told"]] == [
        f"OSError: {REFUSED}"
    ] * 3
    assert done["eager_graphs"] == 3


def test_a_new_graph_in_a_forked_child_is_an_error_when_strict(folders):
    done, errors = answer_of(start(NEW_GRAPHS, KILN_STRICT="1", **ON_A_CPU, **folders))
    assert (done["status"], done["parent"]) == (0, True), errors
    assert done["said"] == REFUSED
    assert "eager_graphs" not in done
