"""Everything in the public headers is documented, and comments name nothing that does not exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = ROOT / "include" / "reprise"
UNDOCUMENTED = Path(__file__).resolve().parent / "undocumented"


def is_described(element: xml.Element) -> bool:
    """Whether an element of Doxygen's XML has a text."""
    parts = (element.find("briefdescription"), element.find("detaileddescription"))
    return any("".join(p.itertext()).strip() for p in parts if p is not None)


def undescribed(folder: Path, headers: Path) -> list[str]:
    """Returns what Doxygen does not warn of: numbers of enumerations, and headers without @file."""
    found = []
    described = set()
    for path in folder.glob("*.xml"):
        for compound in xml.parse(path).iter("compounddef"):
            if compound.get("kind") == "file" and is_described(compound):
                described.add(compound.findtext("compoundname"))
        for number in xml.parse(path).iter("enumvalue"):
            if not is_described(number):
                found.append(number.findtext("name") or "?")
    names = {p.name for p in headers.glob("*.h*")}
    return sorted({*found, *(names - described)})


def check(headers: Path) -> list[str]:
    """Returns the undocumented names in a folder of headers, and unknown names in comments."""
    with tempfile.TemporaryDirectory() as folder:
        settings = (ROOT / "docs" / "api" / "Doxyfile").read_text()
        settings += f'\nOUTPUT_DIRECTORY = "{folder}"\nWARN_AS_ERROR = NO\n'
        settings += "GENERATE_HTML = NO\nGENERATE_XML = YES\n"
        if headers != PUBLIC:
            settings += f'INPUT = "{headers}"\n'
        done = subprocess.run(
            ["doxygen", "-"], input=settings, cwd=ROOT, text=True, check=True,
            capture_output=True,
        )  # fmt: skip
        found = undescribed(Path(folder) / "xml", headers)
    known = re.compile(r"(Member|Compound) \(?\*?([\w:]+)|link request to '([\w:]+)'")
    for line in filter(None, done.stderr.splitlines()):
        names = known.search(line)
        found.append((names[2] or names[3]) if names else line)
    return sorted(set(found))


class Headers(unittest.TestCase):
    def setUp(self) -> None:
        if shutil.which("doxygen") is None:
            self.skipTest("doxygen is not installed: run tools/setup")

    def test_nothing_is_undocumented(self) -> None:
        self.assertEqual(check(PUBLIC), [])

    def test_what_is_undocumented_is_found(self) -> None:
        text = "".join(p.read_text() for p in UNDOCUMENTED.glob("*.h*"))
        names = set(
            re.findall(r"\w*undocumented_\w+|\w*UNDOCUMENTED\w+|Undocumented\w+", text)
        )
        self.assertEqual(len(names), 13)
        names |= {"Class", "header.h", "reprise_no_function"}  # Class: its constructor
        found = {name.removeprefix("reprise::") for name in check(UNDOCUMENTED)}
        self.assertEqual(found, names)


if __name__ == "__main__":
    unittest.main()
