"""Answers requests with a language model, several at the same time.

An engine has slots. A slot is a session with caches of its own; the sessions share the weights on the
device. Each slot has a thread, which takes the request that has waited for longest. Their steps take
turns on the device, so a long answer keeps no short one from beginning. A request that continues the
text of a slot, such as the next message of a chat, gets that slot if it is free, and only what is new is
computed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import reprise

PREFILL = 512  # tokens of a run, after which a request can be cancelled


class Full(Exception):
    """More requests wait than may."""


class TooLong(Exception):
    """A prompt has more tokens than there is room for."""


class NoToken(Exception):
    """A prompt has an id that no token has."""


class Failed(Exception):
    """An answer that ended with an error, whose status is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Sampling:
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Event:
    """A piece of an answer; the last one has a reason."""

    text: str
    tokens: int  # so far
    reason: str = ""  # "stop", "length", "cancelled", "refused" or "error"
    error: str | None = None


@dataclass(eq=False)
class Request:
    ids: list[int]
    max_tokens: int
    sampling: Sampling
    stops: tuple[str, ...]  # texts that end the answer
    deliver: Callable[[Event], None]  # called in the thread of a slot; must not wait
    cancelled: threading.Event = field(default_factory=threading.Event)
    arrived: float = field(default_factory=time.monotonic)


class StopFilter:
    """Holds text back that may be the beginning of a text that ends the answer."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = [s for s in stops if s]
        self._held = ""
        self.stopped = False

    def add(self, piece: str) -> str:
        """Returns what can be shown."""
        text = self._held + piece
        found = [at for s in self._stops if (at := text.find(s)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(text)), keep, -1):
                if text.endswith(stop[:size]):
                    keep = size
                    break
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        text, self._held = self._held, ""
        return text


def common_beginning(a: list[int], b: list[int]) -> int:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


def ends_of(package: reprise.Package) -> set[int]:
    """The tokens that end a text, as far as the package says it."""
    text = package.metadata.get("reprise.end_tokens", "")
    return {int(i) for i in text.split(",") if i.strip()}


class Slot:
    """A session, and the ids that its caches have."""

    def __init__(
        self, package: reprise.Package, device: reprise.Device, capacity: int
    ) -> None:
        self.session = reprise.Session(package, device)
        self.ids: list[int] = []
        self.capacity = capacity
        self._inputs = {slot.name: slot for slot in self.session.inputs}
        self._step = next(
            (s for s in self.session.states if s.name == "sampling.step"), None
        )
        names = {slot.name for slot in self.session.outputs}
        known = {"input_ids", "attention_mask", "position_ids"}
        other = [
            n for n in self._inputs if n not in known and not n.startswith("sampling.")
        ]
        if "sampled_ids" not in names or "input_ids" not in self._inputs or other:
            raise reprise.Unsupported(
                "the package is none that generates: it needs the input 'input_ids', the output "
                "'sampled_ids' and caches as states; docs/generation.md says how to compile one"
            )
        self.session.limit_states(capacity)

    def _integers(self, name: str, values: Any) -> np.ndarray[Any, Any]:
        return np.asarray([values], dtype=self._inputs[name].dtype)

    def run(self, ids: list[int], sampling: Sampling) -> int:
        """Runs on ids that follow, and returns the next one."""
        length = len(self.ids)
        inputs: dict[str, Any] = {"input_ids": self._integers("input_ids", ids)}
        if "attention_mask" in self._inputs:
            inputs["attention_mask"] = self._integers(
                "attention_mask", [1] * (length + len(ids))
            )
        if "position_ids" in self._inputs:
            inputs["position_ids"] = self._integers(
                "position_ids", range(length, length + len(ids))
            )
        inputs["sampling.temperature"] = np.array([sampling.temperature], np.float32)
        inputs["sampling.top_k"] = np.array([sampling.top_k], np.int32)
        inputs["sampling.top_p"] = np.array([sampling.top_p], np.float32)
        inputs["sampling.seed"] = np.array([sampling.seed], np.int32)
        results = self.session.run(inputs)
        self.ids += ids
        token = int(np.asarray(results["sampled_ids"]).reshape(-1)[0])
        if token < 0:
            raise reprise.InvalidInput("all logits are NaN or -infinity")
        return token

    def begin(self, ids: list[int]) -> int:
        """Keeps what the caches have of these ids, and returns how many those are."""
        keep = min(common_beginning(self.ids, ids), len(ids) - 1)
        if keep < len(self.ids):
            self.session.truncate_states(keep)
            del self.ids[keep:]
        return keep

    def begin_sampling(self) -> None:
        """Makes the next run the first one of which a token is taken: a seed gives one text then,
        however many runs the prompt took."""
        if self._step is not None:
            step = np.zeros(self._step.shape, self._step.dtype)
            self.session.write_state("sampling.step", step)

    def reset(self) -> None:
        self.ids = []
        self.session.reset_states()


class Engine:
    """Any thread may call its functions."""

    def __init__(
        self,
        model: str,
        device: str = "auto",
        slots: int = 4,
        capacity: int = 2048,
        most_waiting: int = 256,
        tokenizer: str | None = None,
    ) -> None:
        options = {"grow_states": "auto", "last": ["logits"], "sample": "logits,only"}
        own = model.endswith(".rpk") or not model.endswith(".onnx")
        package = reprise.compile(model, **({} if own else options))  # type: ignore[arg-type]
        given = package.metadata.get("reprise.context", "")
        self.capacity = min(capacity, int(given)) if given else capacity
        self._vocabulary = int(package.metadata.get("reprise.vocabulary", 1 << 31))
        beside = Path(model).parent / "tokenizer.json" if not own else model
        self.tokenizer = reprise.open_tokenizer(tokenizer or str(beside))
        self._text_lock = threading.Lock()
        self._ends = ends_of(package)
        opened = reprise.open_device(device)
        self.device = opened.id
        self._slots = [Slot(package, opened, self.capacity) for _ in range(slots)]
        self._waiting: deque[Request] = deque()
        self._most_waiting = most_waiting
        self._idle: set[Slot] = set()
        self._given: dict[Slot, Request] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.answered = 0
        self.tokens = 0
        self.reused = 0
        self._threads = [
            threading.Thread(target=self._serve, args=(s,), daemon=True)
            for s in self._slots
        ]
        for thread in self._threads:
            thread.start()

    def encode(self, text: str) -> list[int]:
        with self._text_lock:
            return self.tokenizer.encode(text)

    def encode_chat(self, turns: list[tuple[str, str]]) -> list[int]:
        with self._text_lock:
            return self.tokenizer.encode_chat(turns)

    def submit(self, request: Request) -> None:
        """Raises Full, TooLong or NoToken, and otherwise returns at once; answers come by deliver()."""
        if len(request.ids) > self.capacity:
            raise TooLong(
                f"the prompt has {len(request.ids)} tokens, and there is room for {self.capacity}"
            )
        wrong = next((i for i in request.ids if not 0 <= i < self._vocabulary), None)
        if wrong is not None:
            raise NoToken(f"no token has the id {wrong}")
        with self._changed:
            free = self._idle - self._given.keys()
            if free and not self._waiting:
                best = max(free, key=lambda s: common_beginning(s.ids, request.ids))
                self._given[best] = request
            elif len(self._waiting) >= self._most_waiting:
                raise Full(f"{len(self._waiting)} requests wait already")
            else:
                self._waiting.append(request)
            self._changed.notify_all()

    def state(self) -> dict[str, int]:
        with self._changed:
            return {
                "slots": len(self._slots),
                "busy": len(self._slots) - len(self._idle),
                "waiting": len(self._waiting),
                "answered": self.answered,
                "tokens": self.tokens,
                "reused_tokens": self.reused,
            }

    def close(self) -> None:
        """Ends the threads. Answers that are under way end as cancelled."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _take(self, slot: Slot) -> Request | None:
        with self._changed:
            self._idle.add(slot)
            while not self._closed:
                request = self._given.pop(slot, None)
                if request is None and self._waiting:
                    request = self._waiting.popleft()
                if request is not None:
                    self._idle.discard(slot)
                    return request
                self._changed.wait()
        return None

    def _serve(self, slot: Slot) -> None:
        with self._text_lock:
            text = self.tokenizer.stream()
        while (request := self._take(slot)) is not None:
            try:
                last = self._answer(slot, request, text)
            except Exception as error:  # noqa: BLE001 (the thread has other requests)
                text.finish()
                # A run that fails leaves the caches as they were, but their device may be gone.
                try:
                    slot.reset()
                except reprise.Error:
                    slot.ids = []
                refused = isinstance(error, reprise.InvalidInput)
                reason = "refused" if refused else "error"
                last = Event("", 0, reason, str(error) or repr(error))
            # Whoever reads the end of an answer and continues it finds its slot free.
            with self._changed:
                self._idle.add(slot)
            request.deliver(last)

    def _prefill(self, slot: Slot, request: Request) -> int | None:
        kept = slot.begin(request.ids)
        token = None
        for at in range(kept, len(request.ids), PREFILL):
            if request.cancelled.is_set() or self._closed:
                return None
            if at + PREFILL >= len(request.ids):
                slot.begin_sampling()
            token = slot.run(request.ids[at : at + PREFILL], request.sampling)
        with self._changed:
            self.reused += kept
        return token

    def _answer(self, slot: Slot, request: Request, text: reprise.Tokenizer) -> Event:
        """Delivers an answer but for its last event, and returns that."""
        token = self._prefill(slot, request)
        if token is None:
            return Event("", 0, "cancelled")
        stops = StopFilter(request.stops)
        count, reason = 0, ""
        while not reason:
            if token in self._ends or text.ends(token):
                reason = "stop"
                break
            count += 1
            piece = stops.add(text.add(token))
            if stops.stopped:
                reason = "stop"
            elif count >= request.max_tokens or len(slot.ids) >= self.capacity:
                reason = "length"
            elif request.cancelled.is_set() or self._closed:
                reason = "cancelled"
            if piece:
                request.deliver(Event(piece, count))
            if not reason:
                token = slot.run([token], request.sampling)
        rest = text.finish()
        last = "" if stops.stopped else stops.add(rest) + stops.finish()
        with self._changed:
            self.answered += 1
            self.tokens += count
        return Event(last, count, reason)
