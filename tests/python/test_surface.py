"""kiln.config, kiln.counters, kiln.metrics, kiln.get_code, kiln.explain."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.exc import BackendCompilerFailed

import kiln
from kiln import backend
from processes import HERE, answer_of, daemons, end_daemons, run_kiln, start

PAGE = Path(__file__).resolve().parents[2] / "client" / "python" / "README.md"


def call(fn, *args, **options):
    torch._dynamo.reset()
    return torch.compile(fn, backend="kiln", **options)(*args)


def test_an_option_that_is_unknown_is_refused_by_name():
    with pytest.raises(AttributeError, match="nonsense"):
        kiln.config.nonsense = 1
    with pytest.raises(AttributeError, match="nonsense"):
        print(kiln.config.nonsense)
    with pytest.raises(TypeError, match="max_fusion_size"):
        kiln.config.max_fusion_size = "many"


def test_a_patch_lasts_for_its_block_or_its_function():
    @kiln.config.patch(max_fusion_size=3)
    def inside():
        return kiln.config.max_fusion_size

    with kiln.config.patch(max_fusion_size=2):
        assert kiln.config.max_fusion_size == 2
        assert inside() == 3
        assert kiln.config.max_fusion_size == 2
    assert kiln.config.max_fusion_size == 64


def test_a_patch_that_ends_takes_back_what_it_set_and_nothing_else():
    first, second = kiln.config.patch(max_fusion_size=2), kiln.config.patch(no_fusion=True)
    third = kiln.config.patch(max_fusion_size=3)
    for patch in (first, second, third):
        patch.__enter__()
    kiln.config.cache_tag = "set meanwhile"
    try:
        first.__exit__(None, None, None)
        assert (kiln.config.max_fusion_size, kiln.config.no_fusion) == (3, True)
        third.__exit__(None, None, None)
        assert (kiln.config.max_fusion_size, kiln.config.no_fusion) == (64, True)
        assert kiln.config.snapshot()["cache_tag"] == "set meanwhile"
    finally:
        second.__exit__(None, None, None)
        kiln.config.cache_tag = ""
    assert not kiln.config.no_fusion


def test_patches_of_two_threads_leave_each_others_values():
    begun, ended = threading.Event(), threading.Event()

    def work():
        with kiln.config.patch(no_fusion=True):
            begun.set()
            assert ended.wait(60)
            return kiln.config.no_fusion

    with ThreadPoolExecutor(1) as pool:
        with kiln.config.patch(max_fusion_size=2):
            done = pool.submit(work)
            assert begun.wait(60)
        ended.set()
        assert done.result()
    assert (kiln.config.max_fusion_size, kiln.config.no_fusion) == (64, False)


def test_options_reach_the_compiler():
    def fn(x):
        return F.relu(x).sum(1) + F.gelu(x).sum(1)

    x = torch.randn(8, 8)
    kiln.metrics.reset()
    call(fn, x)
    fused = kiln.metrics.launch_count
    kiln.metrics.reset()
    call(fn, x, options={"no_fusion": True})
    assert kiln.metrics.launch_count > fused > 0
    assert kiln.metrics.launch_count >= kiln.metrics.generated_kernel_count > 0
    assert kiln.metrics.num_bytes_accessed > 0


BOUNDS = {
    "max_fusion_size": (1, 4096),
    "persistent_max_row": (0, 1 << 20),
    "unroll_reductions_threshold": (1, 64),
}


@pytest.mark.parametrize("strict", ["0", "1"])
@pytest.mark.parametrize("name, bounds", BOUNDS.items(), ids=BOUNDS)
def test_an_option_out_of_bounds_is_an_error_with_its_name(name, bounds, strict, monkeypatch):
    monkeypatch.setenv("KILN_STRICT", strict)
    least, most = bounds
    for value in (-1, least - 1, most + 1, 1 << 32, 1 << 70):
        words = f"{name}: found {value}, expected {least} to {most}"
        with pytest.raises(ValueError, match=f"kiln.config.{words}"):
            setattr(kiln.config, name, value)
        with pytest.raises(BackendCompilerFailed, match=f"options: {words}"):
            call(lambda x: x + 1, torch.randn(3), options={name: value})
    for value in bounds:  # of the compiler too
        kiln.counters.clear()
        call(lambda x: x + 1, torch.randn(3), options={name: value, "cache_tag": strict})
        assert kiln.counters["compiles"] == 1


def test_reductions_below_the_threshold_are_computed_where_they_are_read():
    # Of two and of three elements: as reductions they share no kernel.
    def fn(x):
        return x[:300].reshape(100, 3).sum(1).exp() + x[300:].reshape(2, 100).amax(0)

    x = torch.randn(500)
    for threshold, alone in ((4, True), (1, False)):
        kiln.metrics.reset()
        call(fn, x, options={"unroll_reductions_threshold": threshold})
        assert kiln.metrics.launch_count == kiln.metrics.generated_kernel_count == (1 if alone else 2)


def test_a_cache_tag_that_is_too_long_is_an_error_with_its_name():
    with pytest.raises(ValueError, match="kiln.config.cache_tag: found 258 bytes, expected at most 256"):
        kiln.config.cache_tag = "é" * 129
    with kiln.config.patch(cache_tag="é" * 128):
        call(lambda x: x + 1, torch.randn(3))


def test_the_names_of_config_are_its_options():
    names = dir(kiln.config)
    assert {"max_fusion_size", "cache_tag", "max_autotune", "patch", "snapshot"} <= {*names}
    for name in names:
        getattr(kiln.config, name)


def test_every_option_is_known_to_type_checkers_with_its_type():
    defaults = {name: option.default for name, option in kiln.config.OPTIONS.items()}
    known = typing.get_type_hints(kiln.config)
    assert {name: known.get(name) for name in defaults} == {n: type(v) for n, v in defaults.items()}
    assert {name for name, kind in known.items() if kind in (int, bool, str, tuple)} == {*defaults}
    for name in ("patch", "snapshot"):
        assert name in vars(kiln.config)


def test_a_counter_that_there_is_not_is_an_error_with_those_that_are():
    with pytest.raises(KeyError, match="nonsense.*compiles, cache_hit"):
        kiln.counters["nonsense"]
    for name in kiln.counters.NAMES:
        assert kiln.counters[name] >= 0
        assert f"``{name}``" in type(kiln.counters).__doc__
    kiln.counters.clear()
    assert kiln.counters["compiles"] == 0 and not kiln.counters


def test_metrics_show_their_numbers():
    kiln.metrics.reset()
    kiln.metrics.add("launch_count", 3)
    assert "launch_count=3" in str(kiln.metrics) and "extern_call_count=0" in str(kiln.metrics)
    assert set(typing.get_type_hints(type(kiln.metrics))) == {*vars(kiln.metrics)}
    kiln.metrics.reset()
    assert "launch_count=0" in str(kiln.metrics)


MEASURED = """
import json, sys, torch, warnings
import kiln
from processes import ctl

def tuned():
    return int(ctl("stats")["counters"]["tuned"])

with warnings.catch_warnings():
    warnings.simplefilter("error", UserWarning)
    x = torch.randint(-4, 5, (64, 3001)).float()  # sums are exact in any order
    seen = []
    for how in ({}, {"mode": sys.argv[1]}, {"options": {"max_autotune": True}}):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(lambda x: x.sum(1), backend="kiln", **how)(x), x.sum(1))
        seen.append(tuned())
print(json.dumps(seen))
"""


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_a_mode_that_measures_has_the_daemon_measure_first(mode, folders):
    seen, _ = answer_of(start(MEASURED, mode, **HERE, **folders))
    assert seen == [0, 1, 1]  # the third finds a decision
    assert backend.MODES[mode].get("cudagraphs", False) == (mode == "max-autotune")


UNMEASURED = """
import json, torch, warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    x = torch.randn(64, 100)
    compiled = torch.compile(lambda x: x.sum(1), backend="kiln", options={"max_autotune": True})
    torch.testing.assert_close(compiled(x), x.sum(1))
print(json.dumps([str(w.message) for w in seen if "max_autotune" in str(w.message)]))
"""


def test_without_a_daemon_nothing_is_measured_and_a_warning_says_so(tmp_path):
    ((told,), _) = answer_of(start(UNMEASURED, KILN_ADDR=f"unix:{tmp_path}/none"))
    assert "max_autotune: " in told and "no daemon answered; only a daemon measures" in told


def test_modes_and_options_that_are_not_there_are_refused_by_name():
    with pytest.raises(Exception, match="mode 'nonsense': there is no such mode; expected one of default"):
        call(lambda x: x + 1, torch.randn(3), mode="nonsense")
    with pytest.raises(Exception, match="options: sise: there is no such option; expected one of"):
        call(lambda x: x + 1, torch.randn(3), options={"sise": 1})


def test_the_same_graph_again_is_a_cache_hit():
    x = torch.randn(3, 5)
    kiln.counters.clear()
    call(lambda x: torch.cos(x) * 3.25, x)
    assert (kiln.counters["compiles"], kiln.counters["cache_hit"]) == (1, 0)
    call(lambda x: torch.cos(x) * 3.25, x)
    assert (kiln.counters["compiles"], kiln.counters["cache_hit"]) == (1, 1)


def test_a_cache_tag_is_part_of_the_key():
    x = torch.randn(3, 5)
    kiln.counters.clear()
    for tag in ("one", "two"):
        call(lambda x: torch.sin(x) * 4.25, x, options={"cache_tag": tag})
    assert kiln.counters["compiles"] == 2


def test_explain_tells_what_is_refused_where_strict_makes_it_an_error(monkeypatch):
    assert os.environ["KILN_STRICT"] == "1"
    fn, x = lambda x: x * 2, torch.ones(2)
    # What this package takes and the compiler does not.
    option = kiln.config.OPTIONS["max_fusion_size"]._replace(most=100000)
    monkeypatch.setitem(kiln.config.OPTIONS, "max_fusion_size", option)
    with kiln.config.patch(max_fusion_size=100000):
        with pytest.warns(UserWarning, match="eager mode"):
            told = kiln.explain(fn, x)
        (graph,) = told.graphs
        assert "max_fusion_size" in graph.refusal and "max_fusion_size" in str(told)
        with pytest.raises(kiln.KilnError, match="max_fusion_size"):
            call(fn, x)


def test_get_code_gives_plan_and_sources():
    (code,) = kiln.get_code(lambda x: F.relu(x) + 1, torch.randn(4, 4))
    assert code.startswith("launch_plan")
    assert 'extern "C"' in code


@pytest.mark.parametrize("look", [kiln.explain, kiln.get_code], ids=["explain", "get_code"])
def test_what_cannot_be_called_is_not_looked_at(look):
    with pytest.raises(TypeError, match=f"kiln.{look.__name__}: found 3, expected a function or module"):
        look(3)


def test_get_code_says_when_nothing_was_compiled():
    x = torch.ones(3)
    with pytest.warns(UserWarning, match="kiln: get_code: no graph was compiled"):
        assert kiln.get_code(lambda x: x, x) == []
    with pytest.warns(UserWarning, match="get_code: PyTorch runs all .* kiln.explain says why"):
        assert kiln.get_code(lambda x: torch.fft.fft(x), x) == []


def run_python(text, **environment):
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


ADD = 'import torch; print(torch.compile(lambda x: x + 1, backend="kiln")(torch.zeros(2)).tolist())'


@pytest.mark.parametrize("name", ["KILN_DISABLE", "KILN_STRICT"])
def test_a_switch_is_0_or_1(name, monkeypatch):
    called = torch.compile(lambda x: x + 1, backend="kiln")
    monkeypatch.setenv(name, "no")
    with pytest.raises(Exception, match=f"{name}: found 'no', expected 0 or 1"):
        called(torch.zeros(2))
    monkeypatch.setenv(name, "false")
    assert called(torch.zeros(2)).tolist() == [1, 1]


def test_kiln_disable_is_eager_mode_whatever_else_is_set():
    done = run_python(ADD, KILN_DISABLE="1", KILN_ADDR="unix:/nowhere", KILN_OPTIONS="nonsense=1")
    assert done.returncode == 0, done.stderr
    assert "[1.0, 1.0]" in done.stdout
    assert "KilnError" not in done.stderr and "no daemon" not in done.stderr


@pytest.mark.parametrize(
    "words, due",
    [
        ("nonsense=1", "KILN_OPTIONS: nonsense: there is no such option"),
        ("max_fusion_size=-1", "KILN_OPTIONS: max_fusion_size: found -1, expected 1 to 4096"),
        ("max_fusion_size=many", "KILN_OPTIONS: max_fusion_size: found 'many', expected a number"),
        ("no_fusion=maybe", "KILN_OPTIONS: no_fusion: found 'maybe', expected 0 or 1"),
        ("no_fusion", "KILN_OPTIONS: found 'no_fusion', expected name=value"),
        ("max_fusion_sise=8", "KILN_OPTIONS: max_fusion_sise: there is no such option; did you mean"),
    ],
)
def test_kiln_options_that_are_wrong_are_one_clear_error(words, due):
    # PyTorch imports kiln when its backend is asked for.
    done = run_python(ADD if words == "nonsense=1" else "import kiln", KILN_OPTIONS=words)
    assert done.returncode != 0
    assert due in done.stderr


def test_the_page_tells_of_every_option_with_its_default_and_bounds():
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    told = {row[0].strip("| `"): row[1:3] for row in rows if len(row) == 4}
    due = {}
    for name, option in kiln.config.OPTIONS.items():
        bounds = "" if isinstance(option.default, (bool, tuple)) else f"{option.least} to {option.most}"
        if isinstance(option.default, str):
            bounds = f"at most {option.most} bytes"
        if option.words:
            bounds = ", ".join(f"`{word}`" for word in option.words)
        due[name] = [f'`"{option.default}"`' if option.default == "" else f"`{option.default}`"]
        due[name].append(bounds)
    assert told == due


def test_the_programs_are_at_hand():
    done = subprocess.run([sys.executable, "-m", "kiln", "version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("kiln 0.")


@pytest.mark.parametrize("words", [["ls"], ["purge", "--all", "--yes"]], ids=["ls", "purge"])
def test_the_cache_is_shown_and_purged_when_no_daemon_runs(folders, words):
    done = run_kiln("cache", *words, **folders)
    assert done.returncode == 0, done.stderr
    assert len(daemons(folders["KILN_CACHE_DIR"])) == 1


def test_a_daemon_that_is_named_is_not_started_for_the_cache(folders):
    done = run_kiln("cache", "ls", KILN_ADDR="unix:/nowhere/kilnd.sock", **folders)
    assert done.returncode == 1
    assert "kilnd at /nowhere/kilnd.sock" in done.stderr
    assert daemons(folders["KILN_CACHE_DIR"]) == []
    done = run_kiln("cache", "ls", KILN_ADDR="gopher", **folders)
    assert done.returncode == 1
    assert done.stderr.endswith("kiln: KILN_ADDR: found 'gopher', expected unix:/PATH or HOST:PORT\n")
    assert "Traceback" not in done.stderr


def test_a_command_without_its_words_lists_them():
    done = run_kiln("cache")
    assert done.returncode == 2
    assert "kiln: cache: unknown command; one of these is expected" in done.stderr
    assert "ls, show KEY, explain KEY, purge" in done.stderr


# Runs `python -m kiln` with PyTorch out of reach, and its package not installed.
WITHOUT_TORCH = """
import importlib.metadata, runpy, sys
sys.modules["torch"] = None
known = importlib.metadata.version
def version(name):
    if name == "torch":
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)
importlib.metadata.version = version
import kiln
kiln.config.max_fusion_size = 3
sys.argv[1:] = [WORD]
runpy.run_module("kiln", run_name="__main__")
"""


@pytest.mark.parametrize(
    "word, due",
    [("version", "kiln 0."), ("doctor", "-> pip install torch numpy\ngood    host compiler")],
)
def test_the_programs_are_at_hand_without_pytorch(word, due, folders):
    done = run_python(WITHOUT_TORCH.replace("WORD", repr(word)), **folders)
    assert done.returncode == 0, done.stderr
    assert due in done.stdout


def test_pytorch_is_imported_by_what_needs_it():
    names = "[getattr(kiln, name) for name in kiln.__all__]"
    done = run_python(
        "import sys, kiln, kiln.__main__; print('torch' in sys.modules, *kiln.__all__);"
        f"{names}; print('torch' in sys.modules, *dir(kiln))"
    )
    assert done.returncode == 0, done.stderr
    before, after = (line.split() for line in done.stdout.splitlines())
    assert (before[0], after[0]) == ("False", "True")
    assert {*before[1:]} <= {*after[1:]}


def test_doctor_says_in_lines_of_a_terminal_what_pip_can_do(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "kiln", "doctor"],
        env={
            **os.environ,
            "KILN_CACHE_DIR": str(tmp_path / "none"),
            "KILN_HOST_CC": "/nowhere/g++",  # where a worker is told to look
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "-> apt-get install g++  # or KILN_HOST_CC=" in done.stdout
    assert "deploy/" not in done.stdout and "./kiln" not in done.stdout
    assert "-> the first compile starts the daemon" in done.stdout
    wide = [line for line in done.stdout.splitlines() if len(line) > 80 and "->" not in line]
    assert all(len(max(line.split(), key=len)) > 50 for line in wide), done.stdout  # a path


@contextlib.contextmanager
def host_compiler(then, mode=0o755):
    """A compiler that does `then`, where a worker with a user of its own finds it if mode lets it."""
    with tempfile.TemporaryDirectory(prefix="kiln-compiler-") as folder:
        compiler = Path(folder, "g++")
        compiler.write_text(f"#!/bin/sh\n{then}\n")
        compiler.chmod(0o755)
        os.chmod(folder, mode)
        yield compiler


def compile_with(compiler, daemon, tmp_path):
    folders = {
        "KILN_CACHE_DIR": str(tmp_path / "kiln"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
    }
    if daemon == "none":
        folders["KILN_ADDR"] = "unix:/nowhere/kilnd.sock"
    try:
        return run_python(ADD, KILN_HOST_CC=str(compiler), **folders)
    finally:
        end_daemons(tmp_path / "kiln")


@pytest.mark.parametrize("daemon", ["its own", "none"])
def test_the_host_compiler_that_is_named_compiles(tmp_path, daemon):
    with host_compiler('exec /usr/bin/g++ "$@"') as compiler:
        done = compile_with(compiler, daemon, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[1.0, 1.0]" in done.stdout


@pytest.mark.parametrize("daemon", ["its own", "none"])
def test_no_other_compiler_stands_in_for_the_one_that_is_named(tmp_path, daemon):
    refuse = 'case " $* " in *" -shared "*) echo not today >&2; exit 1;; esac\n'
    with host_compiler(refuse + 'exec /usr/bin/g++ "$@"') as compiler:
        done = compile_with(compiler, daemon, tmp_path)
    assert done.returncode != 0
    assert "TOOLCHAIN_REJECTED" in done.stderr
    assert "not today" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a worker has its daemon's user but under root")
def test_a_compiler_that_the_workers_user_cannot_reach_is_named_with_the_user(tmp_path):
    with host_compiler('exec /usr/bin/g++ "$@"', mode=0o700) as compiler:
        done = compile_with(compiler, "its own", tmp_path)
    assert done.returncode != 0
    assert f"NO_TOOLCHAIN: host compiler {compiler}: Permission denied for user " in done.stderr
