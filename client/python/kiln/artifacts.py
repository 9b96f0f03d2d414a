"""Artifacts that travel: ``kiln.save_artifacts`` and ``kiln.load_artifacts``.

    Path("model.kiln").write_bytes(kiln.save_artifacts())       # after a step, on one machine
    kiln.load_artifacts(Path("model.kiln").read_bytes())        # before the first, on another

Artifacts are code. Each is signed by the daemon that compiled it, and another machine takes it only
when that daemon's public key is one that it trusts: its own daemon's, or one of
``KILN_PUBLIC_KEY``. A bundle that was changed, cut short, written by another version or made for
other devices is refused as a whole.
"""

from __future__ import annotations

import threading

import torch

from . import _native, background, service
from .forked import open_in_child
from .telling import tell

_CPU, _CUDA = 1, 2  # bits of _native.bundle_devices

_lock = open_in_child(threading.Lock())
_unsigned = 0


def count_unsigned() -> None:
    """Notes an artifact that a worker of this process's own compiled."""
    global _unsigned
    with _lock:
        _unsigned += 1


def save_artifacts() -> bytes:
    """All artifacts that this process has used since its start, as one bundle. Waits for the
    compiles under way. What was compiled without a daemon is signed by nobody, and left out after
    a warning."""
    service.refuse_forked()
    service.load_library()
    background.wait_for_all()
    if _unsigned:
        tell(f"save_artifacts: left out {_unsigned} that were compiled without a daemon")
    return _native.save(service.shelf())


def load_artifacts(bundle: bytes) -> int:
    """Takes the artifacts of a bundle: what this process compiles from now on is looked for among
    them before a daemon is asked. Returns their number.

    ``KilnError`` when the bundle, or one artifact in it, is not sound, not trusted or not for this
    machine: then nothing of it is taken."""
    if not isinstance(bundle, (bytes, bytearray, memoryview)):
        kind = type(bundle).__name__
        raise TypeError(f"load_artifacts: found {kind}, expected the bytes of a bundle: read_bytes()")
    service.refuse_forked()
    service.load_library()
    devices = _native.bundle_devices(bundle)
    sessions = []
    if devices & _CPU:
        sessions.append(service.session_of(torch.device("cpu")))
    if devices & _CUDA and torch.cuda.is_available():
        sessions.append(service.session_of(torch.device("cuda", torch.cuda.current_device())))
    return _native.load_bundle(service.shelf(), sessions, bundle)
