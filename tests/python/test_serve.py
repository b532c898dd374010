"""apps/python/serve.py: its HTTP interface, on a tiny random model that talks in letters."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import reprise

ROOT = Path(__file__).resolve().parents[2]
APPS = ROOT / "apps" / "python"
sys.path.insert(0, str(APPS))

from serving.engine import Engine, StopFilter

SPECIAL = ("<unk>", "<s>", "</s>", "<|user|>", "<|model|>")
LETTERS = "abcdefghijklmnopqrstuvwxyz .,!?0123"
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}<s>{{ m.content }}"
    "{% elif m.role == 'user' %}<|user|>{{ m.content }}"
    "{% else %}<|model|>{{ m.content }}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|model|>{% endif %}"
)


def write_model(folder: Path) -> None:
    data = ROOT / "tests" / "families" / "data" / "llama"
    folder.mkdir()
    shutil.copy(data / "model.safetensors", folder)
    config = json.loads((data / "config.json").read_text())
    config["max_position_embeddings"] = 512
    (folder / "config.json").write_text(json.dumps(config))
    added = [
        {"id": i, "content": token, "special": True, "single_word": False}
        | {"lstrip": False, "rstrip": False, "normalized": False}
        for i, token in enumerate(SPECIAL)
    ]
    vocab = {token: i for i, token in enumerate([*SPECIAL, *LETTERS])}
    model = {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "<unk>"}
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": model,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    text = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(text))


class Stops(unittest.TestCase):
    def test_held_back_text_is_shown_when_it_is_no_stop(self) -> None:
        stops = StopFilter(("END", "EN!"))
        self.assertEqual(
            [stops.add(p) for p in ("a", "bE", "N", "x")], ["a", "b", "", "ENx"]
        )
        self.assertEqual(stops.add("E") + stops.finish(), "E")

    def test_text_ends_before_the_first_stop(self) -> None:
        stops = StopFilter(("END", "E"))
        self.assertEqual(stops.add("abEND"), "ab")
        self.assertTrue(stops.stopped)

    def test_every_division_into_pieces_gives_the_same_text(self) -> None:
        text, stop = "aabaabaac", "aabaac"
        for size in range(1, len(text) + 1):
            stops = StopFilter((stop,))
            shown = ""
            for at in range(0, len(text), size):
                shown += stops.add(text[at : at + size])
                if stops.stopped:
                    break
            with self.subTest(size):
                self.assertEqual(shown, "aab")


class Language(unittest.TestCase):
    """What the package has for language models."""

    def test_folders_compile_and_tokenizers_open(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_model(Path(folder) / "model")
            model = str(Path(folder) / "model")
            package = reprise.compile(model, targets="host")
            self.assertEqual([s.name for s in package.outputs], ["sampled_ids"])
            tokenizer = reprise.open_tokenizer(model)
            self.assertEqual(tokenizer.encode("ab"), [5, 6])
            self.assertEqual(tokenizer.encode_chat([("user", "ab")]), [3, 5, 6, 4])
            other = tokenizer.stream()
            self.assertEqual(tokenizer.add(5) + other.add(6) + other.finish(), "ab")
            self.assertTrue(tokenizer.ends(2))
            self.assertFalse(tokenizer.ends(5))
        with self.assertRaises(reprise.FileError):
            reprise.open_tokenizer("absent.gguf")


try:
    import uvicorn
except ImportError:
    uvicorn = None  # type: ignore[assignment]


@unittest.skipIf(uvicorn is None, "uvicorn is missing: tools/python installs it")
class Server(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]
    model: str
    engine: Any
    server: Any
    port: int
    thread: threading.Thread

    @classmethod
    def setUpClass(cls) -> None:
        from serving.api import Api

        cls.folder = tempfile.TemporaryDirectory()
        write_model(Path(cls.folder.name) / "tiny")
        cls.model = str(Path(cls.folder.name) / "tiny")
        cls.engine = Engine(
            cls.model, device="host", slots=3, capacity=256, most_waiting=64
        )
        config = uvicorn.Config(
            Api(cls.engine, "tiny"), host="127.0.0.1", port=0, log_level="critical"
        )
        cls.server = uvicorn.Server(config)
        listener = config.bind_socket()
        cls.port = listener.getsockname()[1]
        cls.thread = threading.Thread(
            target=cls.server.run, kwargs={"sockets": [listener]}
        )
        cls.thread.start()
        while not cls.server.started:
            time.sleep(0.01)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.should_exit = True
        cls.thread.join()
        cls.engine.close()
        cls.folder.cleanup()

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = (
            body
            if isinstance(body, bytes)
            else json.dumps(body).encode()
            if body
            else None
        )
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        out = answer.status, answer.read()
        connection.close()
        return out

    def post(self, body: Any, path: str = "/v1/chat/completions") -> tuple[int, Any]:
        status, data = self.request("POST", path, body)
        return status, json.loads(data)

    def body(self, text: str = "hello", **more: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"messages": messages, "temperature": 0, "max_tokens": 8, **more}

    def say(self, text: str = "hello", **more: Any) -> str:
        status, answer = self.post(self.body(text, **more))
        self.assertEqual(status, 200, answer)
        return str(answer["choices"][0]["message"]["content"])

    def events(self, body: dict[str, Any], path: str) -> list[Any]:
        status, data = self.request("POST", path, {**body, "stream": True})
        self.assertEqual(status, 200, data)
        lines = [line for line in data.decode().split("\n\n") if line]
        self.assertEqual(lines[-1], "data: [DONE]")
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    def test_models_and_health(self) -> None:
        self.assertEqual(
            json.loads(self.request("GET", "/v1/models")[1])["data"][0]["id"], "tiny"
        )
        self.assertEqual(self.request("GET", "/v1/models/tiny")[0], 200)
        self.assertEqual(json.loads(self.request("GET", "/health")[1])["slots"], 3)
        page = self.request("GET", "/")[1].decode()
        self.assertIn("<title>Reprise</title>", page)
        self.assertNotIn("innerHTML", page)

    def test_answers_are_those_of_the_command_line(self) -> None:
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "reprise", "generate", self.model, "--chat", "--prompt"]
                + ["hello", "--max-tokens", "8", "--device", "host"],
                capture_output=True, text=True, check=True,
                env={**os.environ, "XDG_CACHE_HOME": cache},
            )  # fmt: skip
        self.assertEqual(self.say() + "\n", done.stdout)

    def test_usage_counts_tokens(self) -> None:
        _, answer = self.post(self.body())
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["prompt_tokens"], 7)
        self.assertEqual(answer["usage"]["completion_tokens"], 8)
        self.assertEqual(answer["usage"]["total_tokens"], 15)

    def test_streams_give_the_same_text(self) -> None:
        body = self.body(stream_options={"include_usage": True})
        events = self.events(body, "/v1/chat/completions")
        self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")
        pieces = [c["delta"].get("content", "") for e in events for c in e["choices"]]
        self.assertEqual("".join(pieces), self.say())
        self.assertGreater(sum(1 for p in pieces if p), 3)
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 8)
        self.assertEqual(len({e["id"] for e in events}), 1)

    def test_texts_are_continued(self) -> None:
        path = "/v1/completions"
        body = {"prompt": "hello", "max_tokens": 6, "temperature": 0}
        status, answer = self.post(body, path)
        self.assertEqual(status, 200)
        text = answer["choices"][0]["text"]
        ids = {**body, "prompt": [12, 9, 16, 16, 19]}
        self.assertEqual(self.post(ids, path)[1]["choices"][0]["text"], text)
        events = self.events(body, path)
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), text)

    def test_seeds_repeat_and_differ(self) -> None:
        texts = [
            self.say(temperature=3, max_tokens=30, seed=seed) for seed in (1, 1, 2)
        ]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_seeds_do_not_count_the_pieces_of_a_prompt(self) -> None:
        with mock.patch("serving.engine.PREFILL", 2):
            first, again = (
                self.say(temperature=3, max_tokens=30, seed=3) for _ in range(2)
            )
        self.assertEqual(first, again)

    def test_stops_end_an_answer(self) -> None:
        whole = self.say()
        stop = whole[3:5]
        status, answer = self.post(self.body(stop=[stop]))
        self.assertEqual(status, 200)
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        self.assertEqual(
            answer["choices"][0]["message"]["content"], whole[: whole.find(stop)]
        )

    def test_chats_reuse_their_caches(self) -> None:
        first = self.say("a first message")
        before = self.engine.state()["reused_tokens"]
        messages = [
            {"role": "user", "content": "a first message"},
            {"role": "assistant", "content": first},
            {"role": "user", "content": [{"type": "text", "text": "and more"}]},
        ]
        status, _ = self.post({"messages": messages, "temperature": 0, "max_tokens": 2})
        self.assertEqual(status, 200)
        self.assertGreaterEqual(self.engine.state()["reused_tokens"] - before, 17)

    def test_many_clients_get_what_one_gets(self) -> None:
        texts = [f"{'ab' * (i % 5)} number {i % 4}" for i in range(32)]
        alone = {text: self.say(text) for text in set(texts)}
        with ThreadPoolExecutor(32) as pool:
            together = list(pool.map(self.say, texts))
        self.assertEqual(together, [alone[text] for text in texts])

    def test_wrong_requests_get_errors(self) -> None:
        chat, text = "/v1/chat/completions", "/v1/completions"
        user = {"role": "user", "content": "x"}
        wrong: list[tuple[int, str, str, Any]] = [
            (400, "not JSON", chat, b"{"),
            (400, "not JSON", chat, b"\xff\xfe"),
            (400, "not JSON", chat, b"[" * 100000),
            (400, "JSON object", chat, b"[1]"),
            (400, "'messages'", chat, b"{}"),
            (400, "'messages'", chat, {"messages": []}),
            (400, "roles", chat, {"messages": [{"role": "root", "content": "x"}]}),
            (400, "roles", chat, {"messages": [7]}),
            (400, "roles", chat, {"messages": [{"role": [], "content": "x"}]}),
            (400, "text", chat, {"messages": [{"role": "user", "content": 7}]}),
            (400, "text", chat, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            (400, "'temperature'", chat, {"messages": [user], "temperature": "hot"}),
            (400, "'temperature'", chat, {"messages": [user], "temperature": -1}),
            (400, "'temperature'", chat, b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}'),
            (400, "'temperature'", chat, {"messages": [user], "temperature": True}),
            (400, "'temperature'", chat, {"messages": [user], "temperature": 10**400}),
            (400, "surrogates", chat, {"messages": [{"role": "user", "content": "\ud800"}]}),
            (400, "surrogates", text, {"prompt": "\ud800"}),
            (400, "'max_tokens'", chat, {"messages": [user], "max_tokens": 0}),
            (400, "'max_tokens'", chat, {"messages": [user], "max_tokens": 1.5}),
            (400, "'stop'", chat, {"messages": [user], "stop": [1]}),
            (400, "'stop'", chat, {"messages": [user], "stop": ["a"] * 5}),
            (400, "'stream'", chat, {"messages": [user], "stream": "yes"}),
            (400, "'n'", chat, {"messages": [user], "n": 2}),
            (400, "'tools'", chat, {"messages": [user], "tools": [{}]}),
            (400, "room for 256", chat, {"messages": [{"role": "user", "content": "a" * 300}]}),
            (404, "'tiny'", chat, {"messages": [user], "model": "gpt"}),
            (404, "/v1/nothing", "/v1/nothing", {"messages": [user]}),
            (400, "'prompt'", text, {"prompt": None}),
            (400, "'prompt'", text, {"prompt": ["a", "b"]}),
            (400, "empty", text, {"prompt": ""}),
            (400, "empty", text, {"prompt": []}),
            (400, "4000", text, {"prompt": [4000]}),
            (400, "-1", text, {"prompt": [-1]}),
            (413, "bytes", chat, b" " * (5 << 20)),
        ]  # fmt: skip
        for status, word, path, body in wrong:
            with self.subTest(str(body)[:60]):
                got, answer = self.post(body, path)
                self.assertEqual(got, status, answer)
                self.assertIn(word, answer["error"]["message"])
        self.assertEqual(self.request("GET", chat)[0], 405)
        self.assertEqual(self.request("GET", "/../etc/passwd")[0], 404)
        self.assertEqual(len(self.say()), 8)

    def test_a_client_that_leaves_ends_its_answer(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = self.body("hello", max_tokens=200, stream=True)
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        connection.getresponse().read(20)
        connection.sock.close()
        connection.close()
        deadline = time.monotonic() + 30
        while self.engine.state()["busy"] and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.engine.state()["busy"], 0)

    def test_more_than_may_wait_are_sent_away(self) -> None:
        engine_waiting = self.engine._most_waiting
        self.engine._most_waiting = 1
        try:
            with ThreadPoolExecutor(24) as pool:
                answers = list(
                    pool.map(lambda _: self.post(self.body(max_tokens=60)), range(24))
                )
        finally:
            self.engine._most_waiting = engine_waiting
        statuses = {status for status, _ in answers}
        self.assertEqual(statuses, {200, 503})
        self.assertEqual(len(self.say()), 8)

    def test_the_bench_prints_throughput_and_latency(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, str(APPS / "serve.py"), "--bench", "--url"]
                + [f"http://127.0.0.1:{self.port}", "--clients", "32", "--requests", "40"]
                + ["--tokens", "5", "--json", f"{folder}/bench.json"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("tokens/s", done.stdout)
            result = json.loads(Path(folder, "bench.json").read_text())
        self.assertEqual(result["requests"], 40)
        self.assertEqual(result["errors"], 0)
        self.assertGreaterEqual(result["total_ms_p99"], result["total_ms_p50"])

    def test_a_browser_shows_an_answer(self) -> None:
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        if browser is None:
            self.skipTest("chromium is missing")
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
                + [f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--dump-dom"]
                + [f"http://127.0.0.1:{self.port}/?say=hello"],
                capture_output=True, text=True, check=False, timeout=120,
            )  # fmt: skip
        self.assertIn('<h1 id="model">tiny</h1>', done.stdout, done.stderr)
        self.assertRegex(done.stdout, r'class="turn assistant">[a-z .,!?0-3]+')
        self.assertRegex(done.stdout, r"tokens/s; the first after \d+ ms")


if __name__ == "__main__":
    unittest.main()
