"""What the tests of graph trees look at."""

import logging

import torch

import kiln
from kiln import backend

logger = logging.getLogger("kiln")


def graphs(function, **options):
    """`function` compiled for device graphs, the pool checked wherever it can be."""
    checked = {"cudagraphs": True, "slow_path_cudagraph_asserts": True, **options}
    return torch.compile(function, backend="kiln", options=checked)


def state():
    return kiln.graph_tree_state()


def recordings():
    """The next graph's id, as PyTorch's tests say."""
    return state()["recordings"]


def checkpoints():
    return state()["checkpoints"]


def skips():
    return kiln.counters["cudagraph_skips"]


def descendants():
    """Of each root, in order."""
    counts = []
    for node in state()["nodes"]:
        if node["depth"] == 0:
            counts.append(0)
        else:
            counts[-1] += 1
    return counts


def private_segments():
    return [s for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) != (0, 0)]


def live_blocks():
    """Of all private pools."""
    return sum(
        block["state"] == "active_allocated"
        for segment in private_segments()
        for block in segment["blocks"]
    )


def thrice(function, *inputs):
    """What a function gives when it is warmed up, recorded and replayed."""
    return [function(*inputs).clone() for _ in range(3)]


def reset_without_trees():
    """Dynamo forgets what was compiled; trees are the garbage collector's."""
    kept, backend.kiln.reset = backend.kiln.reset, lambda: None
    try:
        torch._dynamo.reset()
    finally:
        backend.kiln.reset = kept


def partitions():
    return kiln.counters["cudagraph_partitions"]


def assert_thrice(called, function, *inputs, times=4, **tolerance):
    for _ in range(times):
        torch.testing.assert_close(called(*inputs), function(*inputs), **tolerance)


def unsafe_operator(name, tags=()):
    operator = torch.library.custom_op(f"graph_trees::{name}", mutates_args=(), tags=tags)

    @operator
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    halved.register_fake(torch.empty_like)
    return halved
