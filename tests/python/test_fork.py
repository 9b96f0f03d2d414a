"""A child that was forked after a compile goes on, in PyTorch."""

import pytest

from kiln.torch_inside import keeps_any_backend
from processes import answer_of, end_daemons, start

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


@pytest.fixture
def folders(tmp_path):
    yield {
        "KILN_CACHE_DIR": str(tmp_path / "kiln"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
    }
    end_daemons(tmp_path / "kiln")


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
    assert "runs in eager mode: the process was forked after the compile" in words
