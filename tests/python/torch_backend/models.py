"""Small configurations of well-known models with random weights, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def _image(size: int = 32, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def _vision(name: str, **options: Any) -> Made:
    """Images are large enough for the last batch normalisation to average over many elements."""
    import torchvision

    model = getattr(torchvision.models, name)(num_classes=10, **options)
    return model, (_image(96, 4),), {}


def _vit() -> Made:
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)
    return model, (_image(),), {}


def _swin() -> Made:
    from torchvision.models.swin_transformer import SwinTransformer

    model = SwinTransformer(
        [4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10, stochastic_depth_prob=0.0
    )
    return model, (_image(64, 1),), {}


def _convnext() -> Made:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    model = ConvNeXt(
        [CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], num_classes=10
    )
    return model, (_image(),), {}


def _tokens(vocabulary: int, length: int = 12) -> torch.Tensor:
    return torch.randint(2, vocabulary, (2, length))


def _bert() -> Made:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config), (), {"input_ids": _tokens(99)}


def _gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=99, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    return GPT2LMHeadModel(config), (), {"input_ids": _tokens(99)}


def _llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), (), {"input_ids": _tokens(99)}


def _t5() -> Made:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0, use_cache=False,
    )  # fmt: skip
    inputs = {"input_ids": _tokens(99), "decoder_input_ids": _tokens(99, 7)}
    return T5ForConditionalGeneration(config), (), inputs


def _whisper() -> Made:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=99, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=16, max_target_positions=16, dropout=0.0,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False,
    )  # fmt: skip
    inputs = {
        "input_features": torch.randn(2, 8, 32),
        "decoder_input_ids": _tokens(99, 6),
    }
    return WhisperForConditionalGeneration(config), (), inputs


class LstmLanguageModel(nn.Module):
    """Words, two LSTM layers, words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 24)
        self.layers = nn.LSTM(24, 32, 2, batch_first=True)
        self.out = nn.Linear(32, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.layers(self.words(tokens))[0])
        return result


class GraphNetwork(nn.Module):
    """Two layers that add up messages along edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            messages = layer(nodes)[edges[0]]
            total = torch.zeros(nodes.shape[0], messages.shape[1])
            nodes = torch.relu(total.index_add(0, edges[1], messages))
        return nodes


class UNet(nn.Module):
    """Two levels with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.Conv2d(8, 16, 3, padding=1),
        )
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.norm, self.out = nn.GroupNorm(2, 8), nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = torch.relu(self.norm(self.down(x)))
        deep = torch.relu(self.deep(torch.max_pool2d(skip, 2)))
        return self.out(torch.cat([skip, self.up(deep)], 1))


def _diffusion() -> Made:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=16, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4,
    )  # fmt: skip
    return model, (_image(16, 1), torch.tensor([3])), {}


MODELS: dict[str, Callable[[], Made]] = {
    "bert": _bert,
    "convnext": _convnext,
    "diffusion": _diffusion,
    "efficientnet_b0": lambda: _vision(
        "efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0
    ),
    "gnn": lambda: (
        GraphNetwork(),
        (torch.randn(10, 8), torch.randint(10, (2, 30))),
        {},
    ),
    "gpt2": _gpt2,
    "llama": _llama,
    "lstm": lambda: (LstmLanguageModel(), (torch.randint(50, (2, 9)),), {}),
    "mobilenet_v3_small": lambda: _vision("mobilenet_v3_small", dropout=0.0),
    "resnet18": lambda: _vision("resnet18"),
    "swin": _swin,
    "t5": _t5,
    "unet": lambda: (UNet(), (_image(),), {}),
    "vit": _vit,
    "whisper": _whisper,
}
