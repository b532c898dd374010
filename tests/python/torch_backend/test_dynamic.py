"""A small encoder whose batch size and length of text change."""

from __future__ import annotations

import unittest

import torch
import torch.nn.functional as F
from dynamic_shapes import DynamicCase
from torch import nn


class Encoder(nn.Module):
    """A layer of a transformer after embeddings of words and places."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.all, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.attended, self.normed = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows, length = tokens.shape
        x = self.words(tokens) + self.places(torch.arange(length))
        heads = self.all(x).view(rows, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        hidden = F.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        hidden = hidden.transpose(1, 2).reshape(rows, length, 16)
        x = self.attended(x + self.out(hidden))
        return self.normed(x + self.down(F.gelu(self.up(x))))


class Dynamic(DynamicCase):
    def test_inference(self) -> None:
        self.check(Encoder(), lambda net, tokens: net(tokens), training=False)

    def test_training(self) -> None:
        self.check(Encoder(), lambda net, tokens: net(tokens), training=True)


if __name__ == "__main__":
    unittest.main()
