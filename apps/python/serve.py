#!/usr/bin/env python3
"""Serves a language model to many clients, with the interface of OpenAI's servers, and a page to chat in.

Reprise runs on one machine; Ray Serve brings it to many, restarts what fails and balances requests. With
--ray, each replica has an engine: several sessions on one device, which share the weights. Without, one
process does the same under uvicorn, for a single machine.

    pip install '.[serve]'                                   # uvicorn and Ray Serve
    apps/python/serve.py SmolLM2-135M-Instruct.Q4_1.gguf     # the page is http://127.0.0.1:8000
    apps/python/serve.py model.gguf --ray --replicas 2
    apps/python/serve.py model.gguf --bench                  # throughput and latency of 32 clients
    apps/python/serve.py --bench --url http://host:8000      # of a server that runs

    curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\
      -d '{"messages": [{"role": "user", "content": "Who wrote Faust?"}], "stream": true}'

It answers /v1/chat/completions, /v1/completions, /v1/models and /health. A client that leaves ends its
answer. Where more requests wait than --waiting, a client is told to try again (status 503).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Self

from serving import bench

MISSING = "{0} is missing, with which this example {1}: pip install '{0}', or '.[serve]' in the source tree"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "model",
        nargs="?",
        help="a .gguf, a folder of Hugging Face, an .onnx with caches, or an .rpk",
    )
    add("--name", help="of the model for clients; by default that of its file")
    add(
        "--device",
        default="auto",
        help="auto, host, vulkan[:N] or cuda[:N] (%(default)s)",
    )
    add(
        "--tokenizer",
        help="a tokenizer.json, or a .gguf or folder with one; by default the model's",
    )
    add("--slots", type=int, default=4, help="answers at the same time (%(default)s)")
    add(
        "--capacity",
        type=int,
        default=2048,
        help="the most tokens of a conversation (%(default)s)",
    )
    add(
        "--waiting",
        type=int,
        default=256,
        help="the most requests that wait (%(default)s)",
    )
    add("--host", default="127.0.0.1", help="the address to listen at (%(default)s)")
    add("--port", type=int, default=8000, help="(%(default)s); 0: any")
    add("--ray", action="store_true", help="serve with Ray Serve")
    add(
        "--replicas",
        type=int,
        default=1,
        help="of Ray Serve, one device each (%(default)s)",
    )
    add("--bench", action="store_true", help="measure, and end")
    add("--url", help="the server that --bench measures")
    add("--clients", type=int, default=32, help="of --bench (%(default)s)")
    add("--requests", type=int, default=64, help="of --bench (%(default)s)")
    add("--tokens", type=int, default=32, help="of an answer in --bench (%(default)s)")
    add("--json", help="write the result of --bench to this file")
    options = parser.parse_args()
    if options.model is None and not (options.bench and options.url):
        parser.error("which model? (--help)")
    for key in ("slots", "capacity", "replicas", "clients", "requests", "tokens"):
        if getattr(options, key) < 1:
            parser.error(f"--{key} must be at least 1")
    return options


def application(options: argparse.Namespace) -> Any:
    """The engine and its interface."""
    from serving.api import Api
    from serving.engine import Engine

    engine = Engine(
        options.model,
        device=options.device,
        slots=options.slots,
        capacity=options.capacity,
        most_waiting=options.waiting,
        tokenizer=options.tokenizer,
    )
    print(f"note: {options.slots} slots on {engine.device}", file=sys.stderr)
    return Api(engine, options.name or Path(options.model).stem)


class Server:
    """uvicorn, in this thread or in one of its own."""

    def __init__(self, options: argparse.Namespace) -> None:
        try:
            import uvicorn
        except ImportError:
            sys.exit(
                "serve: " + MISSING.format("uvicorn", "listens (--ray uses Ray Serve)")
            )
        config = uvicorn.Config(
            application(options),
            host=options.host,
            port=options.port,
            log_level="warning",
        )
        self._server = uvicorn.Server(config)
        self._socket = config.bind_socket()
        self.url = "http://{}:{}".format(*self._socket.getsockname()[:2])

    def run(self) -> None:
        print(f"note: {self.url}", file=sys.stderr, flush=True)
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()


def run_with_ray(options: argparse.Namespace) -> None:
    try:
        from ray import serve
    except ImportError:
        sys.exit("serve: " + MISSING.format("ray[serve]", "serves with --ray"))
    import ray

    # Workers import the parts of this program from its folder.
    folder = str(Path(__file__).resolve().parent)
    paths = os.pathsep.join(
        [folder, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    )
    ray.init(runtime_env={"env_vars": {"PYTHONPATH": paths}}, log_to_driver=True)
    options.model = str(Path(options.model).resolve())
    deployment = serve.deployment(
        serve.ingress(lambda: application(options))(),
        num_replicas=options.replicas,
        max_ongoing_requests=options.slots + options.waiting,
    )
    serve.start(http_options={"host": options.host, "port": options.port})
    serve.run(deployment.bind(), name="reprise", blocking=True)


def run_bench(options: argparse.Namespace, url: str) -> int:
    result = asyncio.run(
        bench.measure(url, options.clients, options.requests, options.tokens)
    )
    print(bench.table(result))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result["errors"] else 0


def main() -> int:
    options = parse()
    if options.bench and options.url:
        return run_bench(options, options.url)
    if options.bench:
        options.waiting = max(options.waiting, options.clients)
    try:
        if options.ray:
            run_with_ray(options)
            return 0
        server = Server(options)
    except Exception as error:
        import reprise

        if not isinstance(error, reprise.Error | OSError):
            raise
        print(f"serve: {error}", file=sys.stderr)
        return 3
    if not options.bench:
        server.run()
        return 0
    with server:
        return run_bench(options, server.url)


if __name__ == "__main__":
    sys.exit(main())
