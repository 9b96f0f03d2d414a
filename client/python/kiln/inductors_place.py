"""``kiln.replace_inductor()``: every ``torch.compile`` that names Inductor, or no backend, is Kiln's.

For frameworks that know Inductor alone. Inductor's modes and options are taken over where Kiln has
them; of each other one a warning tells, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch
from torch import fx
from torch._dynamo.backends import registry

from . import config
from .backend import kiln
from .forked import open_in_child
from .telling import tell

_told: set[str] = set()
_lock = open_in_child(threading.Lock())
_standing: list[Replacement] = []


def _tell_once(name: str, value: object) -> None:
    with _lock:
        new = name not in _told
        _told.add(name)
    if new:
        tell(f"Inductor's {name}={value!r} is left out: Kiln has no such thing")


def _taken_over(options: dict[str, object]) -> dict[str, object]:
    """Kiln's options among Inductor's. Those that Kiln has bear Inductor's names."""
    taken = {}
    for name, value in options.items():
        name = name.replace("-", "_").removeprefix("triton.")  # where its cudagraphs stand
        if name in config.OPTIONS:
            taken[name] = value
        elif config.NOT_BUILT.get(name, not value) != value:
            _tell_once(f"option {name}", value)
    return taken


class _InPlace:
    """What ``torch.compile`` makes of Inductor's name: torch._TorchCompileInductorWrapper's place."""

    compiler_name = "inductor"  # frameworks and PyTorch ask for it

    def __init__(
        self,
        mode: str | None = None,
        options: dict[str, object] | None = None,
        dynamic: bool | None = None,
    ) -> None:
        self.dynamic = dynamic
        self._mode = mode or "default"
        self._options = _taken_over(options or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InPlace) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._mode, self.dynamic))

    def __call__(
        self, module: fx.GraphModule, example_inputs: Sequence[torch.Tensor]
    ) -> Callable[..., object]:
        return kiln(module, example_inputs, mode=self._mode, options=self._options)

    def get_compiler_config(self) -> dict[str, object]:
        """As Dynamo saves it beside a compile."""
        return config.snapshot(**self._options)

    def reset(self) -> None:
        kiln.reset()


def _instead(
    module: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, object] | None = None,
    config_patches: dict[str, object] | None = None,
) -> Callable[..., object]:
    """Dynamo's own "inductor", as ``torch._dynamo.optimize`` looks it up."""
    return _InPlace(mode, {**(config_patches or {}), **(options or {})})(module, example_inputs)


class Replacement:
    """What ``replace_inductor`` gives. Of use as a context too."""

    def __init__(self) -> None:
        inductor = registry.lookup_backend("inductor")
        self._before = torch._TorchCompileInductorWrapper, inductor
        torch._TorchCompileInductorWrapper = _InPlace
        _instead._tags = getattr(inductor, "_tags", ())
        registry._COMPILER_FNS["inductor"] = _instead

    def remove(self) -> None:
        """Inductor is itself again, for what is named from now on. Once more does nothing."""
        with _lock:
            if self not in _standing:
                return
            _standing.remove(self)
        torch._TorchCompileInductorWrapper, registry._COMPILER_FNS["inductor"] = self._before

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def replace_inductor() -> Replacement:
    """Has Kiln serve every ``torch.compile`` from now on that names Inductor or no backend, until
    ``remove()``. Once more does nothing."""
    with _lock:
        if not _standing:
            _standing.append(Replacement())
        return _standing[0]
