"""Model classes: three training steps, or inference, under Kiln against eager mode."""

import pytest
import torch
from torch import nn

from model_zoo import Mlp, square_loss, zoo
from training import assert_trains_alike

ZOO = zoo()


@pytest.mark.parametrize("name", sorted(ZOO))
def test_a_model_gives_what_eager_mode_gives(name):
    case = ZOO[name]()
    if case.loss is not None:
        assert_trains_alike(case.model, [case.batch], case.loss)
        return
    compiled = torch.compile(case.model, backend="kiln")
    with torch.no_grad():
        torch.testing.assert_close(
            compiled(**case.batch).logits, case.model(**case.batch).logits, rtol=1e-4, atol=1e-4
        )


def test_a_model_with_dynamic_shapes_trains_as_in_eager_mode():
    batches = [(torch.randn(n, 20),) for n in (13, 17, 9)]
    assert_trains_alike(Mlp(nn.LayerNorm), batches, square_loss, dynamic=True)
