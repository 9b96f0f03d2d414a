"""A Llama-like decoder that gives the next token's logits: one token a row, keys and values kept in buffers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

_ROOM = 1024  # tokens that are kept


class Layer(nn.Module):
    def __init__(self, rows: int, hidden: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.before = nn.RMSNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.joined = nn.Linear(hidden, hidden, bias=False)
        self.behind = nn.RMSNorm(hidden)
        self.gate_and_up = nn.Linear(hidden, 2 * inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(rows, heads, _ROOM, self.size))

    def forward(self, x, place, turn, seen):
        """``turn``: cosine and sine of the place; ``seen``: which tokens count."""
        parts = self.qkv(self.before(x)).view(x.shape[0], 3, self.heads, 1, self.size)
        q, k, v = parts.unbind(1)
        self.keys.index_copy_(2, place, rotated(k, turn))
        self.values.index_copy_(2, place, v)
        found = F.scaled_dot_product_attention(
            rotated(q, turn), self.keys, self.values, attn_mask=seen
        )
        x = x + self.joined(found.reshape(x.shape))
        gate, up = self.gate_and_up(self.behind(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def rotated(x, turn):
    cosine, sine = turn
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class Decoder(nn.Module):
    def __init__(self, rows: int, hidden: int, inner: int, layers: int, heads: int) -> None:
        super().__init__()
        vocabulary, half = 32000, hidden // heads // 2
        self.words = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(Layer(rows, hidden, inner, heads) for _ in range(layers))
        self.last = nn.RMSNorm(hidden)
        self.logits = nn.Linear(hidden, vocabulary, bias=False)
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(half) / half))

    def forward(self, tokens, place):
        """Logits of what follows ``tokens`` [rows], which stand at ``place`` [1]."""
        x = self.words(tokens)
        angles = torch.cat((place * self.frequencies,) * 2)
        turn = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        seen = (torch.arange(_ROOM, device=place.device) <= place)[None]
        for layer in self.layers:
            x = layer(x, place, turn, seen)
        return self.logits(self.last(x))
