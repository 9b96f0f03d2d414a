"""Masks that would take attention on a GPU apart are laid out row by row."""

import pytest
import torch
import torch.nn.functional as F
from kiln.attention_masks import lay_out_masks
from torch import fx
from torch._subclasses import FakeTensorMode


def attention_with(mask, by_name=True):
    graph = fx.Graph()
    q, m = graph.placeholder("q"), graph.placeholder("m")
    m.meta["example_value"] = mask
    args = (q, q, q) if by_name else (q, q, q, m)
    out = graph.call_function(
        F.scaled_dot_product_attention, args, {"attn_mask": m} if by_name else {}
    )
    graph.output((out,))
    return fx.GraphModule(torch.nn.Module(), graph)


def copies(module):
    return [node for node in module.graph.nodes if node.target == "contiguous"]


@pytest.mark.parametrize("by_name", [True, False])
def test_a_mask_that_is_stretched_over_keys_is_copied_before_its_attention(by_name):
    with FakeTensorMode():
        mask = torch.empty(6, 1, dtype=torch.bool, device="cuda").expand(2, 1, 6, 6)
    module = attention_with(mask, by_name)
    lay_out_masks(module)
    assert len(copies(module)) == 1
    q, seen = torch.randn(2, 2, 6, 8), torch.ones(6, 1, dtype=torch.bool).expand(2, 1, 6, 6)
    due = F.scaled_dot_product_attention(q, q, q, seen)
    torch.testing.assert_close(module(q, seen)[0], due)


@pytest.mark.parametrize("device, sizes", [("cuda", (2, 1, 1, 6)), ("cpu", (2, 1, 6, 1))])
def test_other_masks_stay_as_they_are(device, sizes):
    with FakeTensorMode():
        mask = torch.empty(sizes, dtype=torch.bool, device=device).expand(2, 1, 6, 6)
    module = attention_with(mask)
    lay_out_masks(module)
    assert not copies(module)
