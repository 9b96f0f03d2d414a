"""Small models of many families, with random weights, each with inputs and a loss.

zoo()["gpt2"] -> Case(model, batch, loss)      `loss(called_model, batch)`: what is trained on
"""

from collections import namedtuple

import torch
import torch.nn.functional as F
from torch import nn

# `loss` None: inference only, and the model's results and its inputs afterwards are compared.
# `ties`: see assert_trains_alike.
Case = namedtuple("Case", "model batch loss ties", defaults=[False])

EAGER = dict(attn_implementation="eager")
SDPA = dict(attn_implementation="sdpa")
SMALL = dict(
    vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
)
DECODER = dict(
    **SMALL,
    num_key_value_heads=2,
    use_cache=False,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
ENCODER = dict(**SMALL, max_position_embeddings=64)
GPT2 = dict(
    vocab_size=96,
    n_embd=32,
    n_layer=2,
    n_head=4,
    n_positions=64,
    use_cache=False,
    bos_token_id=1,
    eos_token_id=2,
)
PICTURE = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    image_size=32,
    patch_size=8,
    num_labels=10,
)
RESNET = dict(embedding_size=8, hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1], num_labels=10)
BART = dict(
    vocab_size=96,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    max_position_embeddings=64,
    use_cache=False,
)

# name: (model class, configuration class, its words); all of Hugging Face's transformers.
TEXT = {
    "bert": ("BertForMaskedLM", "BertConfig", {**ENCODER, **EAGER}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, **EAGER}),
    "gpt2_sdpa": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, **SDPA}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**DECODER, **EAGER}),
    "llama_sdpa": ("LlamaForCausalLM", "LlamaConfig", {**DECODER, **SDPA}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**DECODER, **EAGER, "head_dim": 8}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**DECODER, **EAGER, "head_dim": 8}),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {**ENCODER, **EAGER, "use_cache": False}),
    "bloom": (
        "BloomForCausalLM",
        "BloomConfig",
        dict(vocab_size=96, hidden_size=32, n_layer=2, n_head=4, use_cache=False),
    ),
    "distilbert": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        dict(
            vocab_size=96,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            max_position_embeddings=64,
            **EAGER,
        ),
    ),
    "albert": ("AlbertForMaskedLM", "AlbertConfig", {**ENCODER, **EAGER, "embedding_size": 16}),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", {**ENCODER, "embedding_size": 16}),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        dict(
            vocab_size=96,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            use_cache=False,
        ),
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", {**BART, **EAGER}),
}
TEXT_INFERENCE = {
    "bert_sdpa_infer": ("BertForMaskedLM", "BertConfig", {**ENCODER, **SDPA}),
    "llama_infer": ("LlamaForCausalLM", "LlamaConfig", {**DECODER, **EAGER}),
    "mixtral_infer": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {**DECODER, **EAGER, "num_local_experts": 4, "experts_implementation": "batched_mm"},
    ),
    "falcon_infer": (
        "FalconForCausalLM",
        "FalconConfig",
        dict(
            vocab_size=96,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            use_cache=False,
            **EAGER,
        ),
    ),
}
VISION = {
    "vit": ("ViTForImageClassification", "ViTConfig", {**PICTURE, **EAGER}),
    "beit": ("BeitForImageClassification", "BeitConfig", PICTURE),
    "convnext": (
        "ConvNextForImageClassification",
        "ConvNextConfig",
        dict(hidden_sizes=[8, 16, 32, 32], depths=[1, 1, 2, 1], num_labels=10),
    ),
    "resnet": ("ResNetForImageClassification", "ResNetConfig", RESNET),
}
VISION_INFERENCE = {"resnet_infer": ("ResNetForImageClassification", "ResNetConfig", RESNET)}


def _transformer(row, train):
    import transformers

    model_class, config_class, words = row
    config = getattr(transformers, config_class)(**words)
    for key, value in list(vars(config).items()):
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    return getattr(transformers, model_class)(config).train(train)


def language_loss(model, ids):
    return model(input_ids=ids, labels=ids).loss


def picture_loss(model, batch):
    return model(pixel_values=batch[0], labels=batch[1]).loss


def class_loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def square_loss(model, batch):
    return model(*batch).square().mean()


def direct_loss(model, batch):
    return model(*batch)


def _ids():
    return torch.randint(3, 90, (2, 24))


def _pictures(size=32, count=2):
    return torch.randn(count, 3, size, size), torch.randint(0, 10, (count,))


class Mlp(nn.Module):
    """Linear, norm, gelu, linear."""

    def __init__(self, norm=nn.LayerNorm):
        super().__init__()
        self.first = nn.Linear(20, 48)
        self.norm = norm(48)
        self.last = nn.Linear(48, 7)

    def forward(self, x):
        return self.last(F.gelu(self.norm(self.first(x))))


class LinearCrossEntropy(nn.Module):
    """A language model's last layer and its loss."""

    def __init__(self, width, words):
        super().__init__()
        self.linear = nn.Linear(width, words)

    def forward(self, x, y):
        return F.cross_entropy(self.linear(x).flatten(0, 1), y.flatten())


class Block(nn.Module):
    def __init__(self, wide_in, wide_out):
        super().__init__()
        self.norm = nn.GroupNorm(4, wide_in)
        self.conv = nn.Conv2d(wide_in, wide_out, 3, padding=1)
        self.skip = nn.Conv2d(wide_in, wide_out, 1)

    def forward(self, x):
        return self.conv(F.silu(self.norm(x))) + self.skip(x)


class UNet(nn.Module):
    """One step down, one up, and an embedding of time."""

    def __init__(self):
        super().__init__()
        self.start = nn.Conv2d(3, 8, 3, padding=1)
        self.down, self.middle, self.up = Block(8, 16), Block(16, 16), Block(24, 8)
        self.end = nn.Conv2d(8, 3, 3, padding=1)
        self.time = nn.Linear(16, 16)

    def forward(self, x, t):
        wide = self.start(x)
        low = self.down(F.avg_pool2d(wide, 2))
        angle = t[:, None] * torch.exp(torch.arange(8, device=x.device) * -0.5)
        # The embedding is made in float32, whatever the model is in.
        waves = torch.cat([angle.sin(), angle.cos()], -1).to(self.time.weight.dtype)
        time = self.time(waves)
        low = self.middle(low + time[:, :, None, None])
        return self.end(self.up(torch.cat([F.interpolate(low, scale_factor=2.0), wide], 1)))


class Recommender(nn.Module):
    """Bags of embeddings and their products with each other."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(50, 8, mode="sum") for _ in range(3))
        self.dense = nn.Linear(10, 8)
        self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, ids):
        x = F.relu(self.dense(dense))
        rows = torch.stack([x] + [bag(ids[:, k]) for k, bag in enumerate(self.bags)], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, i, j]], 1)))


class AdamStep(nn.Module):
    """Adam over lists of tensors, which it changes in place."""

    def forward(self, weights, gradients, means, squares):
        torch._foreach_mul_(means, 0.9)
        torch._foreach_add_(means, gradients, alpha=0.1)
        torch._foreach_mul_(squares, 0.999)
        torch._foreach_addcmul_(squares, gradients, gradients, 0.001)
        roots = torch._foreach_add(torch._foreach_sqrt(squares), 1e-8)
        torch._foreach_addcdiv_(weights, means, roots, -0.01)
        return torch.stack([weight.sum() for weight in weights])


class CachedAttention(nn.Module):
    """Attention of the newest word to those before it, whose keys and values are kept."""

    def __init__(self, width=16):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, keys, values, place):
        keys.index_copy_(1, place, self.key(x))
        values[:, place] = self.value(x)
        scores = self.query(x) @ keys.mT * x.shape[-1] ** -0.5
        later = torch.arange(keys.shape[1], device=x.device) > place
        return scores.masked_fill(later, -torch.inf).softmax(-1) @ values


def _timm():
    from timm.models import efficientnet, metaformer, mlp_mixer, xcit

    blocks = [
        ["ds_r1_k3_s1_e1_c8_se0.25"],
        ["ir_r1_k3_s2_e2_c12_se0.25"],
        ["ir_r1_k5_s2_e2_c16_se0.25"],
    ]
    return {
        "mixer": lambda: Case(
            mlp_mixer.MlpMixer(
                num_classes=10, img_size=32, patch_size=8, embed_dim=32, num_blocks=2
            ),
            _pictures(),
            class_loss,
        ),
        "poolformer": lambda: Case(
            metaformer.MetaFormer(
                num_classes=10,
                depths=(1, 1, 1, 1),
                dims=(8, 16, 24, 32),
                token_mixers=metaformer.Pooling,
                norm_layers=metaformer.GroupNorm1,
                layer_scale_init_values=1e-5,
                res_scale_init_values=None,
                use_mlp_head=False,
            ),
            _pictures(64),
            class_loss,
        ),
        "efficientnet": lambda: Case(
            efficientnet.EfficientNet(
                efficientnet.decode_arch_def(blocks),
                num_classes=10,
                num_features=32,
                stem_size=8,
                act_layer=nn.SiLU,
            ),
            _pictures(),
            class_loss,
        ),
        "xcit": lambda: Case(
            xcit.Xcit(
                num_classes=10, img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4
            ),
            _pictures(),
            class_loss,
        ),
    }


def _lists():
    return [torch.rand(size) for size in (40, 257, 3)]


def _labels_with_gaps():
    labels = torch.randint(0, 101, (3, 8))
    return labels.masked_fill(torch.rand(3, 8) < 0.3, -100)  # cross entropy's ignore_index


def _own():
    return {
        "mlp_layernorm": lambda: Case(Mlp(), (torch.randn(13, 20),), square_loss),
        "mlp_batchnorm": lambda: Case(Mlp(nn.BatchNorm1d), (torch.randn(13, 20),), square_loss),
        "linear_cross_entropy": lambda: Case(
            LinearCrossEntropy(24, 101),
            (torch.randn(3, 8, 24, requires_grad=True), torch.randint(0, 101, (3, 8))),
            direct_loss,
        ),
        "linear_cross_entropy_ignore": lambda: Case(
            LinearCrossEntropy(24, 101),
            (torch.randn(3, 8, 24, requires_grad=True), _labels_with_gaps()),
            direct_loss,
        ),
        "unet": lambda: Case(UNet(), (torch.randn(2, 3, 16, 16), torch.rand(2)), square_loss),
        "transformer_layer": lambda: Case(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True),
            (torch.randn(2, 9, 32),),
            square_loss,
        ),
        "recommender": lambda: Case(
            Recommender(), (torch.randn(5, 10), torch.randint(0, 50, (5, 3, 4))), square_loss
        ),
        "adam_step_infer": lambda: Case(AdamStep(), tuple(_lists() for _ in range(4)), None),
        "cached_attention_infer": lambda: Case(
            CachedAttention(),
            (torch.randn(2, 1, 16), *torch.randn(2, 2, 10, 16), torch.tensor([4])),
            None,
        ),
    }


def zoo():
    """{name: function that gives a Case}."""
    cases = {}
    for name, row in TEXT.items():
        cases[name] = lambda row=row: Case(_transformer(row, True), _ids(), language_loss)
    for name, row in TEXT_INFERENCE.items():
        cases[name] = lambda row=row: Case(_transformer(row, False), {"input_ids": _ids()}, None)
    for name, row in VISION.items():
        cases[name] = lambda row=row: Case(_transformer(row, True), _pictures(), picture_loss)
    # Two pictures of 32 pixels leave its last batch norms two numbers each to norm, and then eager
    # mode differs from itself in float64 by a fifth after three steps.
    cases["resnet"] = lambda: Case(
        _transformer(VISION["resnet"], True), _pictures(64, 8), picture_loss, ties=True
    )
    for name, row in VISION_INFERENCE.items():
        cases[name] = lambda row=row: Case(
            _transformer(row, False), {"pixel_values": _pictures()[0]}, None
        )
    return {**cases, **_timm(), **_own()}
