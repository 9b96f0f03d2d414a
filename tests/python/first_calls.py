"""First calls of compiled functions on several threads."""

import torch


def let_threads_meet():
    """While one thread traces with FX, PyTorch refuses other threads' calls of compiled functions:
    its mark is the process's. Undone by what this returns. Asked for before `torch.compile`."""
    module = torch.fx._symbolic_trace
    before = module.is_fx_symbolic_tracing
    module.is_fx_symbolic_tracing = lambda: False
    return lambda: setattr(module, "is_fx_symbolic_tracing", before)
