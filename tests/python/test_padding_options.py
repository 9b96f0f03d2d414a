"""Options of padding on their way to the compiler. What each does to whole models is in tests/seeds;
on CUDA: tests/compiler/graph_passes/pad_products.ir, tests/compiler/schedule/align_contractions.ir."""

import pytest
import torch

import kiln
from kiln.compiled_graph import wire_options

FLIPPED = {
    "shape_padding": False,
    "comprehensive_padding": False,
    "inplace_padding": False,
    "force_shape_pad": True,
    "can_inplace_pad_graph_input": True,
}


def padded_product(x, w):
    return torch.nn.functional.pad(x.exp(), (0, 1), value=3.0) @ w


def counts(options, dtype=torch.float32):
    """In-place paddings and longer rows of a product whose rows are long enough to get room."""
    torch._dynamo.reset()
    kiln.counters.clear()
    kiln.metrics.reset()
    x, w = torch.rand(3, 1501).to(dtype), torch.rand(1502, 2).to(dtype)
    got = torch.compile(padded_product, backend="kiln", fullgraph=True, options=options)(x, w)
    torch.testing.assert_close(got, padded_product(x, w), rtol=1e-2, atol=1e-2)
    return kiln.counters["inplace_padding"], kiln.metrics.num_comprehensive_padding


@pytest.mark.parametrize("name", FLIPPED)
def test_an_option_is_in_the_key_of_what_is_compiled(name):
    options = {name: FLIPPED[name], "cache_tag": name}
    for compiles, hits in ((1, 0), (0, 1)):
        counts(options)
        assert (kiln.counters["compiles"], kiln.counters["cache_hit"]) == (compiles, hits)
    counts({"cache_tag": name})
    assert kiln.counters["compiles"] == 1


def test_each_is_told_to_the_compiler():
    options = kiln.config.snapshot()
    for name, value in FLIPPED.items():
        assert options[name] is not value
        assert wire_options({**options, name: value}) != wire_options(options)


@pytest.mark.parametrize(
    "options, due",
    [
        ({}, (1, 1)),
        ({"inplace_padding": False}, (0, 0)),
        ({"comprehensive_padding": False}, (0, 0)),
        ({"shape_padding": False}, (1, 1)),
        ({"force_shape_pad": True}, (1, 1)),  # of CUDA alone
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_what_is_padded_in_place_is_counted(options, due, dtype):
    assert counts(options, dtype) == due


def test_a_device_graph_is_none_of_what_writes_between_the_rows_of_its_inputs():
    from kiln.graph_choice import Chooser

    module = torch.fx.symbolic_trace(lambda x: x)
    options = {**kiln.config.snapshot(), "cudagraphs": True, "can_inplace_pad_graph_input": True}
    assert Chooser(options).choose(module, "inference") is None
