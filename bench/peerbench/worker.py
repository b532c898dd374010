"""Loads a model with one peer, runs it once, then once for each line on standard input; answers one
line of JSON each time, as reprise_runner does. Runs in that peer's environment:

    python -m peerbench.worker PEER CASE FOLDER OUTPUTS THREADS
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import numpy

from . import cases


class Ort:
    def __init__(self, provider: str):
        import onnxruntime

        self.ort = onnxruntime
        self.provider = provider
        self.device = provider
        if provider not in onnxruntime.get_available_providers():
            raise RuntimeError(f"this onnxruntime has no {provider}")

    def load(self, case: Path, folder: Path, threads: int) -> None:
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Threads that spin between runs would take cores from the next peer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = self.ort.InferenceSession(
            str(case / "model.onnx"), options, providers=[self.provider]
        )
        if self.session.get_providers()[0] != self.provider:
            raise RuntimeError(f"onnxruntime did not take {self.provider}")

    def bind(self, inputs: dict[str, numpy.ndarray]) -> None:
        self.inputs = inputs

    def run(self) -> list[numpy.ndarray]:
        return self.session.run(None, self.inputs)


class Ncnn:
    def __init__(self):
        import ncnn

        self.ncnn = ncnn
        self.device = ""

    def load(self, case: Path, folder: Path, threads: int) -> None:
        self.net = self.ncnn.Net()
        options = self.net.opt
        options.use_vulkan_compute = True
        options.num_threads = threads
        for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
            if hasattr(options, f"use_{name}"):
                setattr(options, f"use_{name}", False)
        if self.ncnn.get_gpu_count() == 0:
            raise RuntimeError("ncnn finds no Vulkan device")
        if self.net.load_param(str(folder / "model.ncnn.param")) != 0:
            raise RuntimeError("ncnn cannot read model.ncnn.param")
        if self.net.load_model(str(folder / "model.ncnn.bin")) != 0:
            raise RuntimeError("ncnn cannot read model.ncnn.bin")
        # The script that pnnx generates contains the positions of batch axes.
        script = (folder / "model_ncnn.py").read_text()
        self.batch_axis = {
            int(index): int(axis)
            for index, axis in re.findall(r'ex\.input\("in(\d+)".*?batch_index=(\d+)\)', script)
        }
        self.outputs = re.findall(r'ex\.extract\("(out\d+)"\)', script)
        self.output_axis = {
            name: int(axis)
            for name, axis in re.findall(r"(out\d+)\.numpy\(batch_index=(\d+)\)", script)
        }

    def bind(self, inputs: dict[str, numpy.ndarray]) -> None:
        self.device = self.ncnn.get_gpu_info(0).device_name()
        self.inputs = []
        for index, value in enumerate(inputs.values()):
            if value.dtype == numpy.int64:
                value = value.astype(numpy.int32)
            value = numpy.ascontiguousarray(value)
            axis = self.batch_axis.get(index)
            mat = self.ncnn.Mat(value) if axis is None else self.ncnn.Mat(value, batch_index=axis)
            self.inputs.append(mat.clone())

    def run(self) -> list[numpy.ndarray]:
        with self.net.create_extractor() as extractor:
            for index, value in enumerate(self.inputs):
                if extractor.input(f"in{index}", value) != 0:
                    raise RuntimeError(f"ncnn refuses input in{index}")
            out = []
            for name in self.outputs:
                status, value = extractor.extract(name)
                if status != 0:
                    raise RuntimeError(f"ncnn cannot compute {name}: status {status}")
                axis = self.output_axis.get(name)
                out.append(
                    numpy.array(value.numpy() if axis is None else value.numpy(batch_index=axis))
                )
            return out


class Iree:
    def __init__(self):
        import iree.runtime

        self.rt = iree.runtime
        self.device = ""

    def load(self, case: Path, folder: Path, threads: int) -> None:
        self.config = self.rt.Config("vulkan")
        self.device = str(self.config.device)
        self.context = self.rt.SystemContext(config=self.config)
        module = self.rt.VmModule.mmap(self.context.instance, str(folder / "model.vmfb"))
        self.context.add_vm_module(module)
        functions = [
            name for name in module.function_names if not name.startswith("__") and "$" not in name
        ]
        self.function = self.context.modules[module.name][functions[0]]

    def bind(self, inputs: dict[str, numpy.ndarray]) -> None:
        self.inputs = list(inputs.values())

    def run(self) -> list[numpy.ndarray]:
        result = self.function(*self.inputs)
        result = result if isinstance(result, (list, tuple)) else [result]
        return [self.to_host(value) for value in result]

    def to_host(self, value) -> numpy.ndarray:
        """DeviceArray.to_host through staging memory: it imports numpy's memory where the driver can
        import at all, and so fails on drivers that want whole pages."""
        rt, device, view = self.rt, self.config.device, value._buffer_view
        source = view.get_buffer()
        usage = rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED
        staging = device.allocator.allocate_buffer(
            memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(usage),
            allocation_size=source.byte_length(),
        )
        semaphore = device.create_semaphore(0)
        device.queue_copy(
            source,
            staging,
            wait_semaphores=rt.HalFence.create_at(semaphore, 0),
            signal_semaphores=rt.HalFence.create_at(semaphore, 1),
        )
        rt.HalFence.create_at(semaphore, 1).wait()
        dtype = rt.HalElementType.map_to_dtype(view.element_type)
        return staging.map().asarray(view.shape, dtype).copy()


def make(peer: str):
    if peer == "ort-cpu":
        return Ort("CPUExecutionProvider")
    if peer == "ort-webgpu":
        return Ort("WebGpuExecutionProvider")
    return {"ncnn": Ncnn, "iree": Iree}[peer]()


def main() -> int:
    peer, case, folder, outputs = sys.argv[1], *map(Path, sys.argv[2:5])
    threads = int(sys.argv[5])
    # Peers print to standard output, so answers use another file descriptor.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**fields) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        inputs = cases.inputs(case)
        adapter = make(peer)
        start = time.perf_counter()
        adapter.load(case, folder, threads)
        load_ms = (time.perf_counter() - start) * 1e3
        adapter.bind(inputs)
        start = time.perf_counter()
        results = adapter.run()
        first_ms = (time.perf_counter() - start) * 1e3
        for index, value in enumerate(results):
            numpy.save(outputs / f"{index}.npy", value)
        answer(load_ms=load_ms, first_run_ms=first_ms, device=adapter.device)
        for _ in sys.stdin:
            start = time.perf_counter()
            adapter.run()
            answer(ms=(time.perf_counter() - start) * 1e3)
    except Exception as e:  # noqa: BLE001 - any exception of a peer becomes its result
        text = " ".join(str(e).split())
        answer(error=f"{type(e).__name__}: {text}"[:400])
        return 4
    # Some drivers crash when they are unloaded, and nothing is left to be saved.
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
