"""kiln.explain names who computes products and convolutions, why, and as it was bound."""

import torch
import torch.nn.functional as F
from torch import nn

import kiln


def calls_of(fn, *args):
    with torch.no_grad():
        told = kiln.explain(fn, *args)
    (graph,) = told.graphs
    for call in graph.library_calls:
        assert call in str(told)
    return graph.library_calls


def test_a_product_with_its_bias_and_a_relu():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
    assert calls_of(model, torch.randn(8, 16)) == [
        "addmm, relu: matmul f32 1 x [8, 16] @ [16, 32]: oneDNN"
    ]


def test_a_convolution_with_a_batch_norm_and_a_relu():
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU()).eval()
    assert calls_of(model, torch.randn(4, 8, 20, 20)) == [
        "convolution, bias, relu: convolution f32 for its result: image [4, 8, 20x20], "
        "window 3x3, result [4, 16, 18x18], groups 1: oneDNN"
    ]


def test_a_size_that_changes_is_told_as_it_was_called():
    def fn(x, w):
        return x @ w

    compiled = torch.compile(fn, backend="kiln", dynamic=True)
    assert calls_of(compiled, torch.randn(9, 16), torch.randn(16, 32)) == [
        "mm: matmul f32 1 x [9, 16] @ [16, 32]: oneDNN"
    ]


def test_equal_calls_are_one_line_of_what_is_printed():
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(3)))
    with torch.no_grad():
        told = kiln.explain(model, torch.randn(8, 16))
    assert len(told.graphs[0].library_calls) == 3
    assert "  3 x addmm: matmul f32 1 x [8, 16] @ [16, 16]: oneDNN" in str(told).splitlines()


def test_what_our_own_kernels_compute_is_no_library_call():
    assert calls_of(lambda x, v: x @ v, torch.randn(64, 16), torch.randn(16)) == []


def test_each_contraction_has_its_ground():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 1, bias=False)
            self.window = nn.Conv2d(3, 4, 3)

        def forward(self, x, image):
            return self.last(torch.relu(self.first(x))), self.window(image)

    with torch.no_grad():
        told = kiln.explain(Layers(), torch.randn(8, 16), torch.randn(2, 3, 8, 8))
    (graph,) = told.graphs
    by_first_word = sorted(graph.contractions)
    assert len(by_first_word) == 3, by_first_word
    assert by_first_word[0].endswith(": oneDNN, bias: loops of ours do not compute it")
    assert by_first_word[1:] == [
        "product addmm+relu [m 8, n 32, k 16] f32: oneDNN, bias, relu: a product of matrices",
        "product mm [m 8, n 1, k 32] f32: own loops, a product with a vector",
    ]
    for line in graph.contractions:
        assert line in str(told)


def test_explain_says_why_an_attention_is_taken_apart():
    q = torch.randn(1, 2, 8, 16, requires_grad=True)
    told = kiln.explain(lambda q: F.scaled_dot_product_attention(q, q, q).sum(), q)
    words = "[b 1, h 2, x 2, m 8, n 8, e 16, v 16] f32: in parts, few scores: heads of 16 on "
    for graph, half in zip(told.graphs, ("", "_backward"), strict=True):
        line = graph.contractions[0]
        operator = f"attention{half} _scaled_dot_product_flash_attention_for_cpu{half} "
        assert line.startswith(operator + words), line
        assert line in str(told)
