"""Models whose inference is measured, of torch.nn alone, by name: each is made with its inputs.

    model, inputs = MODELS["bert-base 8x128"](tiny=False)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class EncoderLayer(nn.Module):
    """BERT's: norms behind the sums."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.joined = (nn.Linear(width, width) for _ in range(4))
        self.after_attention, self.after = (nn.LayerNorm(width, eps=1e-12) for _ in range(2))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        q, k, v = (
            linear(x).view(rows, length, self.heads, -1).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        found = self.joined(found.transpose(1, 2).reshape(rows, length, width))
        x = self.after_attention(x + found)
        return self.after(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    """Words in, the last layer's vectors out."""

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(words) + self.places.weight[: words.shape[1]])
        seen = mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, seen)
        return x


class Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        outer = 4 * inner
        self.first = nn.Conv2d(channels, inner, 1, bias=False)
        self.second = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.third = nn.Conv2d(inner, outer, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (inner, inner, outer))
        self.shortcut = nn.Identity()
        if stride != 1 or channels != outer:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        y = F.relu(self.norms[1](self.second(y)))
        return F.relu(self.norms[2](self.third(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...], inner: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, inner, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(inner)
        stages, channels = [], inner
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(Bottleneck(channels, inner << stage, stride))
                channels = 4 * (inner << stage)
        self.stages = nn.Sequential(*stages)
        self.classes = nn.Linear(channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.stem(images))), 3, 2, 1)
        return self.classes(self.stages(x).mean((2, 3)))


def bert(tiny: bool) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    words, length, width, heads, layers = (99, 16, 32, 2, 2) if tiny else (30522, 128, 768, 12, 12)
    model = Encoder(words, length, width, heads, layers).eval()
    mask = (torch.arange(length) < torch.randint(length // 2, length + 1, (8, 1))).long()
    return model, (torch.randint(0, words, (8, length)), mask)


def resnet50(tiny: bool) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    sizes = ((1, 1), 8, 10) if tiny else ((3, 4, 6, 3), 64, 1000)
    edge = 32 if tiny else 224
    return ResNet(*sizes).eval(), (torch.randn(4, 3, edge, edge),)


def linear_gelu(tiny: bool) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    rows, width = (16, 32) if tiny else (1024, 768)
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU()).eval(), (torch.randn(rows, width),)


def convolution_relu(tiny: bool) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    channels, edge = (8, 8) if tiny else (64, 56)
    model = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()).eval()
    return model, (torch.randn(4, channels, edge, edge),)


def linear_of_doubles(tiny: bool) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    rows, width = (16, 32) if tiny else (1024, 768)
    model = nn.Linear(width, width, dtype=torch.float64)
    return model.eval(), (torch.randn(rows, width, dtype=torch.float64),)


def convolution_of_doubles(tiny: bool) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    channels, edge = (8, 8) if tiny else (64, 28)
    model = nn.Conv2d(channels, channels, 3, padding=1, dtype=torch.float64).eval()
    return model, (torch.randn(4, channels, edge, edge, dtype=torch.float64),)


MODELS = {
    "bert-base 8x128": bert,
    "resnet-50 4x224": resnet50,
    "linear + gelu 1024x768": linear_gelu,
    "conv 3x3 + relu 4x64x56": convolution_relu,
    "linear of doubles 1024x768": linear_of_doubles,
    "conv 3x3 of doubles 4x64x28": convolution_of_doubles,
}
