"""Kiln as a backend of ``torch.compile``: ``torch.compile(model, backend="kiln")``."""

from .backend import kiln

__all__ = ["kiln"]
