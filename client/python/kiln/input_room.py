"""Whether inputs have the room that option can_inplace_pad_graph_input takes: a kernel then writes
behind the ends of a matrix's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

PADS_INPUTS = "can_inplace_pad_graph_input"


def counts_pads(text: str) -> bool:
    """Whether an artifact's counters, a line each, tell of matrices that are padded in place."""
    found = dict(line.split() for line in text.splitlines())
    return found.get("inplace_padding", "0") != "0"


def _has_gaps(value: object) -> bool:
    """Whether it is a matrix with memory of others, or of nobody, between its rows."""
    if not isinstance(value, torch.Tensor) or value.dim() != 2:
        return False
    return value.stride(1) == 1 and value.stride(0) > value.size(1)


def _check(inputs: list) -> None:
    owners: dict[int, int] = {}
    for number, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            continue
        storage = value.untyped_storage()
        other = owners.setdefault(storage.data_ptr(), number)
        if other != number and (_has_gaps(value) or _has_gaps(inputs[other])):
            raise ValueError(f"{PADS_INPUTS}: input {number}: its storage is input {other}'s too")
        if not _has_gaps(value):
            continue
        due = value.storage_offset() + value.size(0) * value.stride(0)
        found = storage.nbytes() // value.element_size()
        if found < due:
            raise ValueError(
                f"{PADS_INPUTS}: input {number}: found a storage of {found} elements, expected {due}: "
                "to the end of its last row's stride"
            )


def checked(program: Callable[[list], Sequence]) -> Callable[[list], Sequence]:
    """`program`, which is called with its inputs only if they have room. ValueError else."""

    def run(inputs: list) -> Sequence:
        _check(inputs)
        return program(inputs)

    return run
