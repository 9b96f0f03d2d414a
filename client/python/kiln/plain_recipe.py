"""A recipe as plain data, and back: numbers, words, bytes, and lists and dicts of these.

AOTAutograd's cache pickles what is kept of a graph; so nothing of Kiln's in it names code. What is
not a number, a word or nothing is ``[kind, ...]``.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .recipe import Fixed, HostRecipe, KilnRecipe, Place, Recipe, Sized, Source

_RECIPES = {kind.__name__: kind for kind in (Fixed, HostRecipe, KilnRecipe, Place, Recipe, Sized, Source)}
_PLAIN = (type(None), bool, int, float, str, bytes)
# Of torch's, by their names in it.
_WORDS = (torch.dtype, torch.layout, torch.memory_format)
_FUNCTIONS = {"getitem": operator.getitem}


@dataclasses.dataclass(frozen=True)
class Written:
    """Plain data that is read when it is needed."""

    plain: object

    def read(self) -> object:
        """What it was written of."""
        return from_plain(self.plain)


def plain_of(value: object) -> object:
    """TypeError for what has no such form."""
    if type(value) in _PLAIN:
        return value
    if type(value) is Written:
        return ["written", value.plain]
    if type(value) in (list, tuple):
        return [type(value).__name__, *map(plain_of, value)]
    if type(value) in (dict, torch.fx.immutable_collections.immutable_dict):
        return ["dict", *([plain_of(key), plain_of(held)] for key, held in value.items())]
    if type(value) is torch.fx.immutable_collections.immutable_list:
        return ["list", *map(plain_of, value)]
    if type(value) is slice:
        return ["slice", *map(plain_of, (value.start, value.stop, value.step))]
    if type(value) is complex:
        return ["complex", value.real, value.imag]
    if type(value) is torch.device:
        return ["device", str(value)]
    if isinstance(value, _WORDS):
        return ["torch", str(value).removeprefix("torch.")]
    if isinstance(value, torch._ops.OpOverload):
        return ["operator", *str(value).split(".")]
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return _plain_tensor(value)
    if _RECIPES.get(type(value).__name__) is type(value):
        fields = (getattr(value, field.name) for field in dataclasses.fields(value))
        return [type(value).__name__, *map(plain_of, fields)]
    for name, function in _FUNCTIONS.items():
        if value is function:
            return ["function", name]
    raise TypeError(f"{type(value).__name__}: no plain data")


def _plain_tensor(tensor: torch.Tensor) -> list:
    if tensor.layout != torch.strided or tensor.is_neg() or tensor.is_conj():
        raise TypeError("a tensor whose memory is not what it stands for: no plain data")
    with unset_fake_temporarily():  # AOTAutograd keeps an entry while it traces
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        data = bytes(flat.numpy())
    dtype = str(tensor.dtype).removeprefix("torch.")
    layout = [list(tensor.shape), list(tensor.stride())]
    return ["tensor", dtype, *layout, str(tensor.device), data]


def _tensor(dtype: str, sizes: list[int], strides: list[int], device: str, data: bytes) -> object:
    with unset_fake_temporarily():
        flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0)
        whole = flat.view(getattr(torch, dtype)) if data else flat.to(getattr(torch, dtype))
        kept = torch.empty_strided(sizes, strides, dtype=whole.dtype, device=device)
        return kept.copy_(whole.reshape(sizes))


def _operator(*names: str) -> object:
    held: object = torch.ops
    for name in names:
        held = getattr(held, name)
    return held


def _word(name: str) -> object:
    held = getattr(torch, name)
    if not isinstance(held, _WORDS):
        raise LookupError(f"torch.{name}: no dtype, layout or memory format")
    return held


_MAKERS: dict[str, Callable[..., object]] = {
    "list": lambda *items: list(items),
    "tuple": lambda *items: items,
    "slice": slice,
    "complex": complex,
    "device": torch.device,
    "torch": _word,
    "operator": _operator,
    "function": _FUNCTIONS.__getitem__,
    **_RECIPES,
}


def from_plain(plain: object) -> object:
    """What plain_of was given. LookupError for what it never gives."""
    if not isinstance(plain, list):
        return plain
    kind, *parts = plain
    if kind == "tensor":
        return _tensor(*parts)
    if kind == "written":
        return Written(*parts)
    if kind == "dict":
        return {from_plain(key): from_plain(held) for key, held in parts}
    return _MAKERS[kind](*map(from_plain, parts))
