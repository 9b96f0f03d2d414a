"""The two optimizations that Kiln began with, test by test, at their own sizes.

Each session has a daemon and a cache of its own: those of tests/python, where that runs with it.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest

# Before kiln is imported by an entry point: the environment is read at the first compile.
_FOLDER = None
if not os.environ.get("KILN_CACHE_DIR", "").startswith(f"{tempfile.gettempdir()}/kiln-test-"):
    _FOLDER = tempfile.mkdtemp(prefix="kiln-test-")
    os.environ["KILN_CACHE_DIR"] = f"{_FOLDER}/kiln"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{_FOLDER}/torch"
os.environ["KILN_STRICT"] = "1"

import torch  # noqa: E402

import kiln  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def device():
    """The GPU where there is one."""
    return DEVICE


def leave_nans():
    """PyTorch's allocator hands blocks out next that hold NaN: to plans too, whose memory it is, and
    which fill nothing that they do not have to."""
    if DEVICE == "cuda":
        most = torch.cuda.mem_get_info()[0] * 2 // 3
        sizes = [min(most, 24 << 30), *[512 << 10] * 64]
        held = [torch.full((size // 4,), torch.nan, device=DEVICE) for size in sizes]
        del held


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Nothing that was compiled or counted before; memory that is not written is NaN."""
    leave_nans()
    torch._dynamo.reset()
    torch.manual_seed(0)
    kiln.counters.clear()
    kiln.metrics.reset()
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = filled
    torch._dynamo.reset()


def pytest_unconfigure(config):
    if _FOLDER is None or hasattr(config, "workerinput"):
        return
    import shutil

    from processes import end_daemons

    end_daemons(_FOLDER)
    shutil.rmtree(_FOLDER, ignore_errors=True)
