"""Model classes: three training steps, or inference, under Kiln against eager mode."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from training import assert_trains_alike

SMALL = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)


class Mlp(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first = nn.Linear(20, 48)
        self.norm = norm(48)
        self.last = nn.Linear(48, 7)

    def forward(self, x):
        return self.last(F.gelu(self.norm(self.first(x))))


def square_loss(model, x):
    return model(x).square().mean()


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.BatchNorm1d])
def test_an_mlp_trains_as_in_eager_mode(norm):
    assert_trains_alike(Mlp(norm), [torch.randn(13, 20)], square_loss)


def language_loss(model, ids):
    return model(input_ids=ids, labels=ids).loss


def without_dropout(config):
    for key, value in list(vars(config).items()):
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    return config


def gpt2(attention="eager"):
    import transformers

    config = transformers.GPT2Config(
        vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False,
        bos_token_id=1, eos_token_id=2, attn_implementation=attention,
    )
    return transformers.GPT2LMHeadModel(without_dropout(config)).train()


def bert():
    import transformers

    config = transformers.BertConfig(
        **SMALL, max_position_embeddings=64, attn_implementation="eager"
    )
    return transformers.BertForMaskedLM(without_dropout(config)).train()


@pytest.mark.parametrize("make", [gpt2, bert], ids=["gpt2", "bert"])
def test_a_language_model_trains_as_in_eager_mode(make):
    assert_trains_alike(make(), [torch.randint(3, 90, (2, 24))], language_loss)


def test_a_model_with_dynamic_shapes_trains_as_in_eager_mode():
    batches = [torch.randn(n, 20) for n in (13, 17, 9)]
    assert_trains_alike(Mlp(nn.LayerNorm), batches, square_loss, dynamic=True)
