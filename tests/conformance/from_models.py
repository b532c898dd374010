#!/usr/bin/env python3
"""Makes cases of models that others wrote: random inputs, and the outputs of ONNX Runtime."""

import argparse
import multiprocessing
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
from case_writer import run_model, write_case

DESCRIPTION = """\
Every .onnx file below FOLDER becomes a case below CASES, which `reprise conformance CASES` runs. Inputs
are random. Dims without a size become 2, then 3, 1 and 4 until ONNX Runtime computes the model, and
integers come from ranges that suit indices. A model that it does not compute is listed with its error.
Needs a Python with onnx and onnxruntime.
"""
ATTEMPTS = (2, 3, 1, 4)  # sizes of dims that the model leaves open
RANGES = ((0, 2), (-3, 4), (1, 4), (0, 1))
MOST_ELEMENTS = 4_000_000
SECONDS = 60  # for one model


def random_input(rng: np.random.Generator, slot: onnx.ValueInfoProto, attempt: int) -> np.ndarray:
    if slot.type.WhichOneof("value") != "tensor_type":
        raise ValueError(f"input {slot.name} is not a tensor")
    tensor = slot.type.tensor_type
    dims = [d.dim_value if d.dim_value > 0 else ATTEMPTS[attempt] for d in tensor.shape.dim]
    if np.prod(dims, dtype=float) > MOST_ELEMENTS:
        raise ValueError(f"input {slot.name} has too many elements")
    if tensor.elem_type == onnx.TensorProto.STRING:
        return rng.choice(np.array(["a", "bc", ""], dtype=object), dims)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype == np.bool_:
        return rng.integers(0, 2, dims).astype(bool)
    if np.issubdtype(dtype, np.integer):
        low, high = RANGES[attempt]
        if np.issubdtype(dtype, np.unsignedinteger):
            low, high = 0, 200 if attempt == 0 else 2
        return rng.integers(low, high, dims).astype(dtype)
    values = rng.standard_normal(dims)
    return np.asarray(np.abs(values) if attempt == 2 else values).astype(dtype)


def make_case(path: Path, case: Path) -> None:
    model = onnx.load(str(path))
    constants = {t.name for t in model.graph.initializer}
    slots = [i for i in model.graph.input if i.name not in constants]
    for attempt in range(len(ATTEMPTS)):
        rng = np.random.default_rng(attempt)
        inputs = {slot.name: random_input(rng, slot, attempt) for slot in slots}
        try:
            outputs = run_model(model, inputs)
        except Exception as error:  # ONNX Runtime's exceptions have no common base
            if attempt + 1 == len(ATTEMPTS):
                raise ValueError(f"ONNX Runtime: {error}") from error
            continue
        if not all(isinstance(o, np.ndarray) for o in outputs):
            raise ValueError("an output is not a tensor")
        write_case(case, model, inputs, outputs)
        return


def in_child(path: Path, case: Path) -> None:
    try:
        make_case(path, case)
    except Exception as error:  # noqa: BLE001 - a case that cannot be made is reported and skipped
        shutil.rmtree(case, ignore_errors=True)
        print(f"skipped {path}: {str(error)[:200]}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", type=Path)
    options = parser.parse_args()
    models = sorted(options.folder.rglob("*.onnx"))
    for path in models:
        name = "_".join(path.relative_to(options.folder).with_suffix("").parts)[-120:]
        case = options.cases / name
        if case.exists():
            continue
        # A model may crash ONNX Runtime or never end.
        child = multiprocessing.Process(target=in_child, args=(path, case))
        child.start()
        child.join(SECONDS)
        if child.exitcode != 0:
            child.kill()
            child.join()
            shutil.rmtree(case, ignore_errors=True)
            print(f"skipped {path}: exit code {child.exitcode}", file=sys.stderr)
    made = sum(1 for c in options.cases.glob("*/test_data_set_0"))
    print(f"{made} cases of {len(models)} models in {options.cases}")
    return 0 if made else 4


if __name__ == "__main__":
    sys.exit(main())
