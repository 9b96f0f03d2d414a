"""PyTorch's global switches: each is part of the key, so each setting has an artifact of its own."""

import pytest
import torch

import kiln
from kiln import config
from kiln.compiled_graph import wire_options

MATMUL, CUDNN = torch.backends.cuda.matmul, torch.backends.cudnn


@pytest.fixture(autouse=True)
def as_before():
    """Puts all switches back."""
    precision = torch.get_float32_matmul_precision()
    flags = [
        (MATMUL, "allow_fp16_reduced_precision_reduction"),
        (MATMUL, "allow_bf16_reduced_precision_reduction"),
        (CUDNN, "allow_tf32"),
        (CUDNN, "deterministic"),
        (CUDNN, "benchmark"),
        (CUDNN, "enabled"),
    ]
    kept = [(owner, name, getattr(owner, name)) for owner, name in flags]
    # PyTorch's own test tools, which other files import, forbid to set cuDNN's.
    with getattr(torch.backends, "__allow_nonbracketed_mutation")():
        yield
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(False)
        for owner, name, value in kept:
            setattr(owner, name, value)


FLIPS = {
    "matmul_precision": lambda: torch.set_float32_matmul_precision("high"),
    "matmul_tf32": lambda: setattr(MATMUL, "allow_tf32", True),
    "matmul_fp32_precision": lambda: setattr(MATMUL, "fp32_precision", "tf32"),
    "fp16_reduced": lambda: setattr(MATMUL, "allow_fp16_reduced_precision_reduction", False),
    "bf16_reduced": lambda: setattr(MATMUL, "allow_bf16_reduced_precision_reduction", False),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "cudnn_tf32": lambda: setattr(CUDNN, "allow_tf32", False),
    "cudnn_fp32_precision": lambda: setattr(CUDNN.conv, "fp32_precision", "ieee"),
    "cudnn_deterministic": lambda: setattr(CUDNN, "deterministic", True),
    "cudnn_benchmark": lambda: setattr(CUDNN, "benchmark", True),
    "cudnn_enabled": lambda: setattr(CUDNN, "enabled", False),
}


@pytest.mark.parametrize("name", FLIPS)
def test_a_switch_that_is_flipped_is_another_key(name):
    before = wire_options(config.snapshot())
    FLIPS[name]()
    assert wire_options(config.snapshot()) != before


def test_the_same_graph_under_another_switch_is_compiled_again():
    def fn(x, w):
        return torch.nn.functional.conv2d(x, w).relu() * 41

    x, w = torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
    seen = []
    for flip in (lambda: None, FLIPS["cudnn_tf32"], FLIPS["cudnn_benchmark"], lambda: None):
        flip()
        torch._dynamo.reset()
        kiln.counters.clear()
        torch.testing.assert_close(torch.compile(fn, backend="kiln")(x, w), fn(x, w))
        seen.append((kiln.counters["compiles"], kiln.counters["cache_hit"]))
    assert seen == [(1, 0), (1, 0), (1, 0), (0, 1)]
