"""A program whose daemon goes, and programs that start while one is going."""

import fcntl
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from processes import HERE, answer_of, daemon_with_port, daemons, end_daemons, start, stats_of

# Compiles; ends the daemons that it is told of; then compiles on four threads at once.
ENDED = """
import json, os, signal, sys, threading, torch
import kiln
from first_calls import let_threads_meet
from processes import daemons

let_threads_meet()

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
# Compiles before there is a daemon; tells of it; waits for the word that there is one; compiles again.
EARLY = """
import json, torch
import kiln
torch.compile(lambda x: torch.sin(x) + 3, backend="kiln")(torch.ones(8))
print(json.dumps({**kiln.counters}), flush=True)
input()
torch.compile(lambda x: torch.cos(x) + 3, backend="kiln")(torch.ones(8))
print(json.dumps({**kiln.counters}))
"""
# Tells how long a compile took, and of what it was warned.
TIMED = """
import json, time, warnings, torch
import kiln
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    begun = time.monotonic()
    torch.compile(lambda x: torch.sin(x) + 9.125, backend="kiln")(torch.ones(8))
    seconds = time.monotonic() - begun
print(json.dumps({**kiln.counters, "seconds": seconds, "told": [str(w.message) for w in seen]}))
"""
# Compiles four graphs, one after another, beside a daemon that does not answer: from the first word
# on, or once it has said who it is.
SILENT = """
import json, os, socket, sys, tempfile, threading, warnings
from concurrent import futures
import grpc, torch
import kiln
from kiln import wire

asked, end = [], threading.Event()

class Daemon(grpc.GenericRpcHandler):
    def service(self, call):
        name = call.method.rpartition("/")[2]
        asked.append(name)
        return grpc.unary_unary_rpc_method_handler(self.who if name == "Describe" else self.wait)
    def who(self, request, context):
        return wire.text(1, "0.1.0") + wire.data(2, bytes(range(32)))
    def wait(self, request, context):
        end.wait()
        return b""

def take(listener):
    while True:
        asked.append(listener.accept()[0])

with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
    path = f"{folder}/kilnd.sock"
    if sys.argv[1] == "a word":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        threading.Thread(target=take, args=(listener,), daemon=True).start()
    else:
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Daemon()])
        server.add_insecure_port(f"unix:{path}")
        server.start()
    os.environ["KILN_ADDR"] = f"unix:{path}"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(4):
            fn = eval(f"lambda x: torch.sin(x) * {n}.5")  # code that Dynamo has not seen
            got = torch.compile(fn, backend="kiln")(torch.ones(8))
            torch.testing.assert_close(got, fn(torch.ones(8)))
    end.set()
told = [str(warning.message) for warning in seen if "kiln" in str(warning.message)]
asked = [word if isinstance(word, str) else "connection" for word in asked]
print(json.dumps({"asked": asked, "told": told, **kiln.counters}))
"""


def wait_until(reached):
    give_up = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_compiles_that_find_the_daemon_gone_at_once_start_one(folders, tmp_path):
    done, errors = answer_of(start(ENDED, **HERE, **folders))
    assert done["compiles"] == 5, errors
    assert "local_compiles" not in done, errors
    assert len(daemons(tmp_path / "kiln")) == 1
    assert stats_of(folders)["jobs.done"] == 4


def test_the_next_daemon_of_a_list_is_asked_when_the_first_goes(folders):
    with daemon_with_port() as first, daemon_with_port() as second:
        addresses = f"unix:{first.socket}, {second.address}"
        keys = {"KILN_ADDR": addresses, "KILN_PUBLIC_KEY": f"{first.key},{second.key}"}
        done, errors = answer_of(start(ENDED, str(first.pid), **keys, **HERE, **folders))
        assert done["compiles"] == 5, errors
        assert "local_compiles" not in done, errors
        # Which of the two was asked before that goes by the request and their addresses.
        assert second.jobs() in (4, 5)


def lock_left_in(folder, folders):
    """The file that a daemon locks as long as it has the folder, after one has ended."""
    answer_of(start(ONCE, **folders))
    end_daemons(folder)
    wait_until(lambda: not daemons(folder))
    (lock,) = folder.rglob("LOCK")
    return lock


def test_a_program_that_starts_while_a_daemon_ends_gets_one_of_its_own(folders, tmp_path):
    folder = tmp_path / "kiln"
    lock = lock_left_in(folder, folders)
    log = folder / "kilnd.log"
    with open(lock, "r+b") as held:  # as the daemon that ends holds it
        fcntl.lockf(held, fcntl.LOCK_EX)
        program = start(ONCE.replace("+ 3", "+ 4"), **folders)
        wait_until(lambda: "LOCK is held" in log.read_text())
    done, errors = answer_of(program)
    assert done["compiles"] == 1
    assert "local_compiles" not in done, errors


def test_who_compiles_without_the_daemon_is_told_what_keeps_it_from_starting(folders, tmp_path):
    lock = lock_left_in(tmp_path / "kiln", folders)
    with open(lock, "r+b") as held:  # as another kilnd on this folder holds it
        fcntl.lockf(held, fcntl.LOCK_EX)
        done, errors = answer_of(start(ONCE.replace("+ 3", "+ 5"), **folders))
    assert done["local_compiles"] == 1
    assert "its LOCK is held by another process; stop that one or use another folder" in errors


def test_a_named_daemon_that_comes_up_later_is_asked_from_then_on(folders, tmp_path):
    path = Path(tempfile.mkdtemp(prefix="kiln-")) / "kilnd.sock"  # short enough for a socket
    program = start(EARLY, stdin=subprocess.PIPE, KILN_ADDR=f"unix:{path}", **folders)
    first = json.loads(program.stdout.readline())
    assert (first["compiles"], first["local_compiles"]) == (1, 1)
    with daemon_with_port() as daemon:
        path.symlink_to(daemon.socket)
        out, errors = program.communicate("\n", timeout=300)
        assert program.returncode == 0, errors
        second = json.loads(out.splitlines()[-1])
        assert (second["compiles"], second["local_compiles"]) == (2, 1)
        assert daemon.jobs() == 1
    assert errors.count("own worker") == 1, errors
    path.unlink()
    path.parent.rmdir()


def test_daemons_that_ended_leave_neither_a_socket_nor_its_lock(folders, tmp_path):
    with tempfile.TemporaryDirectory(prefix="kiln-") as runtime:  # short enough for a socket
        folders["XDG_RUNTIME_DIR"] = runtime
        answer_of(start(ONCE, **folders))
        sockets = Path(runtime, "kiln")
        assert list(sockets.glob("*.sock.lock"))
        end_daemons(tmp_path / "kiln")
        wait_until(lambda: not daemons(tmp_path / "kiln"))
        assert not list(sockets.glob("*.sock*"))


def test_a_cache_may_be_the_folder_of_the_sockets(folders):
    with tempfile.TemporaryDirectory(prefix="kiln-") as runtime:
        cache = Path(runtime, "kiln")
        folders |= {"XDG_RUNTIME_DIR": runtime, "KILN_CACHE_DIR": str(cache)}
        compiles = []
        for _ in range(2):  # a daemon of its own each
            done, errors = answer_of(start(ONCE, **folders))
            assert done.get("local_compiles", 0) == 0, errors
            compiles.append(done.get("compiles", 0))
            end_daemons(cache)
            wait_until(lambda: not daemons(cache))
        assert compiles == [1, 0]


@pytest.mark.parametrize(
    ("silent_about", "due"),
    [
        ("a word", ["connection", "connection"]),  # whether somebody listens; who that is
        ("what it has", ["Describe", "Lookup"]),
    ],
)
def test_a_daemon_that_does_not_answer_is_asked_by_one_compile_of_many(folders, silent_about, due):
    done, _ = answer_of(start(SILENT, silent_about, **folders))
    assert done["asked"] == due
    assert done["local_compiles"] == done["compiles"] == 4
    assert len(done["told"]) == 1, done["told"]
    assert "own worker" in done["told"][0]
    assert "does not answer; the next try is in 1m" in done["told"][0]


def test_a_daemon_that_stops_in_the_middle_of_a_compile_is_given_up_after_its_heartbeat(
    folders, monkeypatch
):
    with tempfile.TemporaryDirectory(prefix="kiln-compiler-") as folder:
        slow = Path(folder, "g++")  # of the daemon's workers alone
        slow.write_text(
            '#!/bin/sh\ncase "$1" in --version | -print*) exec g++ "$@";; esac\nsleep 1000\n'
        )
        slow.chmod(0o755)
        os.chmod(folder, 0o755)
        with monkeypatch.context() as patch:
            patch.setenv("KILN_HOST_CC", str(slow))
            context = daemon_with_port()
            daemon = context.__enter__()
        try:
            program = start(TIMED, KILN_ADDR=f"unix:{daemon.socket}", **folders)
            wait_until(lambda: daemon.jobs() == 1)
            os.kill(daemon.pid, signal.SIGSTOP)
            done, errors = answer_of(program)
        finally:
            os.kill(daemon.pid, signal.SIGKILL)
            context.__exit__(None, None, None)
    assert (done["compiles"], done["local_compiles"]) == (1, 1), errors
    (told,) = [words for words in done["told"] if "kiln" in words]
    assert "does not answer" in told
