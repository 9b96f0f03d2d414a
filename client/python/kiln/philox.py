"""The service's random numbers of a seed, computed by PyTorch.

    numbers = numbers_of([2, 3], seed, "rand")      # seed: a 0-d int64 tensor

What ``prims.inductor_random`` means to Kiln: element k is number k of a Philox4x32-10 stream whose
key is the seed. A forward and its backward draw the same mask, whichever of the two PyTorch runs
(PyTorch's own form of the operator takes no notice of the seed).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

_WORD = 0xFFFFFFFF


def _product(a: int, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The high and the low word of the product of two words; int64 holds neither unsplit."""
    low = a * (b & 0xFFFF)
    rest = a * (b >> 16) + (low >> 16)
    return rest >> 16, (rest & 0xFFFF) << 16 | (low & 0xFFFF)


def _uniform(count: int, seed: torch.Tensor, stream: int) -> torch.Tensor:
    """`count` float32 numbers in [0, 1)."""
    quads = torch.arange((count + 3) // 4, device=seed.device)
    words = [quads & _WORD, quads >> 32, torch.full_like(quads, stream), torch.zeros_like(quads)]
    key = [seed & _WORD, (seed >> 32) & _WORD]
    for _ in range(10):
        left_high, left_low = _product(0xD2511F53, words[0])
        right_high, right_low = _product(0xCD9E8D57, words[2])
        words = [right_high ^ words[1] ^ key[0], right_low, left_high ^ words[3] ^ key[1], left_low]
        key = [(key[0] + 0x9E3779B9) & _WORD, (key[1] + 0xBB67AE85) & _WORD]
    return (torch.stack(words, -1).flatten()[:count] >> 8).to(torch.float32) * 2.0**-24


def numbers_of(sizes: Sequence[int], seed: torch.Tensor, mode: str) -> torch.Tensor:
    """Float32 numbers, contiguous, on the seed's device: ``mode`` "rand", in [0, 1), or "randn",
    as Box and Muller have it."""
    count = math.prod(sizes)
    drawn = _uniform(count, seed, 0)
    if mode == "randn":
        angle = 2 * math.pi * _uniform(count, seed, 1)
        drawn = torch.sqrt(-2 * torch.log(1 - drawn)) * torch.cos(angle)
    return drawn.view(*sizes)
