"""What notebooks show: tables of HTML, and the progress of long compilations."""

from __future__ import annotations

import importlib.util
import os
import pty
import subprocess
import sys
import termios
import unittest
from html.parser import HTMLParser

import reprise
import support

SLOW = """
import time, sys
sys.path.insert(0, {tests!r})
import reprise, support
from reprise._progress import progress_for
with progress_for({wanted}) as show:
    if show:
        for step in range(4):
            show(f"step {{step}}", step, 4)
            time.sleep({seconds} / 4)
print("done")
"""


class Table(HTMLParser):
    """The captions and rows of HTML tables; fails if a tag is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.captions: list[str] = []
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        if self.open:
            raise ValueError(f"not closed: {self.open}")

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            raise ValueError(f"'{tag}' closes another tag")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif self.open and self.open[-1] == "caption":
            self.captions.append(data)


def lacks(*packages: str) -> str:
    """The packages of these that are not installed, with the reason to skip a test; or nothing."""
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


class Html(unittest.TestCase):
    def test_of_packages_has_each_launch(self) -> None:
        package = reprise.compile(support.pointwise(), disabled_passes=["fusion"])
        explanation = package.explain()
        table = Table(package._repr_html_())
        self.assertEqual(len(explanation.launches), 3)
        for launch in explanation.launches:
            row = next(r for r in table.rows if r and r[0] == launch.kernel)
            self.assertIn(launch.schedule, row)
            self.assertIn(" ".join(launch.nodes), row)
        for edge in explanation.unfused:
            self.assertIn([edge.source, edge.target, edge.reason], table.rows)
        self.assertIn("3 launches without fusion, 3 with", table.captions[0])

    def test_of_devices_has_each_device(self) -> None:
        devices = reprise.devices()
        table = Table(devices._repr_html_())
        self.assertEqual(
            [row[:2] for row in table.rows[1:]], [[d.id, d.name] for d in devices]
        )

    def test_escapes_names_of_models(self) -> None:
        model = support.model(
            [support.node("Relu", ["x"], ["<b>&y"])],
            [support.value("x", support.FLOAT, (2, 3))],
            [support.value("<b>&y", support.FLOAT, (2, 3))],
        )
        html = reprise.compile(model)._repr_html_()
        self.assertNotIn("<b>", html)
        self.assertIn(["Relu_<b>&y"], [row[4:] for row in Table(html).rows])


@unittest.skipIf(lacks("tqdm"), lacks("tqdm"))
class Progress(unittest.TestCase):
    def run_it(self, wanted: bool | None, seconds: float, terminal: bool) -> str:
        """What a program whose work takes this long writes to standard error."""
        text = SLOW.format(
            tests=os.path.dirname(support.__file__), wanted=wanted, seconds=seconds
        )
        reader, writer = pty.openpty() if terminal else os.pipe()
        if terminal:
            termios.tcsetwinsize(writer, (24, 80))
        with os.fdopen(reader, "rb", buffering=0) as read:
            done = subprocess.run(
                [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=writer, check=True
            )  # fmt: skip
            os.close(writer)
            self.assertEqual(done.stdout, b"done\n")
            shown = b""
            try:
                while part := read.read(4096):
                    shown += part
            except OSError:  # a terminal that nobody writes to any more
                pass
        return shown.decode()

    def test_is_shown_in_terminals_if_it_takes_long(self) -> None:
        self.assertRegex(self.run_it(None, 2.4, terminal=True), r"step [23].*4")

    def test_is_not_shown_if_it_is_short_or_unwanted(self) -> None:
        self.assertEqual(self.run_it(None, 0.2, terminal=True), "")
        self.assertEqual(self.run_it(False, 0.1, terminal=True), "")
        self.assertEqual(self.run_it(None, 1.6, terminal=False), "")

    def test_is_shown_in_files_if_it_is_wanted(self) -> None:
        self.assertRegex(self.run_it(True, 2.4, terminal=False), r"step [23].*4")


NEEDED = lacks("nbformat", "nbclient", "ipykernel", "tqdm")


@unittest.skipIf(NEEDED, NEEDED)
class Notebook(unittest.TestCase):
    def test_shows_tables_and_progress(self) -> None:
        import nbclient
        import nbformat

        cells = (
            "import reprise, support\nreprise.devices()",
            "package = reprise.compile(support.pointwise())\npackage",
            "package.explain()",
            SLOW.format(tests="", wanted=None, seconds=2.4),
        )
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbclient.NotebookClient(notebook, timeout=120).execute()
        kernel = reprise.compile(support.pointwise()).explain().kernels[0]
        for cell, expected in zip(
            notebook.cells[:3], ("host", kernel, kernel), strict=True
        ):
            shown = [o["data"] for o in cell.outputs if "data" in o]
            rows = Table(shown[-1]["text/html"]).rows
            self.assertIn(expected, [row[0] for row in rows if row])
        self.assertRegex(str(notebook.cells[3].outputs), r"step [23]")


if __name__ == "__main__":
    unittest.main()
