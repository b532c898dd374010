"""Results for people: text, and an HTML page with one bar per contender."""

import html

from peerbench.report import STYLE, number

COLOURS = {
    "reprise cuda": "#1f6feb",
    "reprise vulkan": "#8250df",
    "torch eager": "#bf3989",
    "torch compile": "#d29922",
    "torch graph": "#d29922",
    "ort cuda": "#8b949e",
}
OTHER = "#2da44e"  # NVIDIA's libraries and the driver
LEFT, WIDTH, BAR, GAP = 330, 560, 14, 10


def rows(document: dict):
    for case in document["bench"]["cases"]:
        for entry in case["contenders"]:
            yield case, entry


def ratio(case: dict, entry: dict) -> float | None:
    """The time of a contender's run relative to that of Reprise on CUDA."""
    ours = next((e for e in case["contenders"] if e["name"] == "reprise cuda"), {})
    if "ok" != entry["status"] or "ok" != ours.get("status"):
        return None
    times = entry.get("wall_ms"), ours.get("wall_ms")
    return times[0] / times[1] if all(times) else None


def facts_lines(document: dict) -> list[str]:
    facts = document["facts"]
    gpu = facts.get("gpu", {})
    lines = [f"{facts.get('device')}, {facts.get('date')}, commit {facts.get('commit')}"]
    if facts.get("changed"):
        lines[0] += " with changes"
    lines += [f"{key}: {value}" for key, value in gpu.items()]
    lines.append(f"NVRTC: {facts.get('nvrtc')}; {facts.get('cpu')}, {facts.get('cores')} cores")
    for when in ("clocks_before", "clocks_after"):
        clocks = facts.get(when, {})
        lines.append(when.replace("_", " ") + ": " + ", ".join(f"{k} {v}" for k, v in clocks.items()))
    bench = document["bench"]
    lines += [f"{name} {version}" for name, version in bench["peers"].items()]
    lines += [f"without {name}: {why}" for name, why in bench["missing"].items()]
    lines += [f"{part['name']}: {part['note']}" for part in document["parts"] if part.get("note")]
    return lines


def test_lines(document: dict) -> list[str]:
    lines = []
    for test in document["tests"]:
        if test.get("missing"):
            lines.append(f"{test['name']}: not run: {test['missing']}")
            continue
        counts = f"{test['passed']} passed, {len(test['failures'])} failed"
        for kind in ("skipped", "unsupported"):
            counts += f", {test[kind]} {kind}" if test[kind] else ""
        stopped = f"; stopped {test['stopped']}" if test.get("stopped") else ""
        lines.append(f"{test['name']}: {counts} in {test['seconds']:.0f} s{stopped}")
        for name, said in test["failures"].items():
            first = said.strip().splitlines()
            lines.append(f"  {name}: {first[0] if first else ''}")
    return lines


HEAD = ("case", "dtype", "who", "wall ms", "device ms", "rate", "on device", "", "error", "time")


def cells(case: dict, entry: dict) -> list[str]:
    times = ratio(case, entry)
    out = [case["case"], case["dtype"], entry["name"]]
    if entry["status"] != "ok":
        return [*out, entry["status"], *[""] * 5, entry.get("reason", "")[:60]]
    for key in ("wall_ms", "device_ms", "rate", "device_rate"):
        out.append(number(entry.get(key)))
    error = entry.get("error")
    out += [case.get("unit", ""), f"{error:.1e}" if isinstance(error, float) else "-"]
    return [*out, f"{times:.2f}x" if times else "-"]


def text(document: dict) -> str:
    lines = [*facts_lines(document), "", *test_lines(document), ""]
    table = [list(HEAD), *[cells(case, entry) for case, entry in rows(document)]]
    widths = [max(len(row[i]) for row in table) for i in range(len(HEAD))]
    if len(table) > 1:
        for row in table:
            lines.append("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip())
    for case in document["bench"]["cases"]:
        if case.get("skipped"):
            lines.append(f"{case['case']} {case['dtype']}: skipped: {case['skipped']}")
    return "\n".join(lines) + "\n"


LIBRARIES = {"cublas": "cuBLAS", "cudnn": "cuDNN", "driver copy": "driver"}


def markdown(document: dict) -> str:
    """Device times of every case, as docs/benchmarks.md has them."""

    def time(case: dict, name: str) -> str:
        entry = next((e for e in case["contenders"] if e["name"] == name), None)
        if entry is None:
            return "-"
        return number(entry.get("device_ms")) if entry["status"] == "ok" else entry["status"]

    lines = ["| device ms | Reprise CUDA | Reprise Vulkan | NVIDIA's library |", "|---|---|---|---|"]
    for case in document["bench"]["cases"]:
        peer = next((e["name"] for e in case["contenders"] if e["name"] in LIBRARIES), "")
        library = f"{time(case, peer)} ({LIBRARIES[peer]})" if peer else "-"
        ours = [time(case, f"reprise {api}") for api in ("cuda", "vulkan")]
        if not case["contenders"]:
            ours[0] = "not measured"
        lines.append(f"| {case['case']} {case['dtype']} | {ours[0]} | {ours[1]} | {library} |")
    return "\n".join(lines) + "\n"


def chart(cases: list[dict]) -> str:
    """One bar per contender: its speed as a fraction of the fastest one's."""
    y, body = 10, []
    for case in cases:
        times = {
            e["name"]: e["wall_ms"]
            for e in case["contenders"]
            if e["status"] == "ok" and e.get("wall_ms")
        }
        if not times:
            continue
        best = min(times.values())
        body.append(
            f'<text class="label" x="{LEFT - 130}" y="{y + BAR - 3}">'
            f"{html.escape(case['case'])} {case['dtype']}</text>"
        )
        for name, ms in times.items():
            width = max(1.0, WIDTH * best / ms)
            rate = next(e.get("rate") for e in case["contenders"] if e["name"] == name)
            value = f"{number(ms)} ms" + (f", {number(rate)} {case['unit']}" if rate else "")
            tip = html.escape(f"{case['case']} {case['dtype']}, {name}: {value}")
            colour = COLOURS.get(name, OTHER)
            body.append(
                f'<text class="tick" x="{LEFT - 65}" y="{y + BAR - 3}">{html.escape(name)}</text>'
                f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}">'
                f"<title>{tip}</title></rect>"
                f'<text class="value" x="{LEFT + width + 5:.1f}" y="{y + BAR - 3}">{value}</text>'
            )
            y += BAR
        y += GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 190} {y}" '
        f'role="img" aria-label="Speed per case">{"".join(body)}</svg>'
    )


def page(document: dict) -> str:
    title = html.escape(f"Reprise on {document['facts'].get('device')}")

    def items(lines: list[str]) -> str:
        return "".join(f"<li>{html.escape(line)}</li>" for line in lines)

    def row(tag: str, values) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(v)}</{tag}>" for v in values) + "</tr>"

    body = "".join(row("td", cells(case, entry)) for case, entry in rows(document))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p>Longer bars are faster: median time of a whole run, against the fastest of each case.</p>
<div class="scroll">{chart(document["bench"]["cases"])}</div>
<h2>Tests</h2><ul>{items(test_lines(document))}</ul>
<h2>All results</h2>
<p>'time' is how many times as long as our CUDA run it takes; 'error' is a part of the largest value.</p>
<div class="scroll"><table><thead>{row("th", HEAD)}</thead><tbody>{body}</tbody></table></div>
<h2>How it was measured</h2><ul>{items(facts_lines(document))}</ul>
</body></html>
"""
