"""What stands behind a convolution on the CPU goes into its weights and bias, where that pays."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import kiln


def folded(model, *args):
    """How many operators were folded, the result being as eager mode's."""
    torch._dynamo.reset()
    kiln.counters.clear()
    with torch.no_grad():
        got = torch.compile(model, backend="kiln", fullgraph=True)(*args)
        torch.testing.assert_close(got, model(*args), rtol=2e-4, atol=2e-4)
    return kiln.counters["binary_folding"]


def settled(model):
    """The model in eval mode, with statistics that training left."""
    for norm in model.modules():
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2)
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
    return model.eval()


KINDS = [
    (nn.Conv1d, nn.BatchNorm1d, (4, 8, 500)),
    (nn.Conv2d, nn.BatchNorm2d, (4, 8, 20, 20)),
    (nn.Conv3d, nn.BatchNorm3d, (4, 8, 10, 10, 10)),
]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("conv, norm, sizes", KINDS)
def test_a_batch_norm_and_a_relu_behind_a_convolution(conv, norm, sizes, groups, bias):
    model = settled(nn.Sequential(conv(8, 16, 3, bias=bias, groups=groups), norm(16), nn.ReLU()))
    assert folded(model, torch.randn(sizes)) == 4
    assert kiln.metrics.extern_call_count >= 1


def test_weights_that_change_are_seen_by_the_next_call():
    model = settled(nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)))
    x = torch.randn(4, 8, 20, 20)
    assert folded(model, x) == 4
    compiled = torch.compile(model, backend="kiln")
    with torch.no_grad():
        compiled(x)
        for change in (model[0].weight, model[1].running_mean, model[1].weight.data):
            change.mul_(-1.5)
            torch.testing.assert_close(compiled(x), model(x), rtol=2e-4, atol=2e-4)


class Then(nn.Module):
    def __init__(self, what, other):
        super().__init__()
        self.conv, self.what = nn.Conv2d(8, 16, 3), what
        self.register_buffer("other", other)

    def forward(self, x):
        return self.what(self.conv(x), self.other)


@pytest.mark.parametrize("what", [torch.add, torch.sub, torch.mul, torch.div])
@pytest.mark.parametrize(
    "sizes, due", [((16, 1, 1), 1), ((1, 16, 1, 1), 1), ((1, 1), 1), ((18, 1), 0), ((4, 1, 1, 1), 0)]
)
def test_an_operator_with_one_number_a_channel(what, sizes, due):
    assert folded(Then(what, torch.rand(sizes) + 0.5), torch.randn(4, 8, 20, 20)) == due


def test_what_is_not_folded():
    x = torch.randn(4, 8, 20, 20)
    other = torch.rand(16, 1, 1)
    assert folded(Then(lambda c, o: c * 2.0, other), x) == 0
    assert folded(Then(lambda c, o: c * o.double(), other), x) == 0
    assert folded(Then(lambda c, o: F.silu(c * o) + c.mean(), other), x) == 0
    # A step of training needs the convolution's result for its backward.
    model = settled(nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU()))
    torch._dynamo.reset()
    kiln.counters.clear()
    torch.compile(model, backend="kiln")(x).sum().backward()
    assert kiln.counters["binary_folding"] == 0
