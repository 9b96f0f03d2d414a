"""The cross-entropy of a linear's results, which never holds all of them.

    torch.ops.kiln.linear_cross_entropy(x, weight, bias, target, ...)

Rows are taken in chunks. Where the loss is one number, its gradients come of the same chunk of
logits: they are those of the loss as it is, and its own gradient, a factor, is applied in the backward.
Where each row has a loss, the backward computes each chunk of logits again. In both a pass over one chunk is all
that is there at a time. fuse_linear_cross_entropy.py puts the operator into graphs; AOTAutograd takes it
apart into the operators below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

def hint_of(size: int | torch.SymInt) -> int:
    """A size, or where it is a symbol its value in the trace."""
    return size if isinstance(size, int) else size.node.require_hint()


_library = torch.library.Library("kiln", "FRAGMENT")
_library.define(
    "linear_cross_entropy(Tensor x, Tensor weight, Tensor? bias, Tensor target, *, ScalarType logits_dtype, "
    "ScalarType loss_dtype, str reduction, int ignore_index, int chunk_rows) -> Tensor"
)
# Chunks whose gradients of the weight are summed at once: each is rounded to its type, their sum is not.
_SUMMED_AT_ONCE = 4


class _Loss(NamedTuple):
    """What a loss is made of beside tensors."""

    dtype: torch.dtype
    reduction: str  # "mean", "sum" or "none"
    ignore_index: int
    chunk_rows: int


class _Chunk(NamedTuple):
    """Some rows: ``x``, whether each counts, and where its target is among the classes, a matrix."""

    rows: slice
    x: torch.Tensor
    kept: torch.Tensor
    is_target: torch.Tensor


def _begins(rows: int | torch.SymInt, first: int, step: int) -> list[int]:
    """Of chunks. Where the number of rows is a symbol there are as many chunks as its hint has, under a guard. The
    last has two rows at least, since a size of 1 is no symbol to PyTorch, and so may have one more than others."""
    begins = [0, *range(first, hint_of(rows) - 1, step)]
    if not isinstance(rows, int):
        last = step if len(begins) > 1 else first
        assert begins[-1] + 1 < rows <= begins[-1] + last + 1
    return begins


def _chunks(
    x: torch.Tensor, classes: int, target: torch.Tensor, loss: _Loss, first: int | None = None
) -> Iterator[_Chunk]:
    """``first``: how many rows the first chunk has, if not as many as the others."""
    numbers = torch.arange(classes, device=target.device)
    begins = _begins(x.size(0), first or loss.chunk_rows, loss.chunk_rows)
    for begin, end in zip(begins, [*begins[1:], x.size(0)]):
        rows = slice(begin, end)
        kept = target[rows] != loss.ignore_index
        # A target that is no class is an error, as in eager mode.
        place = numbers.gather(0, torch.where(kept, target[rows], 0))
        yield _Chunk(rows, x[rows], kept, numbers.unsqueeze(0) == place.unsqueeze(1))


def _wide(dtype: torch.dtype) -> torch.dtype:
    """In which a cross-entropy of `dtype` is computed."""
    return torch.promote_types(dtype, torch.float32)


def _logits(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """As a linear gives them, rounded to their type, and then in that of the loss."""
    product = x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())
    return product.to(_wide(product.dtype))


def _statistics(logits: torch.Tensor) -> torch.Tensor:
    """The logarithm of the sum of each row's exponentials, a column."""
    most = logits.amax(1, keepdim=True)
    return most + (logits - most).exp().sum(1, keepdim=True).log()


def _picked(logits: torch.Tensor, chunk: _Chunk) -> torch.Tensor:
    """Each row's number at its target, a column. Looked for in the pass that sums the row up: the gradient then
    takes the logits' place, since nothing reads these elsewhere."""
    return torch.where(chunk.is_target, logits, -torch.inf).amax(1, keepdim=True)


def _losses(normal: torch.Tensor, picked: torch.Tensor, chunk: _Chunk) -> torch.Tensor:
    return torch.where(chunk.kept, (normal - picked).squeeze(1), 0.0)


def _gradient(
    logits: torch.Tensor, normal: torch.Tensor, chunk: _Chunk, of_loss: torch.Tensor | None
) -> torch.Tensor:
    """Of a chunk's losses by its logits, in the type of ``x``. ``of_loss``: what is known of each row's; 1
    without it."""
    softmax = (logits - normal).exp()
    gradient = torch.where(chunk.is_target, softmax - 1.0, softmax)
    if of_loss is not None:
        gradient = gradient * of_loss.unsqueeze(1)
    return torch.where(chunk.kept.unsqueeze(1), gradient, 0.0).to(chunk.x.dtype)


class _Sum:
    """A sum over chunks, in the type of the loss."""

    def __init__(self) -> None:
        self._sum: torch.Tensor | None = None
        self._waiting: list[torch.Tensor] = []

    def add(self, part: torch.Tensor) -> None:
        self._waiting.append(part)
        if len(self._waiting) == _SUMMED_AT_ONCE:
            self._sum = self.total()
            self._waiting = []

    def total(self) -> torch.Tensor:
        total = self._sum
        for part in self._waiting:
            part = part.to(_wide(part.dtype))
            total = part if total is None else total + part
        return total


class _Gradients:
    """Of x, weight and bias, chunk by chunk; ``wanted`` says of which. None of the others."""

    def __init__(self, weight: torch.Tensor, wanted: tuple[bool, bool, bool]) -> None:
        self._weight = weight
        self._wanted = wanted
        self._x: list[torch.Tensor] = []
        self._of_weight, self._of_bias = _Sum(), _Sum()

    def add(self, of_logits: torch.Tensor, x: torch.Tensor) -> None:
        if self._wanted[0]:
            self._x.append(of_logits @ self._weight)
        if self._wanted[1]:
            self._of_weight.add(of_logits.t() @ x)
        if self._wanted[2]:
            self._of_bias.add(of_logits.to(_wide(of_logits.dtype)).sum(0))

    def all(self) -> list[torch.Tensor | None]:
        return [
            torch.cat(self._x) if self._wanted[0] else None,
            self._of_weight.total() if self._wanted[1] else None,
            self._of_bias.total() if self._wanted[2] else None,
        ]


class _OneNumber(torch.autograd.Function):
    """The mean of the rows' losses, or their sum."""

    @staticmethod
    def forward(ctx, x, weight, bias, target, loss, wanted):
        gradients = _Gradients(weight, wanted)
        losses = []
        for chunk in _chunks(x, weight.size(0), target, loss):
            logits = _logits(chunk.x, weight, bias)
            picked = _picked(logits, chunk)
            normal = _statistics(logits)
            if any(wanted):
                gradients.add(_gradient(logits, normal, chunk, None), chunk.x)
            losses.append(_losses(normal, picked, chunk).sum())
        total = sum(losses[1:], losses[0])
        count = (target != loss.ignore_index).sum().to(total.dtype) if loss.reduction == "mean" else None
        ctx.save_for_backward(count, *gradients.all())
        ctx.dtypes = [None if t is None else t.dtype for t in (x, weight, bias)]
        return (total if count is None else total / count).to(loss.dtype)

    @staticmethod
    def backward(ctx, of_loss):
        count, *gradients = ctx.saved_tensors
        scale = of_loss.to(_wide(of_loss.dtype))
        if count is not None:  # of no rows: eager mode's gradient is 0 too, where the loss is NaN
            scale = scale / count.clamp(min=1)
        given = [
            None if gradient is None else (gradient * scale).to(dtype)
            for gradient, dtype in zip(gradients, ctx.dtypes)
        ]
        return *given, None, None, None


class _EachRow(torch.autograd.Function):
    """A loss a row."""

    @staticmethod
    def forward(ctx, x, weight, bias, target, loss, wanted):
        losses, normals = [], []
        for chunk in _chunks(x, weight.size(0), target, loss):
            logits = _logits(chunk.x, weight, bias)
            normals.append(_statistics(logits))
            losses.append(_losses(normals[-1], _picked(logits, chunk), chunk))
        ctx.save_for_backward(x, weight, bias, target, torch.cat(normals))
        ctx.loss, ctx.wanted = loss, wanted
        return torch.cat(losses).to(loss.dtype)

    @staticmethod
    def backward(ctx, of_losses):
        x, weight, bias, target, normals = ctx.saved_tensors
        gradients = _Gradients(weight, ctx.wanted)
        of_losses = of_losses.to(normals.dtype)
        # Cut at other rows than in the forward: equal products would be merged, and what they give saved.
        first = (ctx.loss.chunk_rows + 1) // 2
        for chunk in _chunks(x, weight.size(0), target, ctx.loss, first):
            logits = _logits(chunk.x, weight, bias)
            of_logits = _gradient(logits, normals[chunk.rows], chunk, of_losses[chunk.rows])
            gradients.add(of_logits, chunk.x)
        dtypes = [None if t is None else t.dtype for t in (x, weight, bias)]
        given = [None if g is None else g.to(dtype) for g, dtype in zip(gradients.all(), dtypes)]
        return *given, None, None, None


def _linear_cross_entropy(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    target: torch.Tensor,
    *,
    logits_dtype: torch.dtype,
    loss_dtype: torch.dtype,
    reduction: str,
    ignore_index: int,
    chunk_rows: int,
) -> torch.Tensor:
    loss = _Loss(loss_dtype, reduction, ignore_index, chunk_rows)
    function = _EachRow if reduction == "none" else _OneNumber
    operands = [None if t is None else t.to(logits_dtype) for t in (x, weight, bias)]
    grads = torch.is_grad_enabled()
    wanted = tuple(grads and t is not None and t.requires_grad for t in operands)
    operands[0] = operands[0].reshape(-1, x.size(-1))
    # What autocast would do has been done: the types above are those that the program's own trace has.
    with torch.autocast(x.device.type, enabled=False):
        return function.apply(*operands, target, loss, wanted)


_library.impl("linear_cross_entropy", _linear_cross_entropy, "CompositeImplicitAutograd")
