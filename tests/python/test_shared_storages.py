"""Results that lie in one block of memory: tensors of one storage, where that is asked for."""

import gc
import weakref

import pytest
import torch

from torch.fx.experimental.proxy_tensor import make_fx

import kiln
from kiln import _native, service
from kiln.compiled_graph import wire_options
from kiln.fx_export import export
from kiln.steps import make_plan


@pytest.fixture
def sharing():
    _native.share_storages(True)
    yield
    _native.share_storages(False)


def results_of(function, *inputs):
    """Of the function as one segment, in which views are the compiler's."""
    module = make_fx(function, tracing_mode="fake")(*inputs)
    (output,) = module.graph.find_nodes(op="output")
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ([output.args[0]],)
    (segment,) = make_plan(module.graph, {}).segments
    session = service.session_of(torch.device("cpu"))
    graph = export("shared", segment, None).graph
    callable_ = _native.compile(session, graph, wire_options(kiln.config.snapshot()))
    return lambda: _native.run(callable_, list(inputs), 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_results_of_a_block_share_its_storage(sharing, dtype):
    x = torch.rand(48, 48, dtype=dtype)
    run = results_of(lambda x: (x.cos() * 2).split([16, 32]), x)
    due = (x.cos() * 2).split([16, 32])
    one, other = run()
    _native.share_storages(False)
    apart = run()
    for got in ((one, other), apart):
        for tensor, expected in zip(got, due, strict=True):
            torch.testing.assert_close(tensor, expected)
    in_one_block = other.data_ptr() - one.data_ptr() == 16 * 48 * x.element_size()
    if not in_one_block:
        pytest.skip("the compiler gives each result a block of its own")
    assert one.untyped_storage()._cdata == other.untyped_storage()._cdata
    assert other.storage_offset() == 16 * 48
    assert other._base is None
    assert apart[1].storage_offset() == 0
    kept = other.clone()
    del one
    torch.rand(1 << 12)
    assert torch.equal(other, kept)


def test_a_result_of_its_own_is_as_it_was(sharing):
    x = torch.rand(8, 8)
    (result,) = results_of(lambda x: x * 2, x)()
    assert torch.equal(result, x * 2)
    assert result.storage_offset() == 0
    assert result.untyped_storage().data_ptr() == result.data_ptr()


def test_an_empty_result_keeps_no_input():
    x = torch.rand(4)
    alive = weakref.ref(x)
    run = results_of(lambda x: (x + x, x.new_zeros(0)), x)
    results = run()
    assert [result.shape for result in results] == [(4,), (0,)]
    del x, run
    gc.collect()
    assert alive() is None
    assert results[1].device.type == "cpu" and results[1].numel() == 0
