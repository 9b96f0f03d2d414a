"""The daemon, from the program's side: warm starts, many ranks, an early death, threads."""

import os
import signal
import subprocess
import sys
import warnings

import pytest
import torch

import kiln
from kiln import service
from kiln.torch_inside import keeps_any_backend
from processes import answer_of, daemons, start, stats_of, without_privilege

TRAIN = """
import json, sys, torch, torch.nn as nn, torch.nn.functional as F
import kiln
from torch._dynamo.utils import counters as dynamo
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = nn.Linear(24, 40), nn.LayerNorm(40), nn.Linear(40, 5)
    def forward(self, x):
        return self.b(F.dropout(F.gelu(self.n(self.a(x))), 0.1))
torch.manual_seed(0)
model, x = Model(), torch.randn(12, 24)
called = torch.compile(model, backend="kiln")
for step in range(3):
    loss = called(x).square().mean(); model.zero_grad(); loss.backward()
print(json.dumps({"loss": float(loss), "grad": float(model.a.weight.grad.sum()), **kiln.counters,
                  "traced": dynamo["aot_autograd"]["autograd_cache_miss"],
                  "inductor": "torch._inductor.select_algorithm" in sys.modules}))
"""

# Kiln and eager mode train a model each. Kiln's daemon gets a signal between two steps, and graphs
# of another size are due after that.
KILLED = """
import copy, json, os, subprocess, sys, torch, torch.nn as nn
import kiln
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 40), nn.LayerNorm(40), nn.GELU(), nn.Linear(40, 5))
twin = copy.deepcopy(model)

def trainer(model, called):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step(x):
        optimizer.zero_grad()
        loss = called(x).square().mean()
        loss.backward()
        optimizer.step()
        return float(loss)
    return step

mine, eager = trainer(model, torch.compile(model, backend="kiln")), trainer(twin, twin)
losses, due, killed = [], [], 0
for number in range(6):
    if number == 3:
        before = kiln.counters["compiles"]
        words = ["pgrep", "-f", f"kilnd .*--data-folder {os.environ['KILN_CACHE_DIR']}"]
        for pid in subprocess.run(words, capture_output=True, text=True).stdout.split():
            os.kill(int(pid), int(sys.argv[1]))
            killed += 1
    x = torch.randn(12 if number < 4 else 7, 24)
    losses.append(mine(x))
    due.append(eager(x))
print(json.dumps({"losses": losses, "due": due, "killed": killed, "before": before,
                  **kiln.counters}))
"""


def test_a_second_process_compiles_nothing_and_traces_nothing(folders):
    traces = int(keeps_any_backend())  # torch 2.9 keeps none of ours, and counts none
    cold, _ = answer_of(start(TRAIN, **folders))
    assert cold["compiles"] == 2 and cold["traced"] == traces
    warm, _ = answer_of(start(TRAIN, **folders))
    assert "compiles" not in warm
    assert warm["cache_hit"] == 2
    assert warm["traced"] == 0
    assert (warm["loss"], warm["grad"]) == (cold["loss"], cold["grad"])


def test_a_daemon_that_outlives_its_program_is_no_warning(folders):
    _, errors = answer_of(start(TRAIN, **folders))  # -W always
    assert len(daemons(folders["KILN_CACHE_DIR"])) == 1
    assert "ResourceWarning" not in errors


def test_a_daemon_that_ended_is_waited_for_when_another_is_started(monkeypatch, tmp_path):
    monkeypatch.setattr(service, "_launched", [])
    monkeypatch.setattr(service, "program", lambda name: "/bin/true")
    for _ in range(2):
        service._launch(tmp_path / "socket", tmp_path).wait()
    assert len(service._launched) == 1


def test_a_warm_start_imports_no_code_generator_of_inductors(folders):
    answer_of(start(TRAIN, **folders))
    warm, _ = answer_of(start(TRAIN, **folders))
    assert not warm["inductor"]


@pytest.mark.skipif(not keeps_any_backend(), reason="torch 2.9 keeps no trace of another backend")
def test_an_entry_of_other_options_is_not_taken(folders):
    answer_of(start(TRAIN, **folders))
    other, _ = answer_of(start(TRAIN, KILN_OPTIONS="no_fusion=1", **folders))
    assert other["traced"] == 1
    assert other["compiles"] == 2


def test_a_purged_artifact_is_compiled_again(folders):
    answer_of(start(TRAIN, **folders))
    subprocess.run(
        [sys.executable, "-m", "kiln", "cache", "purge", "--all", "--yes"],
        env={**os.environ, **folders},
        check=True,
        capture_output=True,
    )
    again, _ = answer_of(start(TRAIN, **folders))
    assert again["compiles"] == 2


def test_four_ranks_that_start_cold_compile_each_graph_once(folders, tmp_path):
    # Each has an AOTAutograd cache of its own, as on four machines.
    ranks = [
        start(TRAIN, **{**folders, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"torch{rank}")})
        for rank in range(4)
    ]
    answers = [answer_of(rank)[0] for rank in ranks]
    assert len({answer["loss"] for answer in answers}) == 1
    assert sum(answer.get("compiles", 0) for answer in answers) == 2
    assert len(daemons(tmp_path / "kiln")) == 1
    stats = stats_of(folders)
    assert stats["jobs.started"] == stats["jobs.done"] == 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_daemon_that_is_killed_in_mid_training_is_started_again(folders, tmp_path, how):
    done, errors = answer_of(start(KILLED, str(int(how)), **folders))
    assert done["killed"] == 1
    assert len(done["losses"]) == len(done["due"]) == 6
    torch.testing.assert_close(
        torch.tensor(done["losses"]), torch.tensor(done["due"]), rtol=1e-4, atol=1e-5
    )
    assert done["before"] == 2 and done["compiles"] == 4
    assert "local_compiles" not in done
    assert "own worker" not in errors
    assert len(daemons(tmp_path / "kiln")) == 1
    assert stats_of(folders)["jobs.done"] == 2


def test_without_any_daemon_a_worker_of_the_process_compiles_after_a_warning(folders):
    done, errors = answer_of(start(TRAIN, KILN_ADDR="unix:/nowhere/kilnd.sock", **folders))
    assert done["local_compiles"] == 2
    assert errors.count("no daemon answers at unix:/nowhere/kilnd.sock") == 1


def test_a_worker_of_the_process_leaves_no_file_behind(folders, tmp_path):
    (tmp_path / "temp").mkdir()
    without = {"KILN_ADDR": "unix:/nowhere/kilnd.sock", "TMPDIR": str(tmp_path / "temp")}
    count = "import os; seen = os.listdir(os.environ['TMPDIR'])"
    fork = "child = os.fork(); sys.exit() if child == 0 else os.waitpid(child, 0)"
    after = "left = os.listdir(os.environ['TMPDIR']); print(json.dumps([seen, left]))"
    (seen, left), _ = answer_of(start("\n".join([TRAIN, count, fork, after]), **folders, **without))
    assert [name for name in seen if name.startswith("kiln-")]
    assert left == seen
    assert os.listdir(tmp_path / "temp") == []


def test_a_worker_that_could_not_compile_leaves_no_file_behind(folders, tmp_path):
    (tmp_path / "temp").mkdir()
    without = {"KILN_HOST_CC": "/nowhere/cc", "TMPDIR": str(tmp_path / "temp")}
    done, errors = answer_of(start(TRAIN, KILN_STRICT="0", **folders, **without))
    assert done["eager_graphs"] == 2, errors
    assert "NO_TOOLCHAIN" in errors
    assert os.listdir(tmp_path / "temp") == []


def test_why_no_daemon_can_be_reached_is_told_of_each_address(folders, tmp_path):
    socket = tmp_path / "shut" / "kilnd.sock"
    socket.parent.mkdir(mode=0o000)
    process = start(
        TRAIN,
        before=without_privilege(),
        KILN_ADDR=f"unix:{socket},unix:/nowhere/kilnd.sock",
        **folders,
    )
    _, errors = answer_of(process)
    assert f"at unix:{socket} (Permission denied), unix:/nowhere/kilnd.sock (No such" in errors


def test_the_first_daemon_of_a_list_that_answers_is_taken(folders):
    own = service.own_daemon()
    done, errors = answer_of(
        start(TRAIN, KILN_ADDR=f"unix:/nowhere/kilnd.sock, unix:{own}", **folders)
    )
    assert "local_compiles" not in done
    assert "no daemon" not in errors


def test_a_cache_folder_that_cannot_be_written_is_a_warning(folders, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done, errors = answer_of(start(TRAIN, **{**folders, "KILN_CACHE_DIR": str(blocked / "kiln")}))
    assert done["local_compiles"] == 2
    due = f"KILN_CACHE_DIR: {blocked}/kiln cannot be written (Not a directory): name another folder"
    assert f"kiln: no daemon: {due}" in errors


def test_a_cache_folder_that_may_only_be_read_is_a_warning(folders, tmp_path):
    (tmp_path / "kiln").mkdir(mode=0o500)
    done, errors = answer_of(start(TRAIN, before=without_privilege(), **folders))
    assert done["local_compiles"] == 2
    assert f"KILN_CACHE_DIR: {tmp_path}/kiln cannot be written (Permission denied)" in errors


def test_an_address_that_is_none_is_a_clear_error(folders):
    process = start(TRAIN, KILN_ADDR="gopher", **folders)
    _, errors = process.communicate(timeout=500)
    assert process.returncode != 0
    assert "KILN_ADDR: found 'gopher', expected unix:/PATH or HOST:PORT" in errors


def test_a_child_that_was_forked_runs_in_eager_mode_after_a_warning(monkeypatch):
    called = torch.compile(lambda x: x * 2 + 1, backend="kiln")
    x = torch.ones(3)
    called(x)
    monkeypatch.setenv("KILN_STRICT", "0")
    child = os.fork()
    if child == 0:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            right = called(x).tolist() == [3.0] * 3
        told = [str(w.message) for w in seen if "forked" in str(w.message)]
        os._exit(0 if right and len(told) == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert called(x).tolist() == [3.0] * 3


def test_a_refused_graph_is_an_error_when_strict_and_eager_with_one_warning_when_not(
    monkeypatch, refused_options
):
    def fn(x):
        return x * 2

    with pytest.raises(kiln.KilnError, match="max_fusion_size"):
        torch.compile(fn, backend="kiln", options=refused_options)(torch.ones(2))
    torch._dynamo.reset()
    monkeypatch.setenv("KILN_STRICT", "0")
    called = torch.compile(fn, backend="kiln", options=refused_options)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            assert called(torch.ones(2)).tolist() == [2.0, 2.0]
    told = [str(w.message) for w in seen if "eager" in str(w.message)]
    assert len(told) == 1 and "max_fusion_size" in told[0]


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files of others")
def test_a_folder_that_another_user_made_first_is_refused(tmp_path):
    taken = tmp_path / "kiln-0"
    taken.mkdir()
    os.chown(taken, 65534, 65534)
    with pytest.raises(OSError, match="user 65534"):
        with service._locked(taken / "start.lock"):
            pass


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files of others")
def test_a_cache_folder_of_another_user_is_refused(monkeypatch, tmp_path):
    os.chown(tmp_path, 65534, 65534)
    monkeypatch.setenv("KILN_CACHE_DIR", str(tmp_path))
    with pytest.raises(OSError, match="belongs to user 65534, expected 0; name a folder of your own"):
        service.own_daemon()
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_the_daemons_log_is_not_followed(monkeypatch, tmp_path):
    treasure = tmp_path / "treasure"
    treasure.write_text("all of it")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "kilnd.log").symlink_to(treasure)
    monkeypatch.setenv("KILN_CACHE_DIR", str(cache))
    with pytest.raises(OSError, match="KILN_CACHE_DIR"):
        service.own_daemon()
    assert treasure.read_text() == "all of it"


def test_a_cache_folder_of_others_files_is_left_as_it_is(monkeypatch, tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    tmp_path.chmod(0o755)
    monkeypatch.setenv("KILN_CACHE_DIR", str(tmp_path))
    with pytest.raises(OSError, match="found 'thesis.tex' and no file of a kilnd's; name a new or empty"):
        service.own_daemon()
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    # One that a daemon has used is its own, whatever else is there.
    (tmp_path / "signing.key").touch()
    service._check_ours(tmp_path, tmp_path / "kilnd.sock")


def test_a_link_in_the_place_of_the_lock_cuts_nothing_short(tmp_path):
    treasure = tmp_path / "treasure"
    treasure.write_text("all of it")
    (tmp_path / "start.lock").symlink_to(treasure)
    with pytest.raises(OSError, match="name another folder"):
        with service._locked(tmp_path / "start.lock"):
            pass
    assert treasure.read_text() == "all of it"
