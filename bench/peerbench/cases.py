"""Cases in the layout of the ONNX backend suite; needs numpy and onnx."""

import re
from pathlib import Path

import numpy
import onnx
from onnx import numpy_helper


def find(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("model.onnx"))


def _tensors(case: Path, kind: str) -> list[tuple[str, numpy.ndarray]]:
    files = [
        (int(match[1]), path)
        for path in (case / "test_data_set_0").iterdir()
        if (match := re.fullmatch(rf"{kind}_(\d+)\.pb", path.name))
    ]
    out = []
    for _, path in sorted(files):
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        out.append((tensor.name, numpy_helper.to_array(tensor)))
    return out


def input_names(model: onnx.ModelProto) -> list[str]:
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in weights]


def inputs(case: Path) -> dict[str, numpy.ndarray]:
    """Inputs by name, in the model's order. A tensor without the name of an input goes by position."""
    model = onnx.load(case / "model.onnx", load_external_data=False)
    names = input_names(model)
    found = {}
    for position, (name, value) in enumerate(_tensors(case, "input")):
        found[name if name in names else names[position]] = value
    return {name: found[name] for name in names if name in found}


def outputs(case: Path) -> list[numpy.ndarray]:
    return [value for _, value in _tensors(case, "output")]


def freeze(case: Path, target: Path) -> None:
    """Writes the model with the input dims of the test data, for peers that need fixed dims."""
    model = onnx.load(case / "model.onnx")
    given = inputs(case)
    for value in model.graph.input:
        if value.name in given:
            shape = value.type.tensor_type.shape
            shape.ClearField("dim")
            for size in given[value.name].shape:
                shape.dim.add().dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    onnx.save(onnx.shape_inference.infer_shapes(model, data_prop=True), target)


def error(actual: list[numpy.ndarray], expected: list[numpy.ndarray]) -> float:
    """The largest error of all outputs relative to the output's range; infinite if shapes differ."""
    if len(actual) < len(expected):
        return float("inf")
    worst = 0.0
    for got, want in zip(actual, expected):
        if got.size != want.size:
            return float("inf")
        if want.size == 0:
            continue
        want = want.astype(numpy.float64).ravel()
        got = got.astype(numpy.float64).ravel()
        difference = numpy.where(
            (got == want) | (numpy.isnan(got) & numpy.isnan(want)), 0, numpy.abs(got - want)
        )
        finite = want[numpy.isfinite(want)]
        span = float(numpy.ptp(finite)) if finite.size else 0.0
        span = span or (float(numpy.abs(finite).max()) if finite.size else 0.0) or 1.0
        largest = float(difference.max()) / span
        worst = max(worst, largest if numpy.isfinite(largest) else float("inf"))
    return worst
