"""``kiln.replace_inductor()``: every ``torch.compile`` that names Inductor, or no backend, is Kiln's.

For frameworks that know Inductor alone. Inductor's modes and options, also those that a program sets
in ``torch._inductor.config``, are taken over where Kiln has them; of each other one a warning tells,
once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch
from torch import fx
from torch._dynamo.backends import registry
from torch._inductor import config as inductors_config
from torch._inductor import list_mode_options

from . import config
from .backend import MODES, kiln
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
            none = type(config.OPTIONS[name].default)()  # Inductor's None
            taken[name] = none if value is None else value
        else:
            _tell_once(f"option {name}", value)
    return taken


def _set_in_process() -> dict[str, object]:
    """Inductor's options that the program, or its environment, has changed."""
    entries = inductors_config._config.items()
    changed = [(name, entry) for name, entry in entries if not inductors_config._is_default(name)]
    values = {name: getattr(inductors_config, name) for name, _ in changed}
    return {name: values[name] for name, entry in changed if values[name] != entry.default}


def _mode_taken_over(mode: str | None) -> str:
    """Kiln's mode for one of Inductor's. ValueError for one that neither has."""
    mode = mode or "default"
    if mode in MODES:
        return mode
    if mode not in list_mode_options():
        due = ", ".join(list_mode_options())
        raise ValueError(f"torch.compile: mode {mode!r}: there is no such mode; expected one of {due}")
    _tell_once("mode", mode)
    return "default"


class _InPlace:
    """What ``torch.compile`` makes of Inductor's name: torch._TorchCompileInductorWrapper's place."""

    compiler_name = "inductor"  # frameworks and PyTorch ask for it

    def __init__(
        self,
        mode: str | None = None,
        options: dict[str, object] | None = None,
        dynamic: bool | None = None,
        name: str | None = None,  # from torch 2.15 on: what the compiled region is called
    ) -> None:
        self.dynamic = dynamic
        self._mode = _mode_taken_over(mode)
        self._options = _taken_over(options or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InPlace) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._mode, self.dynamic))

    def __call__(
        self, module: fx.GraphModule, example_inputs: Sequence[torch.Tensor]
    ) -> Callable[..., object]:
        return kiln(module, example_inputs, mode=self._mode, options=self._options_now())

    def _options_now(self) -> dict[str, object]:
        return {**_taken_over(_set_in_process()), **self._options}

    def get_compiler_config(self) -> dict[str, object]:
        """As Dynamo saves it beside a compile."""
        return config.snapshot(self._options_now())

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
