"""BERT of transformers whose batch size and length of text change."""

from __future__ import annotations

import unittest

import torch
from dynamic_shapes import DynamicCase
from models import MODELS
from torch import nn


def _hidden(net: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = net(input_ids=tokens).last_hidden_state
    return found


class DynamicModels(DynamicCase):
    def test_bert_inference(self) -> None:
        self.check(MODELS["bert"]()[0], _hidden, training=False)

    def test_bert_training(self) -> None:
        self.check(MODELS["bert"]()[0], _hidden, training=True)


if __name__ == "__main__":
    unittest.main()
