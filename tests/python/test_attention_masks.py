"""Masks that would take attention on a GPU apart are left out, or laid out row by row."""

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


def stretched(dtype):
    """A mask over keys of stride 0. PyTorch asks only its meta."""
    with FakeTensorMode():
        return torch.empty(6, 1, dtype=dtype, device="cuda").expand(2, 1, 6, 6)


@pytest.mark.parametrize("by_name", [True, False])
def test_an_added_mask_that_is_stretched_over_keys_is_copied_before_its_attention(by_name):
    module = attention_with(stretched(torch.float32), by_name)
    lay_out_masks(module)
    assert len(copies(module)) == 1
    q, added = torch.randn(2, 2, 6, 8), torch.randn(6, 1).expand(2, 1, 6, 6)
    due = F.scaled_dot_product_attention(q, q, q, added)
    torch.testing.assert_close(module(q, added)[0], due)


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("seen", [[True] * 6, [True, False] * 3, [False] * 6], ids=str)
def test_queries_that_see_all_keys_or_none_need_no_mask(seen, by_name):
    module = attention_with(stretched(torch.bool), by_name)
    lay_out_masks(module)
    assert not copies(module)
    mask = torch.tensor(seen).view(6, 1).expand(2, 1, 6, 6)
    results = []
    for fn in (lambda q: module(q, mask)[0], lambda q: F.scaled_dot_product_attention(q, q, q, mask)):
        q = torch.randn(2, 2, 6, 8, generator=torch.manual_seed(1), requires_grad=True)
        y = fn(q)
        y.backward(torch.linspace(-1, 1, y.numel()).view(y.shape))
        results.append((y.detach(), q.grad))
    assert not results[1][0].isnan().any()
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("device, sizes", [("cuda", (2, 1, 1, 6)), ("cpu", (2, 1, 6, 1))])
def test_other_masks_stay_as_they_are(device, sizes):
    with FakeTensorMode():
        mask = torch.empty(sizes, dtype=torch.bool, device=device).expand(2, 1, 6, 6)
    module = attention_with(mask)
    before = module.code
    lay_out_masks(module)
    assert module.code == before
