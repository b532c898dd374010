"""More small models with random weights: other families than those of models.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from models import Made, _image, _tokens, _vision
from torch import nn


def _hugging_face(model: str, config: str, length: int = 12, **options: Any) -> Made:
    """A language model of transformers, which reads tokens."""
    import transformers

    made = getattr(transformers, config)(**options)
    words = int(getattr(made, "vocab_size", 99))
    return getattr(transformers, model)(made), (), {"input_ids": _tokens(words, length)}


_SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_DECODER = {
    **_SMALL, "intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 32,
    "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def _image_model(model: str, config: str, **options: Any) -> Made:
    """A vision model of transformers."""
    import transformers

    made = getattr(transformers, config)(**options)
    image = _image(int(options.get("image_size", 32)))
    return getattr(transformers, model)(made), (), {"pixel_values": image}


def _mobilebert() -> Made:
    return _hugging_face(
        "MobileBertModel", "MobileBertConfig", vocab_size=99, hidden_size=32, embedding_size=16,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, true_hidden_size=32,
        intra_bottleneck_size=32, **_NO_DROPOUT,
    )  # fmt: skip


def _distilbert() -> Made:
    return _hugging_face(
        "DistilBertModel", "DistilBertConfig", vocab_size=99, dim=32, n_layers=2, n_heads=4,
        hidden_dim=64, dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip


def _bart() -> Made:
    model, args, kwargs = _hugging_face(
        "BartModel", "BartConfig", vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_position_embeddings=32, dropout=0.0, use_cache=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2,
    )  # fmt: skip
    return model, args, kwargs | {"decoder_input_ids": _tokens(99, 7)}


def _opt() -> Made:
    return _hugging_face(
        "OPTForCausalLM", "OPTConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, ffn_dim=64, max_position_embeddings=32, dropout=0.0,
        word_embed_proj_dim=32, use_cache=False,
    )  # fmt: skip


def _clip() -> Made:
    from transformers import CLIPConfig, CLIPModel

    config = CLIPConfig(
        text_config={
            "vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 32, "bos_token_id": 1,
            "eos_token_id": 2,
        },
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
        },
        projection_dim=16,
    )  # fmt: skip
    return CLIPModel(config), (), {"input_ids": _tokens(99), "pixel_values": _image()}


def _wav2vec2() -> Made:
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    config = Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, hidden_dropout=0.0,
        attention_dropout=0.0, feat_proj_dropout=0.0, activation_dropout=0.0, layerdrop=0.0,
        mask_time_prob=0.0,
    )  # fmt: skip
    return Wav2Vec2Model(config), (torch.randn(2, 400),), {}


def _segmentation(name: str) -> Made:
    import torchvision

    model = getattr(torchvision.models.segmentation, name)(
        weights=None, weights_backbone=None, num_classes=4
    )
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return model, (_image(64, 4),), {}


def _resnet3d() -> Made:
    from torchvision.models.video import r3d_18

    return r3d_18(num_classes=5), (torch.randn(2, 3, 4, 32, 32),), {}


def _conditioned_unet() -> Made:
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=4,
        cross_attention_dim=12,
    )  # fmt: skip
    return (
        model,
        (torch.randn(1, 4, 16, 16), torch.tensor([3]), torch.randn(1, 5, 12)),
        {},
    )


def _autoencoder() -> Made:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1, latent_channels=2,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
        sample_size=16,
    )  # fmt: skip
    return model, (_image(16, 1),), {}


class GruClassifier(nn.Module):
    """Words, a bidirectional GRU, a class."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 24)
        self.layers = nn.GRU(24, 16, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(32, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, last = self.layers(self.words(tokens))
        result: torch.Tensor = self.out(states.mean(1)) + last.sum()
        return result


class Mixer(nn.Module):
    """Patches, and two layers that mix positions and channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, stride=4)
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(4))
        self.positions = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        self.channels = nn.ModuleList(nn.Linear(24, 24) for _ in range(2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        for i in range(2):
            mixed = self.positions[i](self.norms[2 * i](x).transpose(1, 2))
            x = x + F.gelu(mixed).transpose(1, 2)
            x = x + F.gelu(self.channels[i](self.norms[2 * i + 1](x)))
        return x.mean(1)


class Experts(nn.Module):
    """Each token goes through the two best of four experts, whose results are weighted."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.up = nn.Parameter(torch.randn(4, 16, 32) * 0.2)
        self.down = nn.Parameter(torch.randn(4, 32, 16) * 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
        hidden = F.silu(torch.einsum("bti,eio->bteo", x, self.up))
        all_results = torch.einsum("bteo,eoi->btei", hidden, self.down)
        index = chosen.unsqueeze(-1).expand(*chosen.shape, x.shape[-1])
        picked = all_results.gather(2, index)
        return (picked * weights.unsqueeze(-1)).sum(2)


class StateSpace(nn.Module):
    """A gated linear recurrence as a cumulative sum in log space, with a causal convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(12, 48), nn.Linear(24, 12)
        self.mix = nn.Conv1d(24, 24, 4, groups=24, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.inner(x).chunk(2, -1)
        value = self.mix(value.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        decay = F.logsigmoid(gate).cumsum(1)
        state = torch.exp(decay) * (value * torch.exp(-decay)).cumsum(1)
        result: torch.Tensor = self.out(state * F.silu(gate))
        return result


class Tabular(nn.Module):
    """Embeddings of categories beside numbers, dropout at rate 0, and an EmbeddingBag."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 6) for n in (7, 11))
        self.norm, self.hidden = nn.BatchNorm1d(5), nn.Linear(17, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        parts = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        x = torch.cat([*parts, self.norm(numbers)], 1)
        return torch.sigmoid(self.out(F.selu(self.hidden(x)))).squeeze(-1)


def _densenet() -> nn.Module:
    from torchvision.models import DenseNet

    return DenseNet(8, (2, 3), 16, num_classes=10)


def _transformer() -> nn.Module:
    return nn.Transformer(
        16, 2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32, dropout=0.0,
        batch_first=True,
    )  # fmt: skip


MORE_MODELS: dict[str, Callable[[], Made]] = {
    "albert": lambda: _hugging_face(
        "AlbertModel", "AlbertConfig", **_SMALL, embedding_size=16, intermediate_size=64,
        **_NO_DROPOUT,
    ),
    "autoencoder_kl": _autoencoder,
    "bart": _bart,
    "clip": _clip,
    "deeplabv3": lambda: _segmentation("deeplabv3_mobilenet_v3_large"),
    "deit": lambda: _image_model(
        "DeiTModel", "DeiTConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, image_size=32, patch_size=8, **_NO_DROPOUT,
    ),
    "densenet": lambda: (
        _densenet(), (_image(32, 4),), {}
    ),
    "distilbert": _distilbert,
    "experts": lambda: (Experts(), (torch.randn(2, 5, 16),), {}),
    "fcn": lambda: _segmentation("fcn_resnet50"),
    "gemma2": lambda: _hugging_face(
        "Gemma2ForCausalLM", "Gemma2Config", **_DECODER, head_dim=8, sliding_window=8
    ),
    "googlenet": lambda: _vision(
        "googlenet", aux_logits=False, init_weights=True, dropout=0.0
    ),
    "gru": lambda: (GruClassifier(), (torch.randint(50, (3, 9)),), {}),
    "mixtral": lambda: _hugging_face(
        "MixtralForCausalLM", "MixtralConfig", **_DECODER, num_local_experts=4
    ),
    "mixer": lambda: (Mixer(), (_image(32, 2),), {}),
    "mnasnet": lambda: _vision("mnasnet0_5", dropout=0.0),
    "mobilebert": _mobilebert,
    "opt": _opt,
    "phi3": lambda: _hugging_face(
        "Phi3ForCausalLM", "Phi3Config", **_DECODER, resid_pdrop=0.0
    ),
    "qwen2": lambda: _hugging_face("Qwen2ForCausalLM", "Qwen2Config", **_DECODER),
    "regnet": lambda: _vision("regnet_y_400mf"),
    "resnet3d": _resnet3d,
    "roberta": lambda: _hugging_face(
        "RobertaModel", "RobertaConfig", **_SMALL, intermediate_size=64,
        max_position_embeddings=40, **_NO_DROPOUT,
    ),
    "segformer": lambda: _image_model(
        "SegformerModel", "SegformerConfig", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4], image_size=64, drop_path_rate=0.0,
        classifier_dropout_prob=0.0, **_NO_DROPOUT,
    ),
    "shufflenet": lambda: _vision("shufflenet_v2_x0_5"),
    "squeezenet": lambda: _vision("squeezenet1_1", dropout=0.0),
    "state_space": lambda: (StateSpace(), (torch.randn(2, 10, 12),), {}),
    "tabular": lambda: (Tabular(), (torch.randint(7, (8, 2)), torch.randn(8, 5)), {}),
    "transformer": lambda: (_transformer(), (torch.randn(2, 6, 16), torch.randn(2, 5, 16)), {}),
    "unet_conditioned": _conditioned_unet,
    "wav2vec2": _wav2vec2,
}  # fmt: skip
