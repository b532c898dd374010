"""Writes models, inputs and expected outputs in the layout of the ONNX suite, and packs such cases."""

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
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


def pack(folder: Path) -> None:
    """Replaces a folder of cases by an archive. Its bytes depend on the cases alone."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.isdir() else 0o644
        return entry

    with tarfile.open(folder.with_suffix(".tar.xz"), "w:xz") as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder.parent).as_posix()
            archive.add(path, name, recursive=False, filter=plain)
    shutil.rmtree(folder)


@contextmanager
def archived(folder: Path) -> Iterator[None]:
    """Begins with an empty folder of cases, and packs it at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    yield
    pack(folder)
