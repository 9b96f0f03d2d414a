"""Model classes: three training steps, or inference, under Kiln against eager mode."""

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import kiln
from model_zoo import Mlp, square_loss, zoo
from training import assert_infers_alike, assert_trains_alike

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
        assert_trains_alike(case.model, [case.batch], case.loss, ties=case.ties)
    else:
        assert_infers_alike(case.model, [case.batch])
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
    sizes = ((2, 24), (3, 17), (5, 40))
    kiln.counters.clear()
    assert_infers_alike(
        model, [{"input_ids": torch.randint(3, 90, size)} for size in sizes], dynamic=True
    )
    assert_nothing_is_left_to_pytorch()


def same(module, _):
    return module


def a_thousandth_too_large(module, _):
    def run(*inputs):
        return [t * 1.001 if isinstance(t, torch.Tensor) else t for t in module(*inputs)]

    return run


def test_the_comparison_fails_for_a_gradient_that_is_a_thousandth_too_large():
    batch = (torch.randn(13, 20),)
    right = aot_autograd(fw_compiler=same)
    wrong = aot_autograd(fw_compiler=same, bw_compiler=a_thousandth_too_large)
    assert_trains_alike(Mlp(nn.LayerNorm), [batch], square_loss, backend=right)
    with pytest.raises(AssertionError, match="step 0: .*gradient of"):
        assert_trains_alike(Mlp(nn.LayerNorm), [batch], square_loss, backend=wrong)


def test_the_comparison_fails_for_results_and_written_inputs_that_are_a_thousandth_too_large():
    right = aot_autograd(fw_compiler=same)
    wrong = aot_autograd(fw_compiler=a_thousandth_too_large)
    for name, where in (("cached_attention_infer", "result 0"), ("adam_step_infer", "input")):
        case = ZOO[name]()
        assert_infers_alike(case.model, [case.batch], backend=right)
        with pytest.raises(AssertionError, match=f"batch 0: .*{where}"):
            assert_infers_alike(case.model, [case.batch], backend=wrong)
