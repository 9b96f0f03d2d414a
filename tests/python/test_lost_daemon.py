"""A program whose daemon goes, and programs that start while one is going."""

import fcntl
import os
import time
from pathlib import Path

from processes import answer_of, daemon_with_port, daemons, end_daemons, start, stats_of

# Compiles; ends the daemons that it is told of; then compiles on four threads at once.
ENDED = """
import json, os, signal, sys, threading, torch
import kiln
from processes import daemons

def compiled(number):
    fn = eval(f"lambda x: torch.sin(x) * {number}")  # code that Dynamo has not seen
    return torch.compile(fn, backend="kiln")(torch.ones(8))

compiled(1.5)
for pid in [int(pid) for pid in sys.argv[1:]] or daemons(os.environ["KILN_CACHE_DIR"]):
    os.kill(pid, signal.SIGKILL)
threads = [threading.Thread(target=compiled, args=(n + 2.5,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps({**kiln.counters}))
"""
# Starts beside others.
ONCE = """
import json, torch
import kiln
torch.compile(lambda x: torch.sin(x) + 3, backend="kiln")(torch.ones(8))
print(json.dumps({**kiln.counters}))
"""
_PATHS = [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
HERE = {"PYTHONPATH": os.pathsep.join(filter(None, _PATHS))}


def wait_until(reached):
    give_up = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_compiles_that_find_the_daemon_gone_at_once_start_one(folders, tmp_path):
    done, errors = answer_of(start(ENDED, **HERE, **folders))
    assert done["compiles"] == 5
    assert "local_compiles" not in done, errors
    assert len(daemons(tmp_path / "kiln")) == 1
    assert stats_of(folders)["jobs.done"] == 4


def test_the_next_daemon_of_a_list_is_asked_when_the_first_goes(folders):
    with daemon_with_port() as first, daemon_with_port() as second:
        addresses = f"unix:{first.socket}, {second.address}"
        keys = {"KILN_ADDR": addresses, "KILN_PUBLIC_KEY": f"{first.key},{second.key}"}
        done, errors = answer_of(start(ENDED, str(first.pid), **keys, **HERE, **folders))
        assert done["compiles"] == 5
        assert "local_compiles" not in done, errors
        assert second.jobs() == 4


def test_a_program_that_starts_while_a_daemon_ends_gets_one_of_its_own(folders, tmp_path):
    folder = tmp_path / "kiln"
    answer_of(start(ONCE, **folders))
    end_daemons(folder)
    wait_until(lambda: not daemons(folder))
    (lock,) = folder.rglob("LOCK")
    log = folder / "kilnd.log"
    with open(lock, "r+b") as held:  # as the daemon that ends holds it
        fcntl.lockf(held, fcntl.LOCK_EX)
        program = start(ONCE.replace("+ 3", "+ 4"), **folders)
        wait_until(lambda: "LOCK is held" in log.read_text())
    done, errors = answer_of(program)
    assert done["compiles"] == 1
    assert "local_compiles" not in done, errors


def test_daemons_that_ended_leave_neither_a_socket_nor_its_lock(folders, tmp_path):
    folders["XDG_RUNTIME_DIR"] = str(tmp_path)
    answer_of(start(ONCE, **folders))
    assert list((tmp_path / "kiln").glob("*.sock.lock"))
    end_daemons(tmp_path / "kiln")
    wait_until(lambda: not daemons(tmp_path / "kiln"))
    assert not list((tmp_path / "kiln").glob("*.sock*"))
