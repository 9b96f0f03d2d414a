"""PyTorch's global switches that change results, as fields of a kiln.wire.ArtifactOptions.

They are read when a graph is compiled. Dynamo compiles again when one of those that it guards has
changed since (TF32 of products, reduced sums, deterministic algorithms); the others (cuDNN's) hold
for what is compiled after they were set.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def _rounds_to_tf32(module: object) -> bool:
    # The word that all of PyTorch's ways to set it agree with: reading `allow_tf32` is an error
    # once another way was taken.
    return module.fp32_precision == "tf32"


_matmul, _cudnn = torch.backends.cuda.matmul, torch.backends.cudnn

# {field: how it stands}.
_SWITCHES: dict[int, Callable[[], bool]] = {
    4: lambda: _rounds_to_tf32(_matmul),
    5: lambda: _matmul.allow_fp16_reduced_precision_reduction,
    6: lambda: _matmul.allow_bf16_reduced_precision_reduction,
    10: lambda: _rounds_to_tf32(_cudnn.conv),
    11: lambda: _cudnn.deterministic,
    12: lambda: _cudnn.benchmark,
    13: lambda: not _cudnn.enabled,
}


def switches() -> dict[int, bool]:
    """The switches as they are now, by field."""
    return {field: bool(read()) for field, read in _SWITCHES.items()}
