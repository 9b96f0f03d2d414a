"""The machine and the command behind a figure, as a record needs them."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
# Variables that change what a benchmark measures. Bytecode decides how long an import takes.
_VARIABLES = (
    *("PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "CUDA_VISIBLE_DEVICES"),
    *("KILN_ADDR", "KILN_CACHE_DIR", "KILN_CUDA_LIBRARY_PATH", "KILN_HOST_CC", "KILN_NVRTC"),
    *("KILN_OPTIONS", "KILN_STRICT", "OMP_NUM_THREADS", "TORCHINDUCTOR_CACHE_DIR"),
    *("TORCHINDUCTOR_COMPILE_THREADS", "TRITON_CACHE_DIR"),
)


def command_line(environment: dict[str, str] | None = None) -> str:
    """This command, with the variables that were set when it started: ready to be typed again."""
    seen = os.environ if environment is None else environment
    variables = [f"{name}={shlex.quote(seen[name])}" for name in _VARIABLES if name in seen]
    return " ".join([*variables, "python", *map(shlex.quote, sys.argv)])


def with_caches(folder: str, peers: str | None = None) -> dict[str, str]:
    """This environment, with all that is kept of compiles below `folder`; what Inductor keeps, and
    Triton for it, below `peers` where that is another one."""
    peers = folder if peers is None else peers
    return {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": f"{peers}/torch",
        "TRITON_CACHE_DIR": f"{peers}/triton",
        "KILN_CACHE_DIR": f"{folder}/kiln",
        "XDG_RUNTIME_DIR": folder,
    }


def chosen_backends(parser: argparse.ArgumentParser, names: str, known: Sequence[str]) -> list[str]:
    """The backends that --backends names, with commas between; an error of the parser's else."""
    backends = names.split(",")
    unknown = [backend for backend in backends if backend not in known]
    if unknown:
        parser.error(f"--backends: expected some of {', '.join(known)}, got {unknown[0]!r}")
    return backends


def require_pattern(parser: argparse.ArgumentParser, option: str, pattern: str) -> None:
    """An error of the parser's, naming the option, where a pattern is no regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        parser.error(f"{option} {pattern}: {error}")


def has_bytecode() -> bool:
    """Whether PyTorch's modules are compiled already. Where they are not, each new process compiles
    what it imports, and the first step of both backends is seconds longer. Looks at a module that
    PyTorch imports only for torch.compile."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return False
    source = Path(torch.origin).parent / "_inductor" / "codegen" / "triton.py"
    return os.path.exists(importlib.util.cache_from_source(str(source)))


def revision() -> str:
    """The commit of this tree, or of the GPU bundle in it; "" when neither is known."""
    git = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--abbrev=7"]
    found = subprocess.run(git, capture_output=True, text=True, check=False)
    bundle = _ROOT / "build" / "gpu-bundle" / "revision"
    if found.returncode == 0:
        return found.stdout.strip()
    return bundle.read_text(encoding="utf-8").strip()[:7] if bundle.exists() else ""


def machine(device: str) -> dict[str, object]:
    """What a record says of the machine and the programs."""
    import torch

    facts = {
        "revision": revision(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts["gpu"] = f"{properties.name}, {properties.multi_processor_count} SMs"
        facts["cuda"] = torch.version.cuda
        try:
            import triton

            facts["triton"] = triton.__version__
        except ImportError:
            pass
    else:
        facts["threads"] = torch.get_num_threads()
    return facts
