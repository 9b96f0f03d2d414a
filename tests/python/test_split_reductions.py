"""The option split_reductions. What it leaves out on CUDA: tests/compiler/schedule/split_reductions.ir
and tests/compiler/kiln_opt_test.sh."""

import pytest
import torch

import kiln
from kiln.compiled_graph import wire_options


def long_sum(x):
    return (x * x).sum() + x.amax()


def compiled(split):
    torch._dynamo.reset()
    options = {"split_reductions": split, "cache_tag": "split"}
    return torch.compile(long_sum, backend="kiln", fullgraph=True, options=options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("split", [True, False])
def test_a_long_reduction_is_computed_in_parts_only_where_it_may_be(split, dtype):
    x = torch.rand(1024, 1024, generator=torch.Generator().manual_seed(7)).to(dtype)
    kiln.metrics.reset()
    got = compiled(split)(x)
    torch.testing.assert_close(got, long_sum(x))
    # The parts, and what combines them.
    assert kiln.metrics.launch_count == kiln.metrics.generated_kernel_count == (2 if split else 1)
    (code,) = kiln.get_code(compiled(split), x)
    assert ("parts" in code) == split


def test_it_is_in_the_key():
    x = torch.rand(1024, 1024)
    with kiln.config.patch(cache_tag="split in the key"):
        for split in (True, False):
            for compiles, hits in ((1, 0), (0, 1)):
                torch._dynamo.reset()
                kiln.counters.clear()
                with kiln.config.patch(split_reductions=split):
                    torch.compile(long_sum, backend="kiln", fullgraph=True)(x)
                assert (kiln.counters["compiles"], kiln.counters["cache_hit"]) == (compiles, hits)
    options = kiln.config.snapshot()
    assert options["split_reductions"] is True
    assert wire_options({**options, "split_reductions": False}) != wire_options(options)
