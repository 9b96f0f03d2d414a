"""Launches that ask more of a GPU than most do. All need one; tests/runtime/cuda_device_test has what
is refused, over a driver of host memory."""

import re

import pytest
import torch

import kiln

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def launches_of(function, *inputs):
    """What is known of the launches of a call, which gives what eager mode gives."""
    compiled = torch.compile(function, backend="kiln")
    torch.testing.assert_close(compiled(*inputs), function(*inputs))
    seen = []
    with kiln.register_launch_hooks(lambda launch: seen.append(dict(launch))):
        compiled(*inputs)
    return seen


@pytest.mark.parametrize("count", [1, 2, 30, 66])
def test_a_launch_takes_up_to_two_hundred_arguments(count):
    one, other = ([torch.rand(8, device="cuda") for _ in range(count)] for _ in range(2))
    seen = launches_of(lambda a, b: torch._foreach_add(a, b), one, other)
    assert sum(len(launch["arguments"]) for launch in seen) >= 3 * count
    if count == 66:
        assert max(len(launch["arguments"]) for launch in seen) >= 198


def test_a_block_has_more_than_48_kilobytes_of_shared_memory():
    seen = launches_of(lambda x: torch.softmax(x, -1), torch.rand(256, 50257, device="cuda"))
    assert max(launch["shared_bytes"] for launch in seen) > 48 << 10


def test_blocks_of_a_cluster_share_a_long_row():
    seen = launches_of(lambda x: torch.softmax(x, -1), torch.rand(16, 262144, device="cuda"))
    assert all(f"CLUSTER={launch['cluster'] or 1}" in launch["mapping"] for launch in seen)
    clusters = [int(re.search(r"CLUSTER=(\d+)", launch["mapping"]).group(1)) for launch in seen]
    # Compute capability 9.0 is the first that has them.
    assert (max(clusters) > 1) == (torch.cuda.get_device_capability() >= (9, 0))


def test_a_grid_is_bounded_and_covers_all_elements():
    x = torch.arange(1 << 28, dtype=torch.uint8, device="cuda")
    seen = launches_of(lambda x: x + 1, x)
    assert all(0 < extent < 1 << 31 for launch in seen for extent in launch["grid"])


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_tensor_is_an_argument_that_is_nowhere(rows):
    x, y = torch.rand(rows, 4, device="cuda"), torch.rand(3, 4, device="cuda")
    launches_of(lambda x, y: (torch.cat([x, y]) * 2, x.sum(0)), x, y)
