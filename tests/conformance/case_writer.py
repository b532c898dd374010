"""Writes a model, inputs and expected outputs, in the layout of the ONNX suite."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def run_model(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """What ONNX Runtime makes of the inputs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, inputs))


def write_case(
    folder: Path,
    model: onnx.ModelProto,
    inputs: dict[str, np.ndarray],
    outputs: list[np.ndarray] | None = None,
) -> None:
    """`inputs` has an array for each input of the model by its name; initialisers may be left out.

    `outputs` are for operators that ONNX Runtime has on GPUs only.
    """
    if outputs is None:
        outputs = run_model(model, inputs)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    constants = {t.name for t in model.graph.initializer} - set(inputs)
    given = [slot for slot in model.graph.input if slot.name not in constants]
    for kind, slots, values in (
        ("input", given, [inputs[slot.name] for slot in given]),
        ("output", model.graph.output, outputs),
    ):
        for i, (slot, value) in enumerate(zip(slots, values, strict=True)):
            tensor = numpy_helper.from_array(np.asarray(value), slot.name)
            (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
    print(folder.name)
