"""The HTTP interface of an engine, as an ASGI application: what clients of OpenAI's interface expect."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import reprise

from .engine import Engine, Event, Failed, Full, NoToken, Request, Sampling, TooLong

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST_BODY = 4 << 20
PAGE = Path(__file__).with_name("page.html")
ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
# What answers would have to have and do not.
NOT_SUPPORTED = {
    "tools": [],
    "functions": [],
    "logprobs": False,
    "logit_bias": {},
    "best_of": 1,
    "echo": False,
    "suffix": "",
    "presence_penalty": 0,
    "frequency_penalty": 0,
}


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, message: str, code: str = "invalid_request"
    ) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def error_body(message: str, status: int, code: str) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def number(
    body: dict[str, Any], key: str, default: float, low: float, high: float
) -> float:
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(400, f"'{key}' must be a number")
    if not low <= value <= high:  # neither NaN nor an integer beyond every float is
        raise Refused(400, f"'{key}' must be between {low:g} and {high:g}")
    return value


def whole(body: dict[str, Any], key: str, default: int, low: int, high: int) -> int:
    value = number(body, key, default, low, high)
    if value != int(value):
        raise Refused(400, f"'{key}' must be a whole number")
    return int(value)


def text_of(content: Any) -> str:
    """The content of a message: a text, or a list of parts that are texts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [
            p.get("text")
            for p in content
            if isinstance(p, dict) and p.get("type") == "text"
        ]
        if len(parts) == len(content) and all(isinstance(p, str) for p in parts):
            return "".join(str(p) for p in parts)
    raise Refused(400, "the content of a message must be text")


def turns_of(body: dict[str, Any]) -> list[tuple[str, str]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "'messages' must be a list with at least one message")
    turns = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in ROLES:
            raise Refused(
                400, f"a message must have one of the roles {', '.join(ROLES)}"
            )
        turns.append((ROLES[role], text_of(message.get("content"))))
    return turns


def stops_of(body: dict[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop") or []
    stops = [stop] if isinstance(stop, str) else stop
    if (
        not isinstance(stops, list)
        or not all(isinstance(s, str) for s in stops)
        or len(stops) > 4
    ):
        raise Refused(400, "'stop' must be a text or a list of at most 4 texts")
    return tuple(stops)


def wants_stream(body: dict[str, Any]) -> bool:
    stream = body.get("stream", False)
    if stream not in (True, False, None):
        raise Refused(400, "'stream' must be true or false")
    return bool(stream)


def refuse_unsupported(body: dict[str, Any]) -> None:
    for key, harmless in NOT_SUPPORTED.items():
        if body.get(key, None) not in (None, harmless):
            raise Refused(400, f"'{key}' is not supported", "unsupported")
    if whole(body, "n", 1, 1, 128) != 1:
        raise Refused(400, "'n' other than 1 is not supported", "unsupported")


class Answer:
    """The events of a request, in the event loop of the server."""

    def __init__(self, engine: Engine, body: dict[str, Any], ids: list[int]) -> None:
        loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self.tokens = 0
        self.reason = ""
        key = (
            "max_tokens"
            if body.get("max_completion_tokens") is None
            else "max_completion_tokens"
        )
        room = engine.capacity - len(ids) + 1
        self.request = Request(
            ids=ids,
            max_tokens=whole(body, key, max(room, 1), 1, 1 << 31),
            sampling=Sampling(
                temperature=number(body, "temperature", 1.0, 0.0, 100.0),
                top_k=whole(body, "top_k", 0, 0, 1 << 30),
                top_p=max(number(body, "top_p", 1.0, 0.0, 1.0), 1e-6),
                seed=whole(body, "seed", 0, -(1 << 63), 1 << 63) % (1 << 31),
            ),
            stops=stops_of(body),
            deliver=lambda event: self._deliver(loop, event),
        )
        engine.submit(self.request)

    def _deliver(self, loop: asyncio.AbstractEventLoop, event: Event) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def pieces(self) -> AsyncIterator[str]:
        while not self.reason:
            event = await self._events.get()
            if event.error is not None:
                raise Failed(event.error, 400 if event.reason == "refused" else 500)
            self.tokens, self.reason = event.tokens, event.reason
            if event.text:
                yield event.text

    def usage(self) -> dict[str, int]:
        prompt = len(self.request.ids)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self.tokens,
            "total_tokens": prompt + self.tokens,
        }


class Form:
    """The objects of answers: those of chats, or those of texts that are continued."""

    def __init__(self, model: str, chat: bool) -> None:
        self._chat = chat
        self._head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex,
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, text: str, answer: Answer) -> dict[str, Any]:
        said: dict[str, Any] = (
            {"message": {"role": "assistant", "content": text}}
            if self._chat
            else {"text": text}
        )
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": answer.reason}
        kind = "chat.completion" if self._chat else "text_completion"
        return {
            "object": kind,
            **self._head,
            "choices": [choice],
            "usage": answer.usage(),
        }

    def piece(self, text: str | None, reason: str | None = None) -> dict[str, Any]:
        delta: dict[str, Any] = {} if text is None else {"content": text}
        said: dict[str, Any] = {"delta": delta} if self._chat else {"text": text or ""}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": reason}
        return self._chunk([choice])

    def first(self) -> dict[str, Any] | None:
        """What a chat begins with."""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        return self._chunk([choice]) if self._chat else None

    def usage(self, answer: Answer) -> dict[str, Any]:
        return {**self._chunk([]), "usage": answer.usage()}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return {"object": kind, **self._head, "choices": choices}


async def read_body(receive: Receive) -> dict[str, Any]:
    data = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError
        data += message.get("body", b"")
        if len(data) > LARGEST_BODY:
            raise Refused(
                413, f"the request has more than {LARGEST_BODY} bytes", "too_large"
            )
        if not message.get("more_body"):
            break
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise Refused(400, "the request is not JSON") from None
    if not isinstance(body, dict):
        raise Refused(400, "the request must be a JSON object")
    return body


async def send_all(
    send: Send, status: int, body: bytes, kind: str = "application/json"
) -> None:
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def event_line(data: dict[str, Any] | str) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


class Api:
    """An ASGI application."""

    def __init__(self, engine: Engine, model: str) -> None:
        self._engine = engine
        self._model = model
        self._begun = int(time.time())

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            try:
                await self._http(scope, receive, send)
            except ConnectionError:
                pass

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        posts = {"/v1/chat/completions": True, "/v1/completions": False}
        try:
            if path in posts:
                if method != "POST":
                    raise Refused(405, f"{path} takes POST", "method_not_allowed")
                await self._complete(receive, send, posts[path])
                return
            if method not in ("GET", "HEAD"):
                raise Refused(404, f"there is no {method} {path}", "not_found")
            await self._get(path, send)
        except Refused as error:
            body = error_body(str(error), error.status, error.code)
            await send_all(send, error.status, json.dumps(body).encode())

    async def _get(self, path: str, send: Send) -> None:
        if path == "/":
            await send_all(send, 200, PAGE.read_bytes(), "text/html; charset=utf-8")
            return
        model = {
            "id": self._model,
            "object": "model",
            "created": self._begun,
            "owned_by": "reprise",
        }
        answers: dict[str, Any] = {
            "/v1/models": {"object": "list", "data": [model]},
            f"/v1/models/{self._model}": model,
            "/health": {
                "status": "ok",
                "device": self._engine.device,
                **self._engine.state(),
            },
        }
        if path not in answers:
            raise Refused(404, f"there is no {path}", "not_found")
        await send_all(send, 200, json.dumps(answers[path]).encode())

    def _ids(self, body: dict[str, Any], chat: bool) -> list[int]:
        try:
            if chat:
                turns = turns_of(body)
                for _, content in turns:
                    content.encode()  # JSON may have halves of a character, UTF-8 not
                return self._engine.encode_chat(turns)
            prompt = body.get("prompt")
            if (
                isinstance(prompt, list)
                and len(prompt) == 1
                and isinstance(prompt[0], str)
            ):
                prompt = prompt[0]
            if isinstance(prompt, list) and all(type(i) is int for i in prompt):
                return prompt
            if not isinstance(prompt, str):
                raise Refused(400, "'prompt' must be a text or a list of ids")
            prompt.encode()
            return self._engine.encode(prompt)
        except (reprise.Error, UnicodeError) as error:
            raise Refused(400, str(error)) from None

    async def _complete(self, receive: Receive, send: Send, chat: bool) -> None:
        body = await read_body(receive)
        model = body.get("model", self._model)
        if model != self._model:
            raise Refused(404, f"the model is '{self._model}'", "model_not_found")
        refuse_unsupported(body)
        stream = wants_stream(body)
        ids = self._ids(body, chat)
        if not ids:
            raise Refused(400, "the prompt is empty")
        try:
            answer = Answer(self._engine, body, ids)
        except TooLong as error:
            raise Refused(400, str(error), "context_length_exceeded") from None
        except NoToken as error:
            raise Refused(400, str(error)) from None
        except Full as error:
            raise Refused(503, str(error), "overloaded") from None
        gone = asyncio.create_task(self._watch(receive, answer))
        try:
            form = Form(self._model, chat)
            if stream:
                options = body.get("stream_options")
                usage = (
                    isinstance(options, dict) and options.get("include_usage") is True
                )
                await self._stream(send, form, answer, usage)
            else:
                await self._answer(send, form, answer)
        finally:
            answer.request.cancelled.set()
            gone.cancel()

    async def _watch(self, receive: Receive, answer: Answer) -> None:
        """Cancels the answer when its client has gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        answer.request.cancelled.set()

    async def _answer(self, send: Send, form: Form, answer: Answer) -> None:
        try:
            text = "".join([piece async for piece in answer.pieces()])
        except Failed as error:
            raise Refused(error.status, str(error), "failed") from None
        await send_all(send, 200, json.dumps(form.whole(text, answer)).encode())

    async def _stream(
        self, send: Send, form: Form, answer: Answer, usage: bool
    ) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(data: dict[str, Any] | str, more: bool = True) -> None:
            line = event_line(data)
            await send({"type": "http.response.body", "body": line, "more_body": more})

        try:
            first = form.first()
            if first is not None:
                await write(first)
            async for piece in answer.pieces():
                await write(form.piece(piece))
            await write(form.piece(None, answer.reason))
            if usage:
                await write(form.usage(answer))
        except Failed as error:
            await write(error_body(str(error), error.status, "failed"))
        await write("[DONE]", more=False)
