"""The result file: one JSON document, which is complete on disk after every part."""

import json
import os
import re
from pathlib import Path

OURS = ("reprise cuda", "reprise vulkan")


class FormatError(Exception):
    pass


def write(document: dict, path: Path) -> None:
    """Replaces the file atomically: a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)


def read(path: Path) -> dict:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path} is not a result of tools/gpu-check: {error}") from None
    for key in ("facts", "tests", "bench"):
        if not isinstance(document, dict) or key not in document:
            raise FormatError(f"{path} is not a result of tools/gpu-check: the key '{key}' is missing")
    return document


def empty(facts: dict) -> dict:
    return {
        "facts": facts,
        "tests": [],
        "bench": {"cases": [], "peers": {}, "missing": {}},
        "parts": [],
    }


def file_name(device: str, day: str) -> str:
    """The name of the file: nvidia-h200-DAY.json for 'NVIDIA H200'."""
    words = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return f"{words or 'gpu'}-{day}.json"


def failures(document: dict) -> list[str]:
    return [f"{test['name']}: {name}" for test in document["tests"] for name in test["failures"]]


def wrong_results(document: dict) -> list[str]:
    return [
        f"{case['case']} {case['dtype']}: {row['name']}: {row['status']}: {row.get('reason', '')}"
        for part in ("bench", "tune")
        for case in document.get(part, {}).get("cases", [])
        for row in case["contenders"]
        if row["name"].startswith(OURS) and row["status"] in ("wrong", "failed")
    ]


def take_bench(document: dict, bench: dict, into: str = "bench") -> None:
    """Adds the results of a run of reprise_gpubench. Cases that are there already are replaced."""
    ours = document.setdefault(into, {"cases": [], "peers": {}, "missing": {}})
    for key in ("device", "vulkan", "memory", "command"):
        if key in bench:
            ours[key] = bench[key]
    new = {(case["case"], case["dtype"]): case for case in bench.get("cases", [])}
    old = [case for case in ours["cases"] if (case["case"], case["dtype"]) not in new]
    ours["cases"] = [*old, *new.values()]
    ours["peers"].update(bench.get("peers", {}))
    ours["missing"].update(bench.get("missing", {}))


def merge_rows(document: dict, rows: list[dict]) -> None:
    """Adds rows of another process to ours: lines of torch_peer.py.

    A row is about a case ("case", "dtype" and a contender's keys), a peer's version ("peer",
    "version") or why it is missing ("missing", "reason").
    """
    bench = document["bench"]
    cases = {(case["case"], case["dtype"]): case for case in bench["cases"]}
    for row in rows:
        if "version" in row:
            bench["peers"][row["peer"]] = row["version"]
        elif "missing" in row:
            bench["missing"][row["missing"]] = row["reason"]
        elif "case" in row and "dtype" in row:  # libraries print JSON as well
            case = cases.get((row["case"], row["dtype"]))
            if case is None:
                continue
            entry = {key: value for key, value in row.items() if key not in ("case", "dtype")}
            for work, scale in (("flops", 1e9), ("bytes", 1e6)):
                for key, ms in (("rate", "wall_ms"), ("device_rate", "device_ms")):
                    if work in case and entry.get(ms, 0) > 0:
                        entry[key] = case[work] / entry[ms] / scale
            case["contenders"] = [
                old for old in case["contenders"] if old["name"] != entry["name"]
            ] + [entry]


def parse_rows(text: str) -> list[dict]:
    """The JSON lines of a process; the last one may be incomplete because the process was killed."""
    rows = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows
