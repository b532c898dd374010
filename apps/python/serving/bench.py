"""Measures a server with many clients at the same time. It needs the standard library alone."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

TOPICS = (
    "the sea", "a clock", "winter", "trains", "bread", "the moon", "an old town", "music",
)  # fmt: skip


@dataclass
class Sample:
    """The times of one answer, in seconds since its request."""

    pieces: list[float] = field(default_factory=list)
    tokens: int = 0
    total: float = 0.0
    error: str = ""


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


async def chunks(reader: asyncio.StreamReader, chunked: bool) -> Any:
    """The body of an answer in the pieces in which it comes."""
    while True:
        if not chunked:
            data = await reader.read(1 << 16)
        else:
            size = int((await reader.readline()).split(b";")[0] or b"0", 16)
            data = await reader.readexactly(size + 2) if size else b""
            data = data[:-2]
        if not data:
            return
        yield data


async def ask(host: str, port: int, body: dict[str, Any]) -> Sample:
    sample, start = Sample(), time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port)
    try:
        data = json.dumps(body).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + data)
        await writer.drain()
        status = (await reader.readline()).split()
        chunked = False
        while (line := await reader.readline()).strip():
            chunked |= line.lower().startswith(b"transfer-encoding: chunked")
        left = b""
        async for part in chunks(reader, chunked):
            *lines, left = (left + part).split(b"\n")
            for line in lines:
                read_line(line.strip(), sample, time.perf_counter() - start)
        if status[1:2] != [b"200"]:
            sample.error = f"status {status[1:2]} {left[:200]!r}"
    finally:
        writer.close()
    sample.total = time.perf_counter() - start
    return sample


def read_line(line: bytes, sample: Sample, now: float) -> None:
    if not line.startswith(b"data: {"):
        return
    data = json.loads(line[6:])
    if "error" in data:
        sample.error = data["error"]["message"]
    if data.get("usage"):
        sample.tokens = data["usage"]["completion_tokens"]
    for choice in data.get("choices", ()):
        if choice["delta"].get("content"):
            sample.pieces.append(now)


async def measure(
    url: str, clients: int, requests: int, tokens: int
) -> dict[str, float | int | str]:
    """Each client asks again as soon as it has its answer, until all requests were made."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    numbers = iter(range(requests))
    samples: list[Sample] = []

    async def client() -> None:
        for i in numbers:
            text = f"Tell me a story about {TOPICS[i % len(TOPICS)]}, number {i}."
            body = {
                "messages": [{"role": "user", "content": text}],
                "max_tokens": tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            try:
                samples.append(await ask(host, port, body))
            except (OSError, ValueError, asyncio.IncompleteReadError) as error:
                samples.append(Sample(error=repr(error)))

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    wall = time.perf_counter() - start
    good = [s for s in samples if not s.error and s.pieces]
    first = [s.pieces[0] * 1000 for s in good]
    gaps = [
        (b - a) * 1000
        for s in good
        for a, b in zip(s.pieces, s.pieces[1:], strict=False)
    ]
    total = [s.total * 1000 for s in good]
    out: dict[str, float | int | str] = {
        "clients": clients,
        "requests": len(samples),
        "errors": len(samples) - len(good),
        "tokens": sum(s.tokens for s in good),
        "seconds": wall,
        "tokens_per_s": sum(s.tokens for s in good) / wall,
        "requests_per_s": len(good) / wall,
    }
    for name, values in (("first_ms", first), ("gap_ms", gaps), ("total_ms", total)):
        for part in (50, 95, 99):
            out[f"{name}_p{part}"] = percentile(values, part / 100)
    wrong = next((s.error for s in samples if s.error), "")
    if wrong:
        out["first_error"] = wrong
    return out


def table(result: dict[str, float | int | str]) -> str:
    def at(key: str) -> str:
        return f"{result[key]:10.1f}"

    lines = [
        "{clients} clients, {requests} requests, {errors} errors, {seconds:.1f} s".format(
            **result
        ),
        f"{result['tokens_per_s']:.1f} tokens/s, {result['requests_per_s']:.2f} answers/s",
        "                         median       95 %       99 %",
    ]
    for name, text in (
        ("first_ms", "first token, ms"),
        ("gap_ms", "between pieces, ms"),
        ("total_ms", "whole answer, ms"),
    ):
        numbers = " ".join(at(f"{name}_p{part}") for part in (50, 95, 99))
        lines.append(f"{text:20}{numbers}")
    if "first_error" in result:
        lines.append(f"first error: {result['first_error']}")
    return "\n".join(lines)
