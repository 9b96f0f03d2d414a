"""Waits until a worker of the daemon is at work and prints its process id.

usage: busy_worker.py SOCKET COMPILECTL

Prints nothing when none was seen at work within five seconds.
"""
import json
import signal
import subprocess
import sys
import time


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends without a word when the demo is stopped
    socket, compilectl = sys.argv[1:3]
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up:
        answer = subprocess.run([compilectl, "--socket", socket, "workers", "-o", "json"],
                                capture_output=True, text=True)
        if answer.returncode != 0:
            continue
        for worker in json.loads(answer.stdout)["workers"]:
            if worker["state"] in ("planning", "building"):
                print(worker["pid"])
                return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
