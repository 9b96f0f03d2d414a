"""The daemon and the sessions of this process.

Where a daemon is, settings.py says (``unix:/path``, ``host:port``, or a list of those: each compile
has its own among them, and the next where that one is gone); where nothing is set, a daemon of the
user's own, started at the first use and idle-stopped by itself, and started again by a compile that
finds it gone. When no daemon answers, a session compiles in a worker process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from . import _native, settings
from .background import begin
from .forked import open_in_child
from .telling import tell

if TYPE_CHECKING:  # python -m kiln does without
    import torch

_FOLDER = Path(__file__).resolve().parent / "_bin"
_FALLBACK_LOCAL_WORKER, _LOCAL_ONLY = 1, 2
_DEVICES = {"cpu": 0, "cuda": 1}
_START_SECONDS = 20.0
_PROBE_SECONDS = 1.0
_COMPILE_DEADLINE_MS = 120_000
_IDLE_EXIT_S = 900
_LOG = "kilnd.log"
# What a daemon of this or an earlier build has in its folder (kOwnFiles of server/daemon.cc).
_OWN_FILES = ("signing.key", "records", "cache", "audit.log", _LOG, "sources")
# Errors that a worker's end leaves.
_ENDED = ("WORKER_DIED", "JOB_POISONED")
# What a kilnd ends with that finds its folder or socket another's (kilnd_main.cc), and how long before
# it is tried again.
_EXIT_IN_USE = 3
_IN_USE_SECONDS = 0.3
# What compilers and drivers are found by.
_FOR_WORKERS = (
    *("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES"),
    *("KILN_CUDA_LIBRARY_PATH", "KILN_HOST_CC", "KILN_NVRTC"),
)

_lock = open_in_child(threading.Lock())
_loading = open_in_child(threading.Lock())  # taken after _lock
_sessions: dict[tuple[str, int], object] = {}
_launched: list[subprocess.Popen] = []  # the daemons that this process started, until they end
_shelf: object | None = None
# Another number in a child that was forked: threads and connections are not there any more.
process = 0


def _after_fork() -> None:
    global process
    process += 1
    _native.abandon()


os.register_at_fork(after_in_child=_after_fork)


def program(name: str) -> str:
    """The path of a program of the wheel: kilnd, kiln-worker, compilectl."""
    return str(_FOLDER / name)


def load_library() -> None:
    """Opens libkiln.so, once a process. ImportError when torch has no way for tensors to cross."""
    import torch

    global _shelf
    with _loading:
        if _shelf is None:
            _native.load(str(_FOLDER / "libkiln.so"), torch.Tensor)
            _shelf = _native.new_shelf()


def data_folder() -> Path:
    """Where the user's own daemon keeps its cache: ``KILN_CACHE_DIR``, or the state folder."""
    named = os.environ.get("KILN_CACHE_DIR")
    if named:
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "kiln"


def _own_socket() -> Path:
    # A socket's path has 107 bytes at most, so it does not stand in the data folder; one daemon a
    # data folder, since the database has one writer.
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) / "kiln" if runtime else Path(f"/tmp/kiln-{os.getuid()}")
    if not os.environ.get("KILN_CACHE_DIR"):
        return base / "kilnd.sock"
    tag = hashlib.sha256(str(data_folder()).encode()).hexdigest()[:16]
    return base / f"kilnd-{tag}.sock"


def address_in_use() -> str:
    """The address that compiles would ask; nothing is started."""
    named = settings.named_addresses()
    if not named:
        return f"unix:{_own_socket()}"
    return next((address for address in named if _answers(address)), named[0])


def version() -> str:
    """Of the package that is installed."""
    return importlib.metadata.version("kiln")


@functools.cache
def build_number() -> str:
    """Another one for each build of the package: its Python and its programs."""
    digest = hashlib.sha256()
    for path in sorted(_FOLDER.parent.glob("*.py")):
        digest.update(path.read_bytes())
    for name in ("libkiln.so", "kiln-worker"):
        stat = (_FOLDER / name).stat()
        digest.update(f"{name} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()


def _refusal(address: str) -> str | None:
    """Why nobody can be reached there; None when somebody listens."""
    try:
        if settings.is_socket(address):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(_PROBE_SECONDS)
                probe.connect(settings.path_of(address))
        else:
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS).close()
    except BlockingIOError:  # it is behind with taking connections
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None


def _answers(address: str) -> bool:
    """Whether somebody listens there."""
    return _refusal(address) is None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time: ranks that start together start one daemon."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.check_own(path.parent)
        # Nothing is cut short, and nothing opened through a link, that another user put there.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OSError(f"XDG_RUNTIME_DIR: {path.parent} {_cannot_be_written(error)}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def daemon_environment() -> dict[str, str]:
    """This process's own, with the folders where PyTorch's wheels keep CUDA's libraries."""
    environment = dict(os.environ)
    torch_ = importlib.util.find_spec("torch")
    site = Path(torch_.origin).resolve().parent.parent if torch_ else _FOLDER.parent.parent
    folders = sorted(str(folder) for folder in site.glob("nvidia/*/lib"))
    if folders:
        environment.setdefault("KILN_CUDA_LIBRARY_PATH", ":".join(folders))
    return environment


def with_log(error: _native.Error) -> _native.Error:
    """An error, with where the user's own daemon tells more of a worker that ended."""
    code, reason, message = error.args
    log = data_folder() / _LOG
    if reason not in _ENDED or settings.named("KILN_ADDR") or not log.exists():
        return error
    return _native.Error(code, reason, f"{message}; the daemon's log: {log}")


def _check_ours(folder: Path, path: Path) -> None:
    """OSError for another user's folder, and for one with files, none of them a daemon's, which would
    close it to others. The daemon's socket, at ``path``, and locks may lie there. kilnd looks too, but
    takes the log that is put there for its own."""
    try:
        owner = folder.stat().st_uid
        names = set(os.listdir(folder))
    except OSError:  # none yet, or one that cannot be used: what comes next says why
        return
    if owner != os.geteuid():
        raise OSError(
            f"KILN_CACHE_DIR: {folder} belongs to user {owner}, expected {os.geteuid()}; name a folder "
            "of your own"
        )
    beside = {path.name, f"{path.name}.lock", path.with_suffix(".lock").name}
    names -= beside if folder == path.parent else set()
    if names and not names & {*_OWN_FILES}:
        raise OSError(
            f"KILN_CACHE_DIR: {folder}: found {min(names)!r} and no file of a kilnd's; name a new or "
            "empty folder"
        )


def _launch(path: Path, folder: Path) -> subprocess.Popen:
    command = [program("kilnd"), "--socket", str(path), "--data-folder", str(folder)]
    command += ["--idle-exit-s", str(_IDLE_EXIT_S)]
    _check_ours(folder, path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        log = open(os.open(folder / _LOG, flags, 0o600), "ab")
    except OSError as error:
        raise OSError(f"KILN_CACHE_DIR: {folder} {_cannot_be_written(error)}") from None
    with log:
        daemon = subprocess.Popen(
            command,
            env=daemon_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _launched[:] = [one for one in _launched if one.poll() is None] + [daemon]
    return daemon


@atexit.register
def _let_go() -> None:
    """The program ends, its daemons do not: nobody waits for them, as Popen would have it."""
    for daemon in _launched:
        if daemon.poll() is None:
            daemon.returncode = 0


def _cannot_be_written(error: OSError) -> str:
    return f"cannot be written ({error.strerror or error}): name another folder"


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _said(log: Path, begin: int) -> str:
    """The last that a kilnd said which did not start."""
    lines = log.read_bytes()[begin:].decode(errors="replace").splitlines()
    return next(filter(None, reversed(lines)), "")


def own_complaint() -> str:
    """The last that the user's own daemon said, where the one that this process started failed; else
    empty."""
    if settings.named_addresses() or not any(daemon.poll() for daemon in _launched):
        return ""
    try:
        return _said(data_folder() / _LOG, 0)
    except OSError:
        return ""


def _start_daemon(path: Path) -> None:
    folder, deadline = data_folder(), time.monotonic() + _START_SECONDS
    log = folder / _LOG
    begin = _size_of(log)
    daemon = _launch(path, folder)
    while not _answers(f"unix:{path}"):
        late = time.monotonic() > deadline
        ended = daemon.poll() is not None
        if ended and daemon.returncode == _EXIT_IN_USE and not late:
            time.sleep(_IN_USE_SECONDS)  # one that ends answers nobody any more
            begin = _size_of(log)
            daemon = _launch(path, folder)
        elif late or ended:
            said = _said(log, begin) if ended else ""
            why = f" ({said})" if said else ""
            raise OSError(f"kilnd did not start; {log} says why{why}")
        time.sleep(0.02)


def own_daemon() -> str:
    """The socket of the user's own daemon, which runs when this returns. OSError when it cannot."""
    path = _own_socket()
    if _answers(f"unix:{path}"):
        return str(path)
    with _locked(path.with_suffix(".lock")):
        if not _answers(f"unix:{path}"):
            _start_daemon(path)
    return str(path)


def _find() -> str:
    """The address of a daemon that answers. OSError when there is none."""
    named = settings.trusted_addresses()
    if not named:
        try:
            return f"unix:{own_daemon()}"
        except OSError as error:
            raise OSError(f"no daemon: {error}") from None
    told = []
    for address in named:
        refusal = _refusal(address)
        if refusal is None:
            return address
        told.append(f"{address} ({refusal})")
    raise OSError(f"no daemon answers at {', '.join(told)}")


told_of_absence = False  # whether the user knows that there was no daemon


def _address() -> str | None:
    """The address to use; None, after a warning, when there is no daemon."""
    global told_of_absence
    try:
        return _find()
    except OSError as error:
        tell(f"{error}; compiling in this process's own worker")
        told_of_absence = True
        return None


def _find_again() -> str | None:
    """Where to ask in place of a session's daemon that is gone; the library calls it, on the
    threads that compile. Whoever compiles without it tells why."""
    try:
        return _find()
    except (OSError, ValueError):  # a KILN_ADDR that was changed since
        return None


# What to do about what a fork left.
SPAWN = "start children with multiprocessing's spawn or forkserver"


def refuse_forked() -> None:
    """OSError in a child that was forked."""
    if process > 0:
        raise OSError(
            "this process is a forked child, and cannot use its parent's kiln session, whose threads "
            f"and connections are not here: {SPAWN}"
        )


def shelf() -> object:
    """The artifacts that this process used, and those it was handed. After load_library."""
    return _shelf


def _remove(folder: str) -> None:
    if process == 0:  # a forked child leaves its parent's
        shutil.rmtree(folder, ignore_errors=True)


def _worker_folder() -> str | None:
    """Where this process's own worker keeps its files; None: the library's choice. It goes when
    the program ends, since Dynamo keeps callables, and so their session, beyond that."""
    try:
        folder = tempfile.mkdtemp(prefix="kiln-")
    except OSError:  # what asks for the worker tells of it
        return None
    atexit.register(_remove, folder)
    return folder


def _worker_environment() -> str:
    """What this process's own worker is handed, as kilnd hands it to its own: lines."""
    environment = daemon_environment()
    return "\n".join(f"{n}={environment[n]}" for n in _FOR_WORKERS if environment.get(n))


def _open_session(device: torch.device) -> object:
    import torch

    keys, address = settings.public_keys(), _address()
    named = settings.trusted_addresses()
    # Those that were named are all given, in their order: each compile has its own among them, also
    # one that comes up later.
    address, *more = named or [address]
    by_socket = address is not None and settings.is_socket(address)
    return _native.open_session(
        settings.path_of(address) if by_socket else None,
        None if by_socket else address,
        b"".join(keys),
        _LOCAL_ONLY if address is None else _FALLBACK_LOCAL_WORKER,
        program("kiln-worker"),
        _worker_folder(),
        _DEVICES[device.type],
        device.index or 0,
        torch.get_num_threads() if device.type == "cpu" else 0,
        _COMPILE_DEADLINE_MS,
        _shelf,
        _worker_environment(),
        _find_again,
        settings.named("KILN_NAMESPACE"),
        settings.named("KILN_TLS_CA"),
        settings.named("KILN_TLS_CERTIFICATE"),
        settings.named("KILN_TLS_KEY"),
        settings.named("KILN_TOKEN_FILE"),
        settings.urgency(),
        ",".join(more),
    )


def session_of(device: torch.device) -> object:
    """This process's session for a device, opened at the first use."""
    refuse_forked()
    key = (device.type, device.index or 0)
    with _lock:
        if key not in _sessions:
            load_library()
            _sessions[key] = _open_session(device)
        return _sessions[key]


def open_early(device: torch.device) -> None:
    """Opens a device's session beside the program, and starts the daemon: a graph is traced for
    seconds before its compile needs them."""
    if (device.type, device.index or 0) not in _sessions and process == 0:
        begin(lambda: session_of(device))
