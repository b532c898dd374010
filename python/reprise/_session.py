"""Sessions: packages on devices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._devices import device_id
from ._package import Package
from .errors import InvalidInput, file_errors


class StateRows(NamedTuple):
    """The rows of a state that grows.

    Attributes:
        length: how many are valid.
        capacity: for how many there is memory.
        limit: the most that it may have; 2**63 - 1 unless it was set.
    """

    length: int
    capacity: int
    limit: int


class Session(_native.Session):
    """A package on a device: weights are uploaded and launches recorded once, and each run replays.

    Several threads may run a session at the same time; the GIL is released meanwhile.

    Args:
        package: what reprise.compile() or Package.open() returned, or the path of a package.
        device: 'auto' (the best device that the package fits), 'host', 'vulkan:0', 'cuda:0', ...,
            a Device, or as PyTorch calls it ('cpu', a torch.device).
        mode: 'reduce-overhead' or 'max-autotune' replay a recording, 'default' and
            'max-autotune-no-graphs' record each run. By default the package's mode.
        max_in_flight: how many runs may be in flight at the same time, each with its own memory.
        fullgraph: raise Unsupported if a node would run on the host.
        timeout: of one run, in seconds; 0: 60, or 600 on CPU-type devices.
        warm_up: let the driver compile kernels now instead of in the first run.
        check_kernels: run the package's probes first and leave out variants with a wrong kernel.
        timestamps: measure the device time of each launch, for run_timed().
        seed: of operators with random results, which draw other numbers in each run.
        cache_dir: folder that keeps verdicts of check_kernels; None: they are not kept.
        isolate_tensors: give each intermediate tensor memory of its own, for debugging.

    Raises:
        IncompatiblePackage: no variant of the package fits the device.
        OutOfMemory: the weights do not fit.
        DeviceError: the device failed.

    Example:
        >>> session = reprise.Session(reprise.compile("model.onnx"), "host")
        >>> session.run({"x": [[1, 2, 3, 4]]})
        {'y': array([[ 2.,  6., 12., 20.]], dtype=float32)}
    """

    def __init__(
        self,
        package: _native.Package | str | os.PathLike[str],
        device: str | _native.Device = "auto",
        *,
        mode: str | None = None,
        max_in_flight: int = 2,
        fullgraph: bool = False,
        timeout: float = 0.0,
        warm_up: bool = False,
        check_kernels: bool = False,
        timestamps: bool = False,
        seed: int = 0,
        cache_dir: str | os.PathLike[str] | None = None,
        isolate_tensors: bool = False,
    ) -> None:
        options = _native._SessionOptions()
        options.max_in_flight = max_in_flight
        options.fullgraph = fullgraph
        options.timeout_ns = int(timeout * 1e9)
        options.warm_up = warm_up
        options.check_kernels = check_kernels
        options.timestamps = timestamps
        options.seed = seed
        options.cache_dir = os.fspath(cache_dir) if cache_dir is not None else ""
        options.isolate_tensors = isolate_tensors
        if isinstance(package, str | os.PathLike):
            package = Package.open(package)
        super().__init__(package, device_id(device), mode or "", options)
        self._input_index = {slot.name: i for i, slot in enumerate(self.inputs)}
        self._output_index = {slot.name: i for i, slot in enumerate(self.outputs)}

    def run(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Runs once and waits.

        Args:
            inputs: by name, for each input that is not optional: an array (NumPy, DLPack, buffer
                protocol), which is used in place if it is contiguous and copied otherwise; a Tensor
                on the session's device; or numbers, strings and lists of them.
            outputs: by name, writable memory for outputs: contiguous arrays or Tensors. Others are
                returned as NumPy arrays.

        Returns:
            All outputs by name. Those of dtypes that NumPy lacks have ml_dtypes' dtypes if it is
            installed; else they are unsigned integers with the same bits.

        Raises:
            InvalidInput: an input or output has a wrong name, shape, dtype or value.
            Unsupported: the sizes of the inputs are more than the device can compute.
            UsageError: a Tensor was freed, or is on another device.
            DeviceError: the device failed; Timeout if the run took too long.
        """
        given = self._ordered(inputs, self._input_index, "input")
        for name, i in self._input_index.items():
            if given[i] is None and not self.inputs[i].optional:
                raise InvalidInput(f"input '{name}' ({self.inputs[i]!r}) is missing")
        prepared = [
            None if value is None else _usable(value, slot)
            for value, slot in zip(given, self.inputs, strict=True)
        ]
        memory = (
            self._ordered(outputs, self._output_index, "output") if outputs else None
        )
        return dict(
            zip(self._output_index, self.run_raw(prepared, memory), strict=True)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs once with inputs as `run` takes them.

        Args:
            args: inputs in the model's order.
            kwargs: inputs by name.

        Returns:
            The output, or a tuple if the model has several.
        """
        names = list(self._input_index)
        if len(args) > len(names):
            raise InvalidInput(
                f"the model has {len(names)} inputs, {len(args)} are given"
            )
        inputs = dict(zip(names, args, strict=False))
        for name in kwargs:
            if name in inputs:
                raise InvalidInput(f"input '{name}' is given twice")
        results = tuple(self.run(inputs | kwargs).values())
        return results[0] if len(results) == 1 else results

    def state_rows(self, name: str) -> StateRows:
        """How many rows the state of this name has, which grows (`grow_states` of compile())."""
        return StateRows(*self._state_rows(name))

    def truncate_states(self, length: int, name: str | None = None) -> None:
        """Keeps the first `length` rows of the states that grow: of one, or of all if name is None.

        Raises:
            UsageError: there are fewer rows, or no state grows.
        """
        self._truncate_states(length, name or "")

    def reserve_states(self, rows: int, name: str | None = None) -> None:
        """Makes memory for at least so many rows: now or, if inputs decide the size of a row, later.

        Args:
            rows: how many.
            name: of one state; None: all that grow.

        Raises:
            OutOfMemory: there is no memory.
        """
        self._reserve_states(rows, name or "")

    def limit_states(self, rows: int, name: str | None = None) -> None:
        """Sets the most rows that runs may make; a run that needs more raises InvalidInput.

        Args:
            rows: how many.
            name: of one state; None: all that grow.
        """
        self._limit_states(rows, name or "")

    def save_states(self, path: str | os.PathLike[str]) -> None:
        """Writes the values of all states to the file `path`, completely or not at all.

        load_states() reads it, and so does Package.open(path).initial_states().
        """
        self._save_states(os.fspath(path))

    def load_states(self, path: str | os.PathLike[str]) -> None:
        """Reads all states from a file of save_states(), or the initial values from a package.

        Args:
            path: of the file.

        Raises:
            FileError: the file cannot be read.
            InvalidInput: the names, dtypes or shapes differ; nothing changes then.
        """
        with file_errors(path):
            self._load_states(os.fspath(path))

    @staticmethod
    def _ordered(
        given: Mapping[str, Any], index: Mapping[str, int], kind: str
    ) -> list[Any]:
        values: list[Any] = [None] * len(index)
        for name, value in given.items():
            if name not in index:
                known = ", ".join(f"'{k}'" for k in index) or "none"
                raise InvalidInput(
                    f"the model has no {kind} '{name}'; its {kind}s are {known}"
                )
            values[index[name]] = value
        return values


def _usable(value: Any, slot: _native.Slot) -> Any:
    """Returns the value itself where a run can use its memory, or else a copy that it can use."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        return (
            value
            if flags.c_contiguous and flags.aligned
            else np.ascontiguousarray(value)
        )
    if slot.dtype == "string" or isinstance(value, _native.Tensor):
        return value
    if isinstance(value, bool | int | float | list | tuple | np.generic):
        try:
            return np.asarray(value, dtype=_native.numpy_dtype(slot.dtype))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"input '{slot.name}': {error}") from None
    if hasattr(value, "is_contiguous") and not value.is_contiguous():
        return value.contiguous()
    return value
