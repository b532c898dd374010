"""Runs suites of unittest and writes their results where tools/test looks for them."""

from __future__ import annotations

import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any


class Results(unittest.TextTestResult):
    """Also collects tests and the reasons of skips in the form of GoogleTest's XML."""

    def __init__(self, stream: Any, descriptions: bool, verbosity: int) -> None:
        super().__init__(stream, descriptions, verbosity)
        self.cases: dict[str, xml.Element] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        area, _, name = test.id().rpartition(".")
        self.cases[test.id()] = xml.Element(
            "testcase", name=name, classname=area, status="run"
        )

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        if test.id() in self.cases:
            xml.SubElement(self.cases[test.id()], "skipped", message=reason)


def write(path: Path, cases: list[xml.Element]) -> None:
    """Writes a file of results."""
    root = xml.Element("testsuites")
    root.extend(cases)
    path.parent.mkdir(parents=True, exist_ok=True)
    xml.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def skip_all(path: Path, area: str, reason: str) -> None:
    """Notes that none of an area's tests ran."""
    case = xml.Element("testcase", name="all", classname=area, status="notrun")
    xml.SubElement(case, "skipped", message=reason)
    write(path, [case])


def run(suite: unittest.TestSuite, path: Path) -> int:
    """Runs the tests, writes their results and returns the exit status. An empty suite fails."""
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Results)
    results = runner.run(suite)
    assert isinstance(results, Results)
    write(path, list(results.cases.values()))
    return 0 if results.wasSuccessful() and results.testsRun else 1


def main() -> int:
    """Runs the test modules of this folder, or those that are named: results.py XML [MODULE...]."""
    here = str(Path(__file__).resolve().parent)
    sys.path.insert(0, here)
    path, *names = sys.argv[1:]
    loader = unittest.defaultTestLoader
    if names:
        return run(loader.loadTestsFromNames(names), Path(path))
    return run(loader.discover(here, top_level_dir=here), Path(path))


if __name__ == "__main__":
    sys.exit(main())
