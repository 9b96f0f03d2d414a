"""Programs and daemons of tests, as processes of their own."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from kiln import service


# The environment of a program that imports modules of this folder, wherever pytest was started.
HERE = {
    "PYTHONPATH": os.pathsep.join(
        filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
    )
}


def without_privilege():
    """What stands before a command for whom a folder's mode is to count; root needs it."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--inh-caps=-dac_override,-dac_read_search", "--bounding-set=-dac_override,-dac_read_search"]


def start(text, *words, before=(), stdin=None, **environment):
    return subprocess.Popen(
        [*before, sys.executable, "-W", "always", "-c", text, *words],
        env={**os.environ, **environment},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer_of(process):
    out, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1]), errors


def answers_of(processes):
    """Of processes that wait for each other: what all print is read, and when one has failed the
    others are ended."""
    with ThreadPoolExecutor(len(processes)) as readers:
        answers = [readers.submit(answer_of, process) for process in processes]
        ended, others = wait(answers, return_when=FIRST_EXCEPTION)
        for process in processes if others else ():
            process.kill()
    for answer in ended:
        answer.result()  # the first failure, if there is one
    return [answer.result()[0] for answer in answers]


def daemons(folder):
    found = subprocess.run(
        ["pgrep", "-f", f"kilnd .*--data-folder {folder}"], capture_output=True, text=True
    )
    return [int(pid) for pid in found.stdout.split()]


def end_daemons(folder):
    for pid in daemons(folder):
        os.kill(pid, 15)


def stats_of(folders):
    done = subprocess.run(
        [sys.executable, "-m", "kiln", "ctl", "-o", "json", "stats"],
        env={**os.environ, **folders},
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        name: int(number) for name, number in re.findall(r'"([a-z_.]+)":\s*"?(\d+)', done.stdout)
    }


def run_kiln(*words, **environment):
    """``python -m kiln``, once it has ended."""
    return subprocess.run(
        [sys.executable, "-m", "kiln", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def ctl(*words, **environment):
    """What ``python -m kiln ctl`` says, parsed."""
    done = subprocess.run(
        [sys.executable, "-m", "kiln", "ctl", "-o", "json", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


class Daemon:
    """A kilnd with a cache of its own behind a port of this machine, as on another one: without
    TLS, or as ``more`` words say."""

    def __init__(self, folder, *more):
        with socket.socket() as probe:  # a port that is free now
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.socket = str(Path(folder) / "kilnd.sock")
        self.log = Path(folder) / "log"
        words = ["--socket", self.socket, "--tcp", self.address, "--data-folder", f"{folder}/data"]
        words += more or ["--tcp-plain"]
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen([service.program("kilnd"), *words], stderr=log)
        while not service._answers(self.address):
            assert self._process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        self.pid = self._process.pid
        self.key = self.ask("version")["public_key"]

    def ask(self, *words):
        return ctl(*words, KILN_ADDR=f"unix:{self.socket}")

    def counters(self):
        return self.ask("stats")["counters"]

    def jobs(self):
        return self.counters()["jobs.started"]

    def end(self):
        self._process.terminate()
        self._process.wait()


@contextlib.contextmanager
def daemon_with_port():
    folder = tempfile.mkdtemp(prefix="kiln-")  # short enough for a socket's path
    daemon = Daemon(folder)
    try:
        yield daemon
    finally:
        daemon.end()
        shutil.rmtree(folder, ignore_errors=True)
