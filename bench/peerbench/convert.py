"""Converts a model to a peer's own form. Runs in that peer's environment:

python -m peerbench.convert PEER CASE FOLDER
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from . import cases


class ConversionError(Exception):
    pass


def run(program: str, arguments: list[str], cwd: Path, interpreter: tuple[str, ...] = ()) -> None:
    command = [*interpreter, program, *arguments]
    done = subprocess.run(
        command, check=False, cwd=cwd, capture_output=True, text=True, errors="replace"
    )
    if done.returncode == 0:
        return
    lines = (done.stderr + "\n" + done.stdout).strip().splitlines()
    telling = [line for line in lines if "error" in line.lower()] or lines[-1:] or ["no output"]
    raise ConversionError(
        f"{Path(program).name} exited with {done.returncode}: {telling[0].strip()[:300]}"
    )


def run_script(name: str, arguments: list[str], cwd: Path) -> None:
    """A script of this environment. Its first line is wrong if the environment was moved."""
    run(str(Path(sys.executable).parent / name), arguments, cwd, interpreter=(sys.executable,))


def ncnn(case: Path, folder: Path) -> None:
    kinds = {"float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "bool": "u8"}
    shapes = []
    for name, value in cases.inputs(case).items():
        if value.dtype.name not in kinds:
            raise ConversionError(f"pnnx: input '{name}' is of type {value.dtype.name}")
        shapes.append(f"[{','.join(map(str, value.shape))}]{kinds[value.dtype.name]}")
    shutil.copyfile(case / "model.onnx", folder / "model.onnx")
    # Run the program itself, because the package's script needs torch.
    pnnx = str(Path(sysconfig.get_path("purelib")) / "pnnx" / "pnnx")
    run(pnnx, ["model.onnx", f"inputshape={','.join(shapes)}", "fp16=0"], folder)
    if not (folder / "model.ncnn.param").exists():
        raise ConversionError("pnnx wrote no model.ncnn.param")
    text = (folder / "model.ncnn.param").read_text()
    unknown = sorted({line.split()[0] for line in text.splitlines()[2:] if "." in line.split()[0]})
    if unknown:
        raise ConversionError(f"pnnx left operators that ncnn does not have: {', '.join(unknown)}")


def iree(case: Path, folder: Path) -> None:
    cases.freeze(case, folder / "frozen.onnx")
    run_script(
        "iree-import-onnx",
        ["frozen.onnx", "--opset-version", "17", "-o", "model.mlir"],
        folder,
    )
    run_script(
        "iree-compile",
        ["model.mlir", "--iree-hal-target-device=vulkan", "-o", "model.vmfb"],
        folder,
    )


def main() -> int:
    peer, case, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    try:
        {"ncnn": ncnn, "iree": iree}[peer](case, folder)
    except Exception as e:  # noqa: BLE001 - any failure of a converter is its result
        print(e if isinstance(e, ConversionError) else f"{type(e).__name__}: {e}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
