"""Each test session has a daemon and a cache of its own, and nothing falls back unseen."""

import os
import tempfile

import pytest

# Before kiln is imported by an entry point: the environment is read at the first compile.
_FOLDER = tempfile.mkdtemp(prefix="kiln-test-")
os.environ["KILN_CACHE_DIR"] = _FOLDER
os.environ["KILN_STRICT"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """No test sees another's compiled code or random numbers."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def pytest_unconfigure(config):
    """Ends the daemon of the session and removes its cache."""
    import shutil
    import signal
    import subprocess

    found = subprocess.run(
        ["pgrep", "-f", f"kilnd .*--data-folder {_FOLDER}"], capture_output=True, text=True
    )
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGTERM)
    shutil.rmtree(_FOLDER, ignore_errors=True)
