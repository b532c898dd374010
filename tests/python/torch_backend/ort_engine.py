"""Runs the models of the backend with ONNX Runtime, to tell faults of the table from others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
import torch
from reprise.torch.engine import CompileError, Kernels


class OrtProgram:
    weights = "watch"

    def __init__(self, model: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        )
        try:
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise CompileError(str(error)) from error
        self._names = [i.name for i in self._session.get_inputs()]

    def run(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        feed = {
            n: np.asarray(t.numpy()) for n, t in zip(self._names, inputs, strict=True)
        }
        for made, output in zip(self._session.run(None, feed), outputs, strict=True):
            assert tuple(made.shape) == tuple(output.shape), (made.shape, output.shape)
            output.copy_(torch.from_numpy(np.array(made, order="C")))

    def kernels(self) -> Kernels:
        return Kernels()

    def resident(self, tensor: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
        return stored


class OrtEngine:
    def compile(self, model: bytes) -> OrtProgram:
        return OrtProgram(model)
