"""reprise.compile."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from . import _native
from ._devices import device_id
from ._package import Package
from ._progress import Progress, progress_for
from .errors import UsageError, file_errors


class ModelProto(Protocol):
    """What is needed of an onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


Model = (
    str
    | os.PathLike[str]
    | bytes
    | bytearray
    | memoryview
    | ModelProto
    | _native.GraphBuilder
    | _native.BuiltGraph
)


def compile(
    model: Model,
    *,
    device: str | _native.Device | None = None,
    targets: str | Sequence[str] | None = None,
    mode: str | None = None,
    precision: str = "fp32",
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    plans: Sequence[str] = (),
    states: Mapping[str, str] | None = None,
    grow_states: str = "none",
    optional_inputs: Sequence[str] = (),
    values: Mapping[str, Sequence[int]] | None = None,
    images: Mapping[str, str] | None = None,
    last: Sequence[str] = (),
    sample: str | None = None,
    fullgraph: bool = False,
    disabled_passes: Sequence[str] = (),
    pass_options: Mapping[str, int] | None = None,
    probes: bool = False,
    keep_source: bool = False,
    inputs: Mapping[str, Any] | None = None,
    tune_seconds: float = 30.0,
    nvrtc: str | os.PathLike[str] | None = None,
    progress: bool | Progress | None = None,
) -> Package:
    """Compiles a model: an ONNX model, or a graph that was built.

    The GIL is released meanwhile.

    Args:
        model: the path of an .onnx file, its contents, or an onnx.ModelProto. Only a file may have
            external data. A path that ends with .rpk is a compiled package, which is opened. The
            path of a .gguf file or of a folder of Hugging Face is a language model, whose package
            keeps its caches and samples. Or a GraphBuilder, whose graph this finishes, or a
            BuiltGraph.
        device: compile only for this device ('vulkan:0', 'cuda:0', 'host', 'auto' or a Device).
        targets: the devices to compile for without having them: 'vulkan', one of its variants,
            'cuda:sm_90' and so on. By default 'vulkan'. Not together with `device`.
        mode: 'default': fusion; 'reduce-overhead' (used if None): fusion and recorded replay;
            'max-autotune' and 'max-autotune-no-graphs': also schedules that are measured on
            `device`, by default 'auto'.
        precision: of tensors and large weights in memory, where that is safe: 'fp32', 'fp16' or
            'bf16'. Sums and values inside a kernel stay fp32.
        shapes: fixes the dims of dynamic inputs, in elements: {'x': (1, 3, 224, 224)}.
        ranges: limits the sizes of dynamic dims, by the names of the sizes: {'batch': (1, 64)}. Runs
            with other sizes raise InvalidInput.
        plans: plans with kernels for some sizes, one of which each run uses: ('sequence=1',
            'sequence=2..16', 'sequence=17..'), with commas between several sizes. ('none',) makes one
            plan for all sizes; by default the compiler decides.
        states: {'w': 'w_next'} makes an input (or an initialiser) a tensor that sessions keep from
            run to run, and an output its next value. An initialiser of that name is the initial
            value; others begin with zeros.
        grow_states: which inputs are caches that become states that grow: 'none', 'auto' for all that
            are recognised, or patterns of names such as 'past_*'. An output must be the input
            followed by new rows. Both leave the interface.
        optional_inputs: names of inputs to which the model gives values and that runs may give or
            leave out. Other inputs with values are constants.
        values: the elements of small inputs of integers in every run, which may decide the ranks of
            results: {'shape': (2, -1, 3)}. Runs with others raise InvalidInput.
        images: inputs and outputs that are images, whose pixels kernels of the model convert:
            {'x': 'rgba8,resize=bilinear,mean=0.5,std=0.25'}. The inputs of a session are then
            arrays of pixels. `reprise compile --help` lists the formats and keys.
        last: outputs of which only the last position along an axis is wanted: 'logits', or
            'logits=AXIS' with a number or the name of a size. By default it is the axis before the
            last. What only other positions need is not computed.
        sample: samples a token for each row from an output of logits: 'logits,KEY,...', as
            `reprise compile --help` and docs/sampling.md describe it. The package gets the output
            'sampled_ids' and inputs 'sampling.*' that runs may leave out.
        fullgraph: raise Unsupported if a node would run on the host.
        disabled_passes: names of passes to leave out; reprise.pass_names() lists them.
        pass_options: numbers for options of passes, such as {'fusion.limit': 10}.
        probes: store inputs and expected results of each kernel, for Session(check_kernels=True).
        keep_source: keep the CUDA text of kernels in the package, for debuggers.
        inputs: arrays to measure with, by name; others are random.
        tune_seconds: 'max-autotune' starts no further candidate after this time, in seconds.
        nvrtc: path of libnvrtc.so, which compiles for CUDA; by default it is searched for.
        progress: whether to show progress with tqdm, or a function of (what, done, total). By
            default it is shown in terminals and notebooks where tqdm is installed.

    Raises:
        InvalidModel: the model is malformed.
        Unsupported: something in the model cannot be compiled; the message names the node.
        UsageError: an argument names what does not exist.
        FileError: the file cannot be read.
        DeviceError: the device failed while schedules were measured.

    Example:
        >>> package = reprise.compile("model.onnx", ranges={"batch": (1, 8)}, precision="fp16")
        >>> [(slot.name, slot.dtype, slot.shape) for slot in package.inputs]
        [('x', 'float32', ('batch', 4))]
        >>> package.save("model.rpk")
    """
    if device is not None and targets is not None:
        raise UsageError("give either `device` or `targets`")
    if isinstance(model, str | os.PathLike) and os.fspath(model).endswith(".rpk"):
        return Package.open(model)
    settings = _native._Settings()
    settings.mode = mode or "reduce-overhead"
    if device is None and targets is None and settings.mode.startswith("max-autotune"):
        device = "auto"
    device = device_id(device)
    if device is not None:
        settings.device = (
            _native.open_device(device) if isinstance(device, str) else device
        )
    settings.targets = (
        targets.split(",")
        if isinstance(targets, str)
        else list(targets or ())
        if targets is not None
        else ["vulkan"]
    )
    settings.precision = precision
    settings.shapes = {name: list(dims) for name, dims in (shapes or {}).items()}
    settings.ranges = {
        name: (low, high) for name, (low, high) in (ranges or {}).items()
    }
    settings.plans = list(plans)
    settings.states = list((states or {}).items())
    settings.grow_states = grow_states
    settings.optional_inputs = list(optional_inputs)
    settings.values = {name: list(numbers) for name, numbers in (values or {}).items()}
    settings.images = [f"{name}={text}" for name, text in (images or {}).items()]
    settings.last = list(last)
    settings.sample = sample or ""
    settings.fullgraph = fullgraph
    settings.disabled_passes = list(disabled_passes)
    settings.pass_options = dict(pass_options or {})
    settings.probes = probes
    settings.keep_source = keep_source or "REPRISE_KEEP_SOURCE" in os.environ
    settings.inputs = dict(inputs or {})
    settings.tune_seconds = tune_seconds
    settings.nvrtc = os.fspath(nvrtc or os.environ.get("REPRISE_NVRTC", ""))
    with progress_for(progress) as show:
        settings.progress = show
        return Package(_compile(model, settings))


def _compile(model: Model, settings: _native._Settings) -> _native.Package:
    if isinstance(model, str | os.PathLike):
        with file_errors(model):
            return _native.compile_file(os.fspath(model), settings)
    if isinstance(model, _native.GraphBuilder):
        model = model.finish()
    if isinstance(model, _native.BuiltGraph):
        return _native.compile_graph(model, settings)
    if not isinstance(model, bytes | bytearray | memoryview):
        if not hasattr(model, "SerializeToString"):
            raise TypeError(
                f"model: expected a path, bytes or an onnx.ModelProto, not {type(model).__name__}"
            )
        model = model.SerializeToString()
    return _native.compile_bytes(bytes(model), settings)
