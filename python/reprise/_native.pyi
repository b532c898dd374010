from collections.abc import Mapping, Sequence
from typing import Any


def version() -> str:
    """Returns the version, such as '0.1.0'."""

def numpy_dtype(name: str) -> Any:
    """The NumPy dtype of results with this dtype."""

def memory_sample(address: int, bytes: int) -> int:
    """
    A number that differs, very likely, after most of this memory was written.
    """

def memory_samples(memories: list[int]) -> int:
    """The same for several memories: address and bytes of each in one list."""

def memory_hashes(memories: list[int]) -> list[int]:
    """
    A number for each memory that differs, very likely, after any of its bytes has changed.
    Reads all of it. The list is as that of memory_samples().
    """

class DeviceInfo:
    """A device of this machine, and whether it can be used."""

    @property
    def id(self) -> str:
        """The name by which it is opened: 'vulkan:0', 'cuda:0', 'host'."""

    @property
    def name(self) -> str:
        """The name that the driver gives it."""

    @property
    def kind(self) -> str:
        """Such as 'discrete-gpu', 'integrated-gpu', 'cpu' or 'host'."""

    @property
    def driver(self) -> str:
        """The name and version of the driver."""

    @property
    def api(self) -> str:
        """The version of the driver's interface, such as 'Vulkan 1.3.230'."""

    @property
    def usable(self) -> bool:
        """Whether it can be opened."""

    @property
    def reason(self) -> str:
        """If it is not usable: why, and what to do."""

    @property
    def facts(self) -> dict[str, int | bool]:
        """What it can do; sizes are in bytes."""

    def __repr__(self) -> str: ...

def list_devices() -> list[DeviceInfo]:
    """Every device, the host last."""

class Device:
    """An open device. Sessions and tensors on it share its memory."""

    @property
    def id(self) -> str:
        """The name by which it is opened, such as 'vulkan:0'."""

    @property
    def info(self) -> DeviceInfo:
        """What is known of the device."""

    @property
    def stream(self) -> int:
        """The CUDA stream of runs and transfers; 0 for other devices."""

    def __repr__(self) -> str: ...

def open_device(id: str = 'auto', stream: int = 0) -> Device:
    """
    Opens a device, or returns it if it is open. `stream` is the handle of a CUDA stream; 0 is
    CUDA's default stream.
    """

class Slot:
    """An input, output or state of a model."""

    @property
    def name(self) -> str:
        """The name in the model."""

    @property
    def dtype(self) -> str:
        """
        The name of the element type, such as 'float32', 'bfloat16' or 'string'.
        """

    @property
    def shape(self) -> tuple[int | str, ...]:
        """
        The dims, in elements. One that depends on the inputs of a run is an expression, such as 'batch'.
        """

    @property
    def image(self) -> str | None:
        """The format of an image, such as 'rgba8'; None if it is not an image."""

    @property
    def optional(self) -> bool:
        """Whether runs may leave the input out: the model gives it a value."""

    def __repr__(self) -> str: ...

class Package:
    """A compiled model."""

    def __init__(self, other: Package) -> None: ...

    @staticmethod
    def _open(path: str) -> Package: ...

    @staticmethod
    def _from_bytes(data: bytes) -> Package: ...

    def _save(self, path: str) -> None: ...

    @property
    def inputs(self) -> list[Slot]:
        """The inputs, in the model's order."""

    @property
    def outputs(self) -> list[Slot]:
        """The outputs, in the model's order."""

    @property
    def states(self) -> list[Slot]:
        """The tensors that sessions keep from run to run, in the model's order."""

    def initial_states(self) -> dict[str, Any]:
        """
        The values with which states begin, as NumPy arrays by name. Those of a file of
        Session.save_states() are the saved values.
        """

    @property
    def name(self) -> str:
        """The name of the model's graph."""

    @property
    def metadata(self) -> dict[str, str]:
        """
        The properties that the model file had for applications, such as names of classes.
        """

    @property
    def variants(self) -> list[str]:
        """
        The kinds of devices that it has kernels for, in order of preference. Every
        package also runs on the host.
        """

    @property
    def notes(self) -> list[str]:
        """What the importer assumed or found odd in the model."""

    @property
    def mode(self) -> str:
        """
        The mode of sessions that name none: 'default', 'reduce-overhead', 'max-autotune' or
        'max-autotune-no-graphs'.
        """

    @mode.setter
    def mode(self, arg: str, /) -> None: ...

    def _explain(self, device: str | Device | None = None) -> dict[str, Any]: ...

    def __repr__(self) -> str: ...

class Size:
    """
    A size that a run decides: a symbol of a GraphBuilder, or an expression of symbols made with +, -, *, // and %.
    """

    def __add__(self, other: int | Size, /) -> Size: ...

    def __radd__(self, other: int | Size, /) -> Size: ...

    def __sub__(self, other: int | Size, /) -> Size: ...

    def __rsub__(self, other: int | Size, /) -> Size: ...

    def __mul__(self, other: int | Size, /) -> Size: ...

    def __rmul__(self, other: int | Size, /) -> Size: ...

    def __floordiv__(self, other: int | Size, /) -> Size: ...

    def __mod__(self, other: int | Size, /) -> Size: ...

    def minimum(self, other: int | Size, /) -> Size:
        """The smaller of this size and `other`."""

    def maximum(self, other: int | Size, /) -> Size:
        """The larger of this size and `other`."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class GraphValue:
    """A tensor of a graph that is being built."""

    @property
    def name(self) -> str:
        """Its name in the graph."""

    @property
    def dtype(self) -> str | None:
        """
        The dtype, such as 'float32'; None while it is not known, as in bodies.
        """

    @property
    def shape(self) -> tuple[int | str, ...] | None:
        """
        The dims: numbers, and texts of sizes that a run decides. None as for `dtype`.
        """

    def __repr__(self) -> str: ...

class GraphBody:
    """A body that GraphBuilder.end_body returned; an attribute of a node."""

class BuiltGraph:
    """A finished graph. reprise.compile() compiles it, as often as wanted."""

    @property
    def states(self) -> dict[str, str]:
        """The states, with the outputs that are their next values."""

    def __str__(self) -> str: ...

class GraphBuilder:
    """
    Builds a graph for reprise.compile() without a model file.

        >>> import numpy
        >>> b = reprise.GraphBuilder()
        >>> n = b.symbol('n', min=1, max=64)
        >>> x = b.input('x', 'float32', [n, 8])
        >>> w = b.constant(numpy.ones((8, 4), 'float32'))
        >>> (y,) = b.node('MatMul', [x, w])
        >>> b.output('y', y)
        >>> package = reprise.compile(b)

    `name` is the name of the graph, and `opsets` has the versions of domains, such as {'': 21}. Each call checks what it is given and infers types. An error names the node (`error.nodes`), and leaves the builder as it was.
    """

    def __init__(self, name: str = 'graph', opsets: Mapping[str, int] = {}) -> None:
        """Begins a graph with this `name` and these `opsets`."""

    def symbol(self, name: str, *, min: int = 0, max: int = 2147483647, divisor: int = 1) -> Size:
        """
        Declares the size `name`, from `min` to `max` and a multiple of `divisor`. The first input with it as a dim, alone or as in 4 * h + 1, gives it its value. A run with a size out of the limits raises InvalidInput.
        """

    def size(self, text: str) -> Size:
        """A size from text: 'floordiv(h, 2) + 1'."""

    def guard(self, left: int | Size, relation: str, right: int | Size, what: str) -> None:
        """
        Refuses runs in which `left` and `right` do not have this `relation`: '==', '>=', 'broadcast' (equal, or either is 1) or 'broadcast_to' (equal, or the left one is 1). Errors name `what`.
        """

    def input(self, name: str, dtype: str, dims: Sequence[int | Size]) -> GraphValue:
        """
        Adds the input `name` with this `dtype` and these `dims`, in the order of calls.
        """

    def constant(self, value: Any, *, name: str = "", dtype: str | None = None, dims: Sequence[int] | None = None, copy: bool = False) -> GraphValue:
        """
        Adds a constant, called `name`. A contiguous array is shared, not copied, by the graph and by packages: do not change it, or set `copy`. `dtype` names a dtype that NumPy lacks: 'bfloat16' for an array of uint16, 'int4' and other low-bit types for one byte an element. With `dims`, `value` is the memory of such a tensor, such as bytes.
        """

    def state(self, name: str, initial: Any, *, dtype: str | None = None, dims: Sequence[int] | None = None, copy: bool = False) -> GraphValue:
        """
        Adds the input `name` that sessions keep from run to run. `initial` is its first value; `dtype`, `dims` and `copy` are those of constant().
        """

    def next_state(self, state: GraphValue, next: GraphValue, name: str) -> None:
        """Makes a value the next one of a state, and an output of this name."""

    def output(self, name: str, value: GraphValue) -> None:
        """Makes `value` the output `name`, in the order of calls."""

    def node(self, op: str, inputs: Sequence[GraphValue | None], attributes: Mapping[str, Any] | None = None, *, outputs: int | Sequence[str | None] = 1, domain: str = "", version: int = 0, name: str = "") -> list[GraphValue]:
        """
        Adds a node of the ONNX operator `op`, called `name`, and returns its outputs, of which `outputs` is the number, or the names. None among the inputs or the names is one that is left out. The `attributes` are numbers, texts, lists, arrays and bodies. `version` is that of the `domain`, by default the builder's.
        """

    def core(self, op: str, inputs: Sequence[GraphValue | None], attributes: Mapping[str, Any] | None = None, *, outputs: int | Sequence[str | None] = 1, name: str = "", dtype: str | None = None, shape: Sequence[int | Size] = ()) -> list[GraphValue]:
        """
        Adds a node of the operator `op` in core form (codegen/graph/semantics.md). `inputs`, `outputs` and `name` are those of node(), and `attributes` may have sizes. `dtype` and `shape` are those of the result, where the operator needs them (Slice, Range).
        """

    def sizes(self, sizes: int | Size | Sequence[int | Size]) -> GraphValue:
        """
        Returns a size as an int64 scalar, or a list of sizes as an int64 vector.
        """

    def begin_body(self, name: str = '') -> None:
        """
        Begins the body `name` of an If, Loop or Scan. Nodes that follow belong to it, until end_body().
        """

    def body_input(self, name: str = '') -> GraphValue:
        """Adds the input `name` of the body; the operator decides its type."""

    def end_body(self, outputs: Sequence[GraphValue]) -> GraphBody:
        """
        Ends the body, which returns the values `outputs`, and returns it for the attributes of a node.
        """

    def verify(self) -> None:
        """Checks the invariants of the graph so far."""

    def finish(self) -> BuiltGraph:
        """
        Ends the graph; the builder takes no more calls then. reprise.compile() does this, too.
        """

class _Settings:
    def __init__(self) -> None: ...

    @property
    def targets(self) -> list[str]: ...

    @targets.setter
    def targets(self, arg: Sequence[str], /) -> None: ...

    @property
    def device(self) -> Device: ...

    @device.setter
    def device(self, arg: Device | None, /) -> None: ...

    @property
    def mode(self) -> str: ...

    @mode.setter
    def mode(self, arg: str, /) -> None: ...

    @property
    def precision(self) -> str: ...

    @precision.setter
    def precision(self, arg: str, /) -> None: ...

    @property
    def shapes(self) -> dict[str, list[int]]: ...

    @shapes.setter
    def shapes(self, arg: Mapping[str, Sequence[int]], /) -> None: ...

    @property
    def ranges(self) -> dict[str, tuple[int, int]]: ...

    @ranges.setter
    def ranges(self, arg: Mapping[str, tuple[int, int]], /) -> None: ...

    @property
    def plans(self) -> list[str]: ...

    @plans.setter
    def plans(self, arg: Sequence[str], /) -> None: ...

    @property
    def states(self) -> list[tuple[str, str]]: ...

    @states.setter
    def states(self, arg: Sequence[tuple[str, str]], /) -> None: ...

    @property
    def grow_states(self) -> str: ...

    @grow_states.setter
    def grow_states(self, arg: str, /) -> None: ...

    @property
    def optional_inputs(self) -> list[str]: ...

    @optional_inputs.setter
    def optional_inputs(self, arg: Sequence[str], /) -> None: ...

    @property
    def values(self) -> dict[str, list[int]]: ...

    @values.setter
    def values(self, arg: Mapping[str, Sequence[int]], /) -> None: ...

    @property
    def last(self) -> list[str]: ...

    @last.setter
    def last(self, arg: Sequence[str], /) -> None: ...

    @property
    def sample(self) -> str: ...

    @sample.setter
    def sample(self, arg: str, /) -> None: ...

    @property
    def images(self) -> list[str]: ...

    @images.setter
    def images(self, arg: Sequence[str], /) -> None: ...

    @property
    def fullgraph(self) -> bool: ...

    @fullgraph.setter
    def fullgraph(self, arg: bool, /) -> None: ...

    @property
    def disabled_passes(self) -> list[str]: ...

    @disabled_passes.setter
    def disabled_passes(self, arg: Sequence[str], /) -> None: ...

    @property
    def pass_options(self) -> dict[str, int]: ...

    @pass_options.setter
    def pass_options(self, arg: Mapping[str, int], /) -> None: ...

    @property
    def probes(self) -> bool: ...

    @probes.setter
    def probes(self, arg: bool, /) -> None: ...

    @property
    def keep_source(self) -> bool: ...

    @keep_source.setter
    def keep_source(self, arg: bool, /) -> None: ...

    @property
    def nvrtc(self) -> str: ...

    @nvrtc.setter
    def nvrtc(self, arg: str, /) -> None: ...

    @property
    def tune_seconds(self) -> float: ...

    @tune_seconds.setter
    def tune_seconds(self, arg: float, /) -> None: ...

    @property
    def inputs(self, /) -> dict[str, Any]: ...

    @inputs.setter
    def inputs(self, value: dict[str, Any], /) -> None: ...

    @property
    def progress(self) -> object: ...

    @progress.setter
    def progress(self, arg: object | None, /) -> None: ...

def compile_bytes(model: bytes, settings: _Settings) -> Package: ...

def compile_file(path: str, settings: _Settings) -> Package: ...

def compile_graph(graph: BuiltGraph, settings: _Settings) -> Package: ...

def pass_names() -> list[str]:
    """The names that `disabled_passes` takes, in order."""

class Tensor:
    """
    A tensor whose memory stays on a device between runs.

    Sessions on that device take it as input and write it as output without a copy, so that parameters,
    caches and results need not leave the device. The memory keeps its capacity: an output or a write
    may have other dims if they fit.

    Args:
        array: what to copy: an array of NumPy, of DLPack, or with the buffer protocol; contiguous.
        device: 'auto', 'host', 'vulkan:0', 'cuda:0' ..., or a Device. Sessions take a tensor only if
            it is on their device.
        dtype: how to read the elements if NumPy has no dtype for them, such as 'bfloat16' for uint16.

    Example:
        >>> session = reprise.Session(reprise.compile("model.onnx"), "host")
        >>> x = reprise.Tensor(np.ones((2, 4), np.float32), "host")
        >>> y = reprise.Tensor.empty((2, 4), device="host")
        >>> session.run_raw([x], [y])[0] is y
        True
        >>> y.numpy()
        array([[2., 2., 2., 2.],
               [2., 2., 2., 2.]], dtype=float32)
    """

    def __init__(self, array: object, device: str | Device = 'auto', dtype: str | None = None) -> None: ...

    @staticmethod
    def empty(shape: Sequence[int], dtype: str = 'float32', device: str | Device = 'auto') -> Tensor:
        """
        Returns memory for a tensor of this shape, in elements, and dtype on a device. Its contents
        are arbitrary.
        """

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims, in elements."""

    @property
    def dtype(self) -> str:
        """The name of the element type, such as 'float32'."""

    @property
    def nbytes(self) -> int:
        """The size of the elements, in bytes."""

    @property
    def capacity(self) -> int:
        """The size of the memory, in bytes."""

    @property
    def device(self) -> Device:
        """The device that has the memory."""

    @property
    def address(self) -> int:
        """Where the memory is, in the device's addresses."""

    def write(self, array: object) -> None:
        """
        Copies an array of the same dtype to the device. The shape becomes that of the array.
        """

    def numpy(self) -> Any:
        """Returns a copy on the host, as a NumPy array."""

    def read_into(self, array: object) -> None:
        """Copies the elements to a writable array of the same dtype and shape."""

    def free(self) -> None:
        """
        Frees the memory now, or when the runs that use it have ended. Later uses are an error.
        """

    @property
    def freed(self) -> bool:
        """Whether free() was called."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...

    def __repr__(self) -> str: ...

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """
        The memory itself where another library can address it: on the host, on CUDA, and on Vulkan
        devices whose memory the host maps. A copy on the host elsewhere.
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...

class _SessionOptions:
    def __init__(self) -> None: ...

    @property
    def max_in_flight(self) -> int: ...

    @max_in_flight.setter
    def max_in_flight(self, arg: int, /) -> None: ...

    @property
    def max_recorded(self) -> int: ...

    @max_recorded.setter
    def max_recorded(self, arg: int, /) -> None: ...

    @property
    def timestamps(self) -> bool: ...

    @timestamps.setter
    def timestamps(self, arg: bool, /) -> None: ...

    @property
    def fullgraph(self) -> bool: ...

    @fullgraph.setter
    def fullgraph(self, arg: bool, /) -> None: ...

    @property
    def warm_up(self) -> bool: ...

    @warm_up.setter
    def warm_up(self, arg: bool, /) -> None: ...

    @property
    def check_kernels(self) -> bool: ...

    @check_kernels.setter
    def check_kernels(self, arg: bool, /) -> None: ...

    @property
    def isolate_tensors(self) -> bool: ...

    @isolate_tensors.setter
    def isolate_tensors(self, arg: bool, /) -> None: ...

    @property
    def cache_dir(self) -> str: ...

    @cache_dir.setter
    def cache_dir(self, arg: str, /) -> None: ...

    @property
    def timeout_ns(self) -> int: ...

    @timeout_ns.setter
    def timeout_ns(self, arg: int, /) -> None: ...

    @property
    def seed(self) -> int: ...

    @seed.setter
    def seed(self, arg: int, /) -> None: ...

class RunTimes:
    """How long one run took."""

    @property
    def plan(self) -> int:
        """
        The plan that ran: 0 is the one for all sizes, n is the n-th for some sizes.
        """

    @property
    def submit_us(self) -> float:
        """
        Host work until the run was submitted, without copies, in microseconds.
        """

    @property
    def total_us(self) -> float:
        """The whole run, in microseconds."""

    @property
    def bytes_copied(self) -> int:
        """Bytes copied between host and device memory."""

    @property
    def kernel_us(self) -> list[float]:
        """
        The device time of each launch in the order of Session.kernels_of(plan), in
        microseconds; empty unless the session has timestamps.
        """

class Session:
    """A package on a device. reprise.Session adds names to it."""

    def __init__(self, package: Package, device: str | Device | None, mode: str, options: _SessionOptions) -> None: ...

    def run_raw(self, inputs: Sequence[object], outputs: Sequence[object | None] | None = None) -> list[Any]:
        """
        Runs once and waits, with little work per call.

        Args:
            inputs: memory for each input, in the order of `self.inputs`: a Tensor on the session's device,
                or a contiguous array (NumPy, DLPack, buffer protocol), which is used in place. CUDA arrays
                are used in place by sessions on their device.
            outputs: writable memory of the same kinds for each output, in the order of `self.outputs`, or
                None for outputs that the run allocates. A Tensor takes the dims of the result.

        Returns:
            The outputs in order: the objects that were given, and NumPy arrays for the others.
        """

    def run_timed(self, inputs: Sequence[object], outputs: Sequence[object | None] | None = None) -> tuple[list[Any], RunTimes]:
        """
        Takes `inputs` and `outputs` as run_raw() does; also returns how long the run took.
        """

    @property
    def inputs(self) -> list[Slot]:
        """The inputs, in the model's order."""

    @property
    def outputs(self) -> list[Slot]:
        """The outputs, in the model's order."""

    @property
    def states(self) -> list[Slot]:
        """
        The tensors that the session keeps from run to run, in the model's order.
        """

    def read_state(self, name: str) -> Any:
        """Copies the value of the state of this name to a NumPy array."""

    def write_state(self, name: str, value: object) -> None:
        """
        Gives the state of this name the value of a contiguous array in host memory, of its dtype
        and shape.
        """

    def _state_rows(self, name: str) -> tuple[int, int, int]: ...

    def _truncate_states(self, rows: int, name: str) -> None: ...

    def _reserve_states(self, rows: int, name: str) -> None: ...

    def _limit_states(self, rows: int, name: str) -> None: ...

    def _save_states(self, path: str) -> None: ...

    def _load_states(self, path: str) -> None: ...

    def reset_states(self) -> None:
        """Gives all states the initial values that the package has."""

    def make_states(self) -> States:
        """
        Makes states with the initial values of the package, apart from the session.
        """

    def bind_states(self, states: States | None) -> None:
        """
        From now on, runs use these states, and so do truncate_states(), save_states() and the other
        functions of states.

        Args:
            states: of this session's model, or of another one with the same states; None: the session's own.

        Raises:
            UsageError: the states are on another device, or those of another model.
        """

    @property
    def device(self) -> Device:
        """The device that runs it."""

    @property
    def mode(self) -> str:
        """The mode in which it runs, such as 'reduce-overhead'."""

    @property
    def variant(self) -> str:
        """The package's variant that is in use, or 'host'."""

    @property
    def variant_notes(self) -> list[str]:
        """Why earlier variants were not used."""

    @property
    def kernels(self) -> list[str]:
        """The kernel of each launch of a run with the plan for all sizes."""

    def kernels_of(self, plan: int) -> list[str]:
        """The kernel of each launch of a run with a plan (RunTimes.plan)."""

    @property
    def timestamps(self) -> bool:
        """Whether the device time of each launch is measured."""

    @property
    def stats(self) -> dict[str, int | float]:
        """
        Totals of all runs: 'runs', 'recordings', 'submits', 'dispatches', 'barriers' and
        'copies' that the device executed, 'device_bytes' that the session holds now, and
        'load_ms', the time that creating it took.
        """

    def __repr__(self) -> str: ...

class States:
    """
    The values of all states of a model, apart from sessions, such as the caches of one conversation.

    Session.make_states() makes them, and sessions use them one after another (Session.bind_states()), which
    records nothing new. Only one thread at a time may use an object.
    """

    def fork(self, length: int | None = None) -> States:
        """
        Makes states with the same values. No rows are copied before both have appended to them.

        Args:
            length: of the states that grow, only so many of the first rows; None: all.

        Raises:
            UsageError: there are fewer rows, or a state of a fixed shape has no value for that length.
            ValueError: length is negative.
        """

    @property
    def nbytes(self) -> int:
        """The bytes of their memory."""

    @property
    def shared_nbytes(self) -> int:
        """Of these, the bytes of memory that forks use, too."""

    @property
    def length(self) -> int:
        """How many rows the longest state has that grows."""

class Tokenizer:
    """
    The tokenizer and the chat template of a language model.

    One object decodes one text at a time; stream() returns others for the same vocabulary.
    One thread at a time may use an object.
    """

    def stream(self) -> Tokenizer:
        """Returns one for another text that is generated meanwhile."""

    def encode(self, text: str) -> list[int]:
        """
        Returns the ids of a text, with those that the model expects around it.
        """

    def encode_chat(self, turns: Sequence[tuple[str, str]]) -> list[int]:
        """
        Returns the ids of a chat, up to the beginning of the next answer.

        The turns are pairs of a role and a content. Special tokens that these spell stay text.

        Raises Unsupported if the model has no chat template.
        """

    def add(self, id: int) -> str:
        """Adds an id that was generated, and returns the text that it completes."""

    def finish(self) -> str:
        """
        Returns what is left at the end of a text. Another text can begin then.
        """

    def ends(self, id: int) -> bool:
        """Whether an id ends the text."""

def open_tokenizer(path: str) -> Tokenizer:
    """
    Opens the tokenizer of a .gguf file, of a folder of Hugging Face, of a package, or of a
    tokenizer.json with the files beside it.
    """

def command_line(arguments: Sequence[str]) -> int:
    """Runs the command line in this process, and returns its exit status."""
