"""python -m kiln: the C++ tools of the wheel, and programs that know only Inductor.

python -m kiln run SCRIPT WORDS... runs a program whose torch.compile is Kiln's where it names Inductor
                                   or nothing; -m MODULE instead of SCRIPT; torchrun ... -m kiln run too
python -m kiln doctor              looks whether compiles can work here
python -m kiln cache WORDS...      what the cache holds: ls, show KEY, explain KEY, purge --all
python -m kiln ctl WORDS...        compilectl on the daemon in use: stats, jobs, ...; --help: all
python -m kiln version             of this package; ctl version: the daemon's, and its public key
python -m kiln help

The daemon in use is KILN_ADDR's, or your own. Exit status: 0 done, 1 failed, 2 used wrongly.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys

from . import service, settings


def compilectl(words: list[str] | None = None) -> None:
    """Becomes compilectl, which asks the daemon that compiles would ask. Never returns."""
    given = sys.argv[1:] if words is None else words
    path = service.program("compilectl")
    address = service.address_in_use()
    if settings.is_socket(address):
        os.environ.setdefault("KILN_SOCKET", settings.path_of(address))
    elif not {"--socket", "--tcp"} & set(given):
        keys = settings.public_keys() or [b""]
        given = ["--tcp", address, "--public-key", keys[0].hex(), *given]
    for name in settings.SHOWN:
        os.environ.setdefault(name, settings.named(name) or "")
    # Doctor looks where a daemon's workers would.
    os.execve(path, [path, *given], service.daemon_environment())


def _named() -> bool:
    """Whether a daemon is named, which may be anybody's."""
    return bool(os.environ.get("KILN_SOCKET") or settings.named_addresses())


def _start_own_daemon(words: list[str]) -> None:
    """The cache is asked of the daemon: the user's own is started, if it is the one to ask."""
    if any(word.startswith(("--socket", "--tcp", "--help")) for word in words):
        return
    if not _named():
        service.own_daemon()
    elif not os.environ.get("KILN_SOCKET"):
        settings.check_trusted(service.address_in_use())


def _tell_of_pytorch() -> None:
    """A row as compilectl's, which knows no Python."""
    try:
        row = f"good    PyTorch           {importlib.metadata.version('torch')}"
    except importlib.metadata.PackageNotFoundError:
        row = f"absent  PyTorch           nothing can be compiled\n{'':26}-> pip install torch numpy"
    print(row, flush=True)


def _run_program(words: list[str]) -> None:
    """As ``python SCRIPT WORDS...`` or ``python -m MODULE WORDS...``."""
    import runpy

    from .inductors_place import replace_inductor

    replace_inductor()
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
    runpy.run_path(words[0], run_name="__main__")


def _run(words: list[str]) -> int:
    if words[:1] == ["run"] and words[1:] not in ([], ["-m"]):
        if words[1] != "-m" and not os.path.exists(words[1]):
            print(f"kiln: run: {words[1]}: no such program", file=sys.stderr)
            return 2
        _run_program(words[1:])
        return 0
    if words[:1] == ["doctor"]:
        if not words[1:]:
            _tell_of_pytorch()
        # Another's daemon keeps its data elsewhere.
        own = [] if _named() else ["--data-folder", str(service.data_folder())]
        compilectl([*words, *own])
    if words[:1] in (["cache"], ["ctl"]) and words[1:]:
        if words[0] == "cache":
            _start_own_daemon(words[1:])
        compilectl(words[1:])
    if words[:1] in (["version"], ["--version"]):
        print(f"kiln {service.version()}")
        return 0
    asked = words[:1] in (["help"], ["--help"], ["-h"])
    if words[:1] == ["run"]:
        print("kiln: run: expected a SCRIPT or -m MODULE", file=sys.stderr)
    elif words[:1] in (["cache"], ["ctl"]):
        print(f"kiln: {words[0]}: unknown command; one of these is expected", file=sys.stderr)
    elif words and not asked:
        print(f"kiln: {words[0]}: no such command", file=sys.stderr)
    print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def main() -> int:
    """The command line; the exit status."""
    if sys.argv[1:2] == ["run"]:  # its errors are the program's own
        return _run(sys.argv[1:])
    try:
        return _run(sys.argv[1:])
    except (OSError, ValueError) as error:  # no daemon can be started; a wrong KILN_ADDR
        print(f"kiln: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
