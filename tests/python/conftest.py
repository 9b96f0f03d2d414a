"""Each test session has a daemon and caches of its own, and nothing falls back unseen.

--shard 2/4   a part of the tests: every fourth, from the second on
--quick       the most telling tests: QUICK
--tally FILE  adds what became of operators to FILE, and prints what all of FILE comes to
"""

import os
import pathlib
import signal
import tempfile
import threading
import types

import pytest

# Before kiln is imported by an entry point: the environment is read at the first compile.
_FOLDER = tempfile.mkdtemp(prefix="kiln-test-")
os.environ["KILN_CACHE_DIR"] = f"{_FOLDER}/kiln"
os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{_FOLDER}/torch"  # AOTAutograd's cache is there too
os.environ["KILN_STRICT"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
# A shell leaves interrupts ignored in what it starts beside itself; a test sends one.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

import operator_tally  # noqa: E402
import torch  # noqa: E402

from first_calls import let_threads_meet  # noqa: E402
from processes import end_daemons  # noqa: E402

# {file: words, one of which is in a test's name}; a number: every so many tests. Files that are not
# here run whole.
QUICK = {
    "test_models.py": ["[gpt2]", "[resnet_infer]", "[mlp_layernorm]", "dynamic_shapes", "comparison"],
    "test_service.py": ["second_process", "refused_graph", "again[9]", "forked"],
    "test_other_daemons.py": ["knows"],
    "test_versions.py": ["layouts", "allocator"],
    "test_travel.py": ["same_daemon", "cut_short", "long_compile"],
    "test_distributed.py": ["whole_batch"],
    "test_threads.py": ["share", "differentiate", "alone"],
    "test_fallbacks.py": ["warm", "sentence", "sympy"],
    "test_fork.py": ["warm"],
    "test_forms.py": ["[vmap]", "accumulate", "recompile", "marked", "found_in_data"],
    "test_scatter_upon_const.py": ["one_kernel", "shorter", "can_not"],
    "test_accuracy.py": 2,
    "test_broadcast_sizes.py": 2,
    "test_call_limits.py": 2,
    "test_distinct_results.py": 2,
    "test_indices.py": 3,
    "test_lost_daemon.py": 3,
    "test_names.py": 6,
    "test_numbers.py": 2,
    "test_offsets.py": 3,
    "test_random_masks.py": 2,
    "test_saved_tensors.py": 2,
    "test_operators.py": 19,
    "test_operator_gradients.py": 29,
}


def pytest_addoption(parser):
    parser.addoption("--shard", metavar="I/N", help="every Nth test, from the Ith on")
    parser.addoption("--quick", action="store_true", help="the most telling tests, in 5 minutes")
    parser.addoption("--tally", metavar="FILE", help="where to add what became of operators")


def _is_quick(item, number):
    wanted = QUICK.get(item.path.name)
    if wanted is None:
        return True
    if isinstance(wanted, int):
        return number % wanted == 0
    return any(word in item.name for word in wanted)


def pytest_collection_modifyitems(config, items):
    kept = list(items)
    if config.getoption("--quick"):
        numbers = {}
        for item in items:
            numbers.setdefault(item.path.name, []).append(item)
        kept = [i for i in kept if _is_quick(i, numbers[i.path.name].index(i))]
    if config.getoption("--shard"):
        first, step = map(int, config.getoption("--shard").split("/"))
        kept = kept[first - 1 :: step]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def _reset_dynamo():
    torch._dynamo.reset()
    # Threads that trace at once with a `dynamic` of their own restore Dynamo's switches in any order.
    torch._dynamo.config.assume_static_by_default = True
    torch._dynamo.config.automatic_dynamic_shapes = True


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """No test sees another's compiled code or random numbers, nor do those of other folders."""
    _reset_dynamo()
    torch.manual_seed(0)
    yield
    _reset_dynamo()


@pytest.fixture
def threads_meet():
    """Threads may make first calls at once."""
    undo = let_threads_meet()
    yield
    undo()


@pytest.fixture
def bench(monkeypatch):
    """The folder of the benchmarks, whose modules a test may import."""
    folder = pathlib.Path(__file__).parents[2] / "bench"
    if not folder.exists():
        pytest.skip("bench/ is not in the GPU bundle; CI has it")
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture(scope="module")
def tally(request):
    """Takes outcomes of operators; judges them together when the file's tests have run."""
    seen = []
    yield seen.append
    path = request.config.getoption("--tally")
    if path:
        operator_tally.append(path, seen)
    if hasattr(request.config, "workeroutput"):  # one of several processes
        rows = [outcome.as_dict() for outcome in seen]
        request.config.workeroutput.setdefault("tally", []).extend(rows)
    else:
        operator_tally.check_share(seen)


_parts = []  # of all processes


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    _parts.extend(getattr(node, "workeroutput", {}).get("tally", []))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Judges together what several processes saw."""
    for kind in {row["kind"] for row in _parts}:
        seen = [types.SimpleNamespace(**row) for row in _parts if row["kind"] == kind]
        try:
            operator_tally.check_share(seen)
        except AssertionError as error:
            print(f"\n{kind}: {error}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    path = config.getoption("--tally")
    if path and os.path.exists(path):
        terminalreporter.write_line(operator_tally.summary(operator_tally.read(path)))


def pytest_unconfigure(config):
    """Ends the daemon of the session and removes its cache."""
    import shutil
    import subprocess

    found = subprocess.run(
        ["pgrep", "-f", f"kilnd .*--data-folder {_FOLDER}"], capture_output=True, text=True
    )
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGTERM)
    shutil.rmtree(_FOLDER, ignore_errors=True)


@pytest.fixture
def folders(tmp_path):
    """A cache of Kiln's and one of AOTAutograd's that are empty, as the environment of a process."""
    yield {
        "KILN_CACHE_DIR": str(tmp_path / "kiln"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
    }
    end_daemons(tmp_path / "kiln")


@pytest.fixture
def refused_options(monkeypatch):
    """Options that the service refuses, and the client here lets through."""
    from kiln import config

    loose = config.OPTIONS["max_fusion_size"]._replace(most=1 << 20)
    monkeypatch.setitem(config.OPTIONS, "max_fusion_size", loose)
    return {"max_fusion_size": 100000}


@pytest.fixture
def full_precision(monkeypatch):
    """Eager mode's convolutions on a GPU round their factors to TF32 unless told not to."""
    if torch.cuda.is_available():
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
