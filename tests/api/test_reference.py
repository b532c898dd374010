"""tools/api-reference writes one folder, whose pages need nothing from elsewhere."""

from __future__ import annotations

import html.parser
import importlib.util
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "api-reference"


class Page(html.parser.HTMLParser):
    """The links, and the names of places, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()  # without a click
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value for name, value in attrs if value}
        self.places |= {known[n] for n in ("id", "name") if n in known}
        if "src" in known or (tag == "link" and "href" in known):
            self.loaded.add(known.get("src") or known["href"])
        elif "href" in known:
            self.links.add(known["href"])


def broken(folder: Path) -> list[str]:
    """Returns links to what is not there, and what is loaded from elsewhere."""
    pages = {p: Page(p.read_text(encoding="utf-8")) for p in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                if link in page.loaded and parts.scheme not in ("data", "javascript"):
                    found.append(f"{path}: {link}")
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            place = unquote(parts.fragment)
            if not target.exists() or (
                place and target in pages and place not in pages[target].places
            ):
                found.append(f"{path}: {link}")
    return found


class Reference(unittest.TestCase):
    def setUp(self) -> None:
        if shutil.which("doxygen") is None:
            self.skipTest("doxygen is not installed: run tools/setup")
        if importlib.util.find_spec("pdoc") is None:
            self.skipTest("pdoc is not installed: run tools/python")

    def test_it_is_complete(self) -> None:
        self.maxDiff = None
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch).resolve() / "api"
            (folder / "c").mkdir(parents=True)  # as if the tool had made it before
            (folder / "c" / "doxygen.css").touch()
            (folder / "old.html").touch()
            done = subprocess.run(
                [TOOL, folder], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.strip(), str(folder / "index.html"))
            self.assertEqual(broken(folder), [])
            start = (folder / "index.html").read_text()
            self.assertNotIn("@", start)
            links = Page(start).links
            self.assertGreater(len(links), 5)

            self.assertFalse((folder / "old.html").exists())

            # What is broken is found.
            (folder / "c" / "index.html").unlink()
            page = '<img src="https://example.com/x.png"><a href="index.html#no">'
            (folder / "other.html").write_text(page)
            found = {line.rpartition(": ")[2] for line in broken(folder)}
            self.assertLessEqual(
                {"c/index.html", "index.html#no", "https://example.com/x.png"}, found
            )

    def test_a_folder_of_others_stays(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / "mine").touch()
            done = subprocess.run(
                [TOOL, scratch], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn("did not make", done.stderr)
            self.assertTrue((Path(scratch) / "mine").exists())


if __name__ == "__main__":
    unittest.main()
