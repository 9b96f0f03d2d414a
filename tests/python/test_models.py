"""Model classes: three training steps, or inference, under Kiln against eager mode."""

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import kiln
from model_zoo import Mlp, square_loss, zoo
from training import assert_trains_alike

ZOO = zoo()
# Kiln compiles all of these: PyTorch runs nothing in them. With the two of changing sizes below
# they are the eleven of tests/corpus/models.
WHOLE = {
    "bert",
    "gpt2",
    "linear_cross_entropy",
    "llama",
    "mlp_batchnorm",
    "mlp_layernorm",
    "resnet",
    "resnet_infer",
    "vit",
}


def assert_nothing_is_left_to_pytorch():
    assert kiln.counters["compiles"] + kiln.counters["cache_hit"] > 0
    assert kiln.counters["host_kernels"] == kiln.counters["eager_graphs"] == 0


@pytest.mark.parametrize("name", sorted(ZOO))
def test_a_model_gives_what_eager_mode_gives(name):
    case = ZOO[name]()
    kiln.counters.clear()
    if case.loss is not None:
        assert_trains_alike(case.model, [case.batch], case.loss)
    else:
        compiled = torch.compile(case.model, backend="kiln")
        with torch.no_grad():
            torch.testing.assert_close(
                compiled(**case.batch).logits, case.model(**case.batch).logits, rtol=1e-4, atol=1e-4
            )
    if name in WHOLE:
        assert_nothing_is_left_to_pytorch()


def test_a_model_with_dynamic_shapes_trains_as_in_eager_mode():
    batches = [(torch.randn(n, 20),) for n in (13, 17, 9)]
    kiln.counters.clear()
    assert_trains_alike(Mlp(nn.LayerNorm), batches, square_loss, dynamic=True)
    assert_nothing_is_left_to_pytorch()
    assert kiln.counters["recompiles"] == 0


def test_a_language_model_with_dynamic_shapes_infers_as_in_eager_mode():
    model = ZOO["gpt2"]().model.eval()
    called = torch.compile(model, backend="kiln", dynamic=True)
    kiln.counters.clear()
    with torch.no_grad():
        for rows, length in ((2, 24), (3, 17), (5, 40)):
            ids = torch.randint(3, 90, (rows, length))
            torch.testing.assert_close(
                called(input_ids=ids).logits, model(input_ids=ids).logits, rtol=1e-4, atol=1e-4
            )
    assert_nothing_is_left_to_pytorch()


def test_the_comparison_fails_for_a_gradient_that_is_a_hundredth_too_large():
    def right(module, _):
        return module

    def wrong(module, _):
        def run(*inputs):
            return [t * 1.01 if isinstance(t, torch.Tensor) else t for t in module(*inputs)]

        return run

    batch = (torch.randn(13, 20),)
    assert_trains_alike(
        Mlp(nn.LayerNorm), [batch], square_loss, backend=aot_autograd(fw_compiler=right)
    )
    with pytest.raises(AssertionError, match="step 0: gradient of"):
        assert_trains_alike(
            Mlp(nn.LayerNorm),
            [batch],
            square_loss,
            backend=aot_autograd(fw_compiler=right, bw_compiler=wrong),
        )
