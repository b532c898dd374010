"""Measures torch and ONNX Runtime on the cases of reprise_gpubench: prints one JSON line per result.

A process of its own: {"peer", "version"}, {"missing", "reason"}, or a contender's row of a case."""

import argparse
import functools
import json
import math
import re
import statistics
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 2e-2}


def say(**row) -> None:
    print(json.dumps(row), flush=True)


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def error_of(torch, actual, expected) -> float:
    """The largest error as a fraction of the largest value."""
    actual, expected = actual.double().cpu(), expected.double().cpu()
    if actual.shape != expected.shape:
        return math.inf
    worst = (actual - expected).abs().max().item()
    largest = expected.abs().max().item()
    return math.inf if math.isnan(worst) else worst / largest if largest else worst


class Workload:
    """A function of tensors on the device, and its expected result."""

    def __init__(self, run, inputs, expected):
        self.run, self.inputs, self.expected = run, inputs, expected


def float_tensor(torch, count: int, scale: float, offset: float):
    """Generates values like those of the model's constants."""
    i = torch.arange(count, dtype=torch.int64)
    return ((i * 2654435761 % 2048).double() / 1024 - 1) * scale + offset


def pointwise(torch, x, scale, bias):
    v = x * scale + bias
    for _ in range(3):
        v = torch.sin(v) + torch.cos(v) * torch.tanh(v)
        v = v * torch.sigmoid(v) + torch.relu(v)
        v = v / (v.abs() + 1)
    return v


def numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


class Workloads:
    """Makes the workload of a case from its name."""

    def __init__(self, torch, device: str, models: Path):
        self.torch, self.device, self.models = torch, device, models
        self.made = 0
        self.dtypes = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

    def made_up(self, *dims, dtype, scale=1.0):
        self.made += 1
        generator = self.torch.Generator(device=self.device).manual_seed(self.made)
        values = self.torch.rand(*dims, device=self.device, generator=generator)
        return ((values * 2 - 1) * scale).to(self.dtypes[dtype])

    def of(self, run, *inputs) -> Workload:
        """The expected result is computed in double."""
        return Workload(run, inputs, run(*(x.double() for x in inputs)))

    def make(self, case: str, dtype: str) -> Workload | None:
        torch, n = self.torch, numbers(case)
        F = torch.nn.functional
        if case.startswith("copy"):
            count = n[0] << 20 if "M floats" in case else n[0]
            return self.of(torch.clone, self.made_up(count, dtype=dtype))
        if case.startswith("pointwise"):
            scale = float_tensor(torch, n[1], 0.5, 1.0).to(self.device)
            bias = float_tensor(torch, n[1], 0.1, 0.0).to(self.device)

            def chain(x):
                return pointwise(torch, x, scale.to(x.dtype), bias.to(x.dtype))

            return self.of(chain, self.made_up(n[0], n[1], dtype=dtype))
        if case.startswith("matmul"):
            x, w = (self.made_up(n[0], n[0], dtype=dtype) for _ in range(2))
            return self.of(torch.matmul, x, w)
        if case.startswith("softmax"):
            x = self.made_up(n[0], n[1], dtype=dtype, scale=4)
            return self.of(lambda x: F.softmax(x, -1), x)
        if case.startswith("attention"):
            heads, rows, keys, size = n
            q = self.made_up(1, heads, rows, size, dtype=dtype, scale=2)
            k = self.made_up(1, heads, keys, size, dtype=dtype, scale=2)
            v = self.made_up(1, heads, keys, size, dtype=dtype)
            return self.of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q, k, v)
        if case.startswith("conv"):
            kernel, _, stride, channels, size, filters = n
            x = self.made_up(1, channels, size, size, dtype=dtype)
            w = self.made_up(filters, channels, kernel, kernel, dtype=dtype)
            pad = 0 if kernel == 1 else kernel // 2
            return self.of(lambda x, w: F.conv2d(x, w, stride=stride, padding=pad), x, w)
        if case.startswith("replay"):
            return self.of(lambda x: self._chain(x, n[0]), self.made_up(64, dtype=dtype))
        return self.model(case, dtype)

    @staticmethod
    def _chain(x, launches: int):
        for _ in range(launches):
            x = x + 1
        return x

    def model(self, name: str, dtype: str) -> Workload | None:
        folder = self.models / name
        if not (folder / "model.onnx").is_file():
            return None
        from onnx_torch import OnnxModule

        inputs = [self.torch.tensor(a) for a in test_data(folder, "input")]
        module = OnnxModule(
            str(folder / "model.onnx"), inputs, self.dtypes[dtype], self.device
        ).eval()
        expected = self.torch.tensor(test_data(folder, "output")[0])
        placed = tuple(module.place(x) for x in inputs)
        return Workload(lambda *x: module(*x)[0], placed, expected)


def test_data(folder: Path, kind: str) -> list:
    import onnx
    from onnx import numpy_helper

    out = []
    while (path := folder / "test_data_set_0" / f"{kind}_{len(out)}.pb").is_file():
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        out.append(numpy_helper.to_array(tensor).copy())
    return out


class Timer:
    """Wall and device times of runs; without a GPU, only wall times."""

    def __init__(self, torch, device: str, runs: int, seconds: float):
        self.torch, self.runs, self.seconds = torch, runs, seconds
        self.cuda = device.startswith("cuda")

    def wait(self) -> None:
        if self.cuda:
            self.torch.cuda.synchronize()

    def wall(self, run) -> list[float]:
        times, end = [], time.monotonic() + self.seconds
        while len(times) < self.runs and (len(times) < 3 or time.monotonic() < end):
            start = time.perf_counter()
            run()
            self.wait()
            times.append((time.perf_counter() - start) * 1000)
        return times

    def device(self, run) -> list[float]:
        if not self.cuda:
            return []
        times = []
        for _ in range(min(self.runs, 20)):
            events = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            run()
            events[1].record()
            self.wait()
            times.append(events[0].elapsed_time(events[1]))
        return times

    def measure(self, run) -> dict:
        for _ in range(5):
            run()
        self.wait()
        wall, device = self.wall(run), self.device(run)
        out = {"wall_ms": statistics.median(wall), "best_ms": min(wall), "runs": len(wall)}
        return out | ({"device_ms": statistics.median(device)} if device else {})


def graphed(torch, workload: Workload):
    """A CUDA graph of the eager calls."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            workload.run(*workload.inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = workload.run(*workload.inputs)

    def replay():
        graph.replay()
        return out

    return replay


def forms(torch, workload: Workload, case: str, device: str, eager_only: bool) -> dict:
    """The forms in which torch can run it: a name and a function that makes the form."""

    def eager():
        return lambda: workload.run(*workload.inputs)

    def compiled():
        run = torch.compile(workload.run, mode="max-autotune", fullgraph=False)
        return lambda: run(*workload.inputs)

    out = {"torch eager": eager}
    if eager_only:
        return out
    if device.startswith("cuda"):
        out["torch graph"] = lambda: graphed(torch, workload)
    # torch compiles a chain of additions to one kernel, so it would not replay many.
    return out if case.startswith("replay") else out | {"torch compile": compiled}


def measure_case(torch, workload, timer, case, dtype, device, eager_only) -> None:
    # TF32 is off for fp32, and a separate row where it makes a difference.
    precisions = [("", False)]
    if dtype == "fp32" and case.startswith(("matmul", "conv")) and device.startswith("cuda"):
        precisions.append((" tf32", True))
    for suffix, tf32 in precisions:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        for name, form in forms(torch, workload, case, device, eager_only).items():
            row = {"case": case, "dtype": dtype, "name": name + suffix}
            try:
                with torch.no_grad():
                    run = form()
                    error = error_of(torch, run(), workload.expected)
                    allowed = TOLERANCE["fp16" if tf32 else dtype]
                    row |= {"error": error if math.isfinite(error) else "inf"}
                    if error > allowed:
                        reason = f"largest error {error:.3g} of the largest value"
                        say(**row, status="wrong", reason=reason)
                        continue
                    say(**row, status="ok", **timer.measure(run))
            except Exception as error:  # noqa: BLE001 - any exception of a peer becomes its result
                say(**row, status="failed", reason=first_line(error))
        torch._dynamo.reset()


def ort_session(ort, folder: Path, ordinal: str):
    options = {"device_id": ordinal, "use_tf32": "0", "enable_cuda_graph": "1"}
    session = ort.InferenceSession(
        str(folder / "model.onnx"), providers=[("CUDAExecutionProvider", options)]
    )
    if "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("the CUDA provider could not be loaded")
    binding, inputs = session.io_binding(), test_data(folder, "input")
    expected = test_data(folder, "output")[0]
    kept = []
    for slot, value in zip(session.get_inputs(), inputs):
        kept.append(ort.OrtValue.ortvalue_from_numpy(value, "cuda", int(ordinal)))
        binding.bind_ortvalue_input(slot.name, kept[-1])
    out = ort.OrtValue.ortvalue_from_shape_and_type(
        list(expected.shape), expected.dtype, "cuda", int(ordinal)
    )
    binding.bind_ortvalue_output(session.get_outputs()[0].name, out)
    for slot in session.get_outputs()[1:]:
        binding.bind_output(slot.name, "cuda", int(ordinal))
    return session, binding, out, expected, kept


def measure_ort(torch, cases, models: Path, device: str, timer, end: float) -> None:
    """Models in fp32, inputs and outputs on the device."""
    try:
        import onnxruntime as ort
    except ImportError as error:
        return say(missing="onnxruntime", reason=first_line(error))
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        found = ", ".join(ort.get_available_providers())
        return say(missing="onnxruntime", reason=f"{ort.__version__} has no CUDA provider ({found})")
    say(peer="onnxruntime", version=ort.__version__)
    for case, dtype in cases:
        folder = models / case
        if dtype != "fp32" or not (folder / "model.onnx").is_file() or time.monotonic() > end:
            continue
        row = {"case": case, "dtype": dtype, "name": "ort cuda"}
        try:
            ordinal = device.partition(":")[2] or "0"
            session, binding, out, expected, _ = ort_session(ort, folder, ordinal)
            session.run_with_iobinding(binding)
            error = error_of(torch, torch.tensor(out.numpy()), torch.tensor(expected))
            row["error"] = error if math.isfinite(error) else "inf"
            if error > TOLERANCE["fp32"]:
                say(**row, status="wrong", reason=f"largest error {error:.3g} of the largest value")
                continue
            run = functools.partial(session.run_with_iobinding, binding)
            say(**row, status="ok", **timer.measure(run))
        except Exception as error:  # noqa: BLE001 - the same
            say(**row, status="failed", reason=first_line(error))


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--cases", required=True, help='JSON: [["matmul 1024", "fp16"], ...]')
    p.add_argument("--models", type=Path, required=True, help="folder of model cases")
    p.add_argument("--device", default="cuda:0", help="cuda:N, or cpu to try this out")
    p.add_argument("--eager", action="store_true", help="only eager, which compiles nothing")
    p.add_argument("--runs", type=int, default=50)
    p.add_argument("--seconds", type=float, default=2, help="for the runs of one result")
    p.add_argument("--time-limit", type=float, default=1e9, help="start no case after these seconds")
    return p.parse_args()


def main() -> int:
    o = parse()
    end = time.monotonic() + o.time_limit
    try:
        import torch
    except ImportError as error:
        say(missing="torch", reason=first_line(error))
        return 0
    device = "cuda:0" if o.device == "cuda" else o.device
    if device.startswith("cuda") and not torch.cuda.is_available():
        say(missing="torch", reason=f"torch {torch.__version__} sees no GPU")
        return 0
    say(peer="torch", version=torch.__version__)
    workloads = Workloads(torch, device, o.models)
    timer = Timer(torch, device, o.runs, o.seconds)
    cases = json.loads(o.cases)
    for case, dtype in cases:
        if time.monotonic() > end:
            say(missing=f"torch from '{case} {dtype}' on", reason="the time limit was reached")
            break
        try:
            workload = workloads.make(case, dtype)
        except Exception as error:  # noqa: BLE001 - the same
            say(case=case, dtype=dtype, name="torch eager", status="failed", reason=first_line(error))
            continue
        if workload:
            measure_case(torch, workload, timer, case, dtype, device, o.eager)
    measure_ort(torch, cases, o.models, device, timer, end)
    return 0


if __name__ == "__main__":
    sys.exit(main())
