"""Makes tables, summaries and the page from recorded results. Needs only Python."""

import html
import math
from pathlib import Path

from .table import PEERS

BASELINES = [name for name in PEERS if name != "reprise"]
US = "reprise"


class FormatError(Exception):
    pass


def validate(document: object) -> dict:
    """Refuses documents that this program did not write; the error names what is missing."""
    if not isinstance(document, dict):
        raise FormatError("expected an object")
    for key in ("meta", "peers", "models"):
        if key not in document:
            raise FormatError(f"the key '{key}' is missing")
    unknown = [name for name in document["peers"] if name not in PEERS]
    if unknown:
        raise FormatError(f"unknown peer '{unknown[0]}'; known: {', '.join(PEERS)}")
    for model in document["models"]:
        for name in document["peers"]:
            row = model.get("peers", {}).get(name)
            if row is None or "status" not in row:
                raise FormatError(f"model '{model.get('model')}' has no result of '{name}'")
    return document


def correct(model: dict, peer: str, key: str) -> float | None:
    row = model["peers"].get(peer)
    return row.get(key) if row and row["status"] == "ok" else None


def ratios(document: dict, baseline: str, key: str, peer: str = US) -> dict[str, float]:
    """How many times faster a peer is than the baseline, on models that both compute."""
    out = {}
    for model in document["models"]:
        ours, theirs = correct(model, peer, key), correct(model, baseline, key)
        if ours and theirs:
            out[model["model"]] = theirs / ours
    return out


def geometric_mean(values) -> float:
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def best_rival(model: dict) -> tuple[str, float] | None:
    times = [
        (name, correct(model, name, "median_ms"))
        for name, peer in PEERS.items()
        if peer.vulkan and name != US
    ]
    times = [(name, ms) for name, ms in times if ms]
    return min(times, key=lambda item: item[1]) if times else None


def number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def cell(row: dict | None, key: str) -> str:
    if row is None:
        return "-"
    if row["status"] == "failed":
        return "fails"
    wrong = " wrong" if row["status"] == "wrong" else ""
    return number(row.get(key)) + wrong


def summary(document: dict, baseline: str) -> list[str]:
    lines = []
    title = PEERS[baseline].title
    if US in document["peers"]:
        for key, what in (("median_ms", "warm"), ("first_ms", "load and first run")):
            found = ratios(document, baseline, key)
            if found:
                low = min(found, key=found.get)
                lines.append(
                    f"{what}: {geometric_mean(found.values()):.2f}x {title} "
                    f"(geometric mean over {len(found)} models; least {found[low]:.2f}x on {low})"
                )
            else:
                lines.append(f"{what}: no model that both Reprise and {title} compute")
        lines += _rivals(document)
    for name in document["peers"]:
        rows = [(model["model"], model["peers"][name]) for model in document["models"]]
        bad = [f"{model} ({row['status']})" for model, row in rows if row["status"] != "ok"]
        if bad:
            lines.append(f"{PEERS[name].title} without a correct result: {', '.join(bad)}")
    return lines


def _rivals(document: dict) -> list[str]:
    slower, compared = [], 0
    for model in document["models"]:
        rival, ours = best_rival(model), correct(model, US, "median_ms")
        if rival is None or ours is None:
            continue
        compared += 1
        if rival[1] < ours:
            slower.append(f"{model['model']} ({PEERS[rival[0]].title}, {ours / rival[1]:.2f}x)")
    return [
        f"best correct Vulkan peer faster on {len(slower)} of {compared} models"
        + (": " + ", ".join(slower) if slower else "")
    ]


def meta_lines(document: dict) -> list[str]:
    return [f"{key}: {value}" for key, value in document["meta"].items() if value not in ("", None)]


def columns(document: dict) -> tuple[list[str], list[list[str]]]:
    peers = document["peers"]
    head = ["model"]
    for name in peers:
        head += [PEERS[name].title, "first"]
    body = []
    for model in document["models"]:
        line = [model["model"]]
        for name in peers:
            row = model["peers"].get(name)
            line += [
                cell(row, "median_ms"),
                cell(row, "first_ms") if row and row["status"] == "ok" else "-",
            ]
        body.append(line)
    return head, body


def text(document: dict, baseline: str) -> str:
    head, body = columns(document)
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [
        *meta_lines(document),
        "",
        "milliseconds: warm median; first = load + first run, cold",
        "",
    ]
    for line in [head, *body]:
        cells = [line[0].ljust(widths[0])]
        cells += [value.rjust(width) for value, width in zip(line[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    reasons = [
        f"{model['model']}: {PEERS[name].title}: {row.get('reason', '')}"
        for model in document["models"]
        for name, row in model["peers"].items()
        if row["status"] != "ok"
    ]
    if reasons:
        lines += ["", *reasons]
    return "\n".join([*lines, "", *summary(document, baseline)]) + "\n"


# The chart: for each model one bar per peer, from 1 (the baseline) to the left or the right.

LEFT, WIDTH, BAR, GAP, TOP = 190, 720, 11, 12, 34


def _ticks(low: float, high: float) -> list[float]:
    steps = [m * 10.0**e for e in range(-4, 6) for m in (1, 2, 5)]
    ticks = [step for step in steps if low <= step <= high]
    if len(ticks) > 12:
        ticks = [step for step in ticks if f"{step:e}".startswith("1")]
    return ticks


def chart(document: dict, baseline: str) -> str:
    shown = [name for name in document["peers"] if name != baseline]
    groups = [
        (
            model["model"],
            {
                name: ratios({"models": [model]}, baseline, "median_ms", name).get(model["model"])
                for name in shown
            },
        )
        for model in document["models"]
    ]
    means = {name: ratios(document, baseline, "median_ms", name).values() for name in shown}
    groups.append(
        ("geometric mean", {n: geometric_mean(v) if v else None for n, v in means.items()})
    )
    values = [value for _, bars in groups for value in bars.values() if value]
    low = min([0.5, *values]) / 1.3
    high = max([2.0, *values]) * 1.6

    def x(value: float) -> float:
        return LEFT + WIDTH * math.log(value / low) / math.log(high / low)

    height = TOP + len(groups) * (len(shown) * BAR + GAP) + 30
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 90} {height}" '
            f'role="img" aria-label="Speed-up over {html.escape(PEERS[baseline].title)} per model">'
        )
    ]
    for tick in _ticks(low, high):
        kind = "one" if tick == 1 else "grid"
        out.append(
            f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 8}" y2="{height - 24}"/>'
            f'<text class="tick" x="{x(tick):.1f}" y="{TOP - 14}">{tick:g}x</text>'
        )
    y = TOP
    for position, (label, bars) in enumerate(groups):
        total = len(shown) * BAR
        if position == len(groups) - 1:
            out.append(
                f'<rect class="mean" x="0" y="{y - 5}" width="{LEFT + WIDTH + 90}" height="{total + 10}"/>'
            )
        out.append(
            f'<text class="label" x="{LEFT - 10}" y="{y + total / 2 + 4}">{html.escape(label)}</text>'
        )
        if not any(bars.values()):
            why = f"nothing to compare with: {PEERS[baseline].title} has no correct result"
            out.append(
                f'<text class="none" x="{x(1) + 4:.1f}" y="{y + BAR - 2}">{html.escape(why)}</text>'
            )
            y += total
        else:
            for name in shown:
                out.append(_bar(document, label, name, bars[name], x, y))
                y += BAR
        y += GAP
    out.append("</svg>")
    return "\n".join(out)


def _bar(document: dict, label: str, name: str, value: float | None, x, y: float) -> str:
    peer = PEERS[name]
    if not value:
        row = next((m["peers"].get(name) for m in document["models"] if m["model"] == label), None)
        why = {"failed": "fails", "wrong": "wrong result"}.get(row["status"] if row else "", "")
        if not why:
            return ""
        tip = html.escape(f"{peer.title}: {row.get('reason', '')}")
        return (
            f'<text class="none" x="{x(1) + 4:.1f}" y="{y + BAR - 2}">'
            f"{html.escape(peer.title)} {why}<title>{tip}</title></text>"
        )
    start, end = sorted((x(1), x(value)))
    tip = html.escape(f"{label}, {peer.title}: {value:.3g}x")
    return (
        f'<rect x="{start:.1f}" y="{y + 1}" width="{max(end - start, 0.5):.1f}" height="{BAR - 2}" '
        f'fill="{peer.colour}"><title>{tip}</title></rect>'
        f'<text class="value" x="{end + 4:.1f}" y="{y + BAR - 2}">{value:.3g}</text>'
    )


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; background: #fff; margin: 2rem auto; max-width: 1080px; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.scroll { overflow-x: auto; } svg { width: 100%; min-width: 760px; font: 11px system-ui, sans-serif; }
.grid { stroke: #d8dee4; } .one { stroke: #57606a; stroke-width: 1.5; } .mean { fill: #f0f4f8; }
.tick { text-anchor: middle; fill: #57606a; } .label { text-anchor: end; font-size: 13px; fill: #1f2328; }
.value { fill: #1f2328; } .none { fill: #8c959f; font-style: italic; }
.legend span { margin-right: 1.2rem; white-space: nowrap; } .legend i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #d8dee4; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } dt { float: left; clear: left; width: 9rem; color: #57606a; } dd { margin-left: 9.5rem; }
"""


def page(document: dict, baseline: str) -> str:
    head, body = columns(document)
    title = f"Speed against {PEERS[baseline].title}"
    legend = "".join(
        f'<span><i style="background:{PEERS[name].colour}"></i>{html.escape(PEERS[name].title)}</span>'
        for name in document["peers"]
        if name != baseline
    )
    meta = "".join(
        f"<dt>{html.escape(str(key))}</dt><dd>{html.escape(str(value))}</dd>"
        for key, value in document["meta"].items()
        if value not in ("", None)
    )

    def row(tag: str, values: list[str]) -> str:
        return (
            "<tr>" + "".join(f"<{tag}>{html.escape(value)}</{tag}>" for value in values) + "</tr>"
        )

    reasons = "".join(
        f"<li>{html.escape(model['model'])}: {html.escape(PEERS[name].title)}: {html.escape(result.get('reason', ''))}</li>"
        for model in document["models"]
        for name, result in model["peers"].items()
        if result["status"] != "ok"
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{html.escape(title)}</h1>
<p>How many times faster than {html.escape(PEERS[baseline].title)}, warm median, log scale; right of 1x is faster.</p>
<ul>{"".join(f"<li>{html.escape(line)}</li>" for line in summary(document, baseline))}</ul>
<p class="legend">{legend}</p>
<div class="scroll">{chart(document, baseline)}</div>
<h2>Milliseconds</h2><p>Warm median; first = load and first run in a fresh process, no shader cache.</p>
<div class="scroll"><table><thead>{row("th", head)}</thead><tbody>{"".join(row("td", line) for line in body)}</tbody></table></div>
{f"<h2>What failed, and why</h2><ul>{reasons}</ul>" if reasons else ""}
<h2>How it was measured</h2><dl>{meta}</dl>
</body></html>
"""


def write(path: str, content: str) -> None:
    Path(path).write_text(content, encoding="utf-8")
