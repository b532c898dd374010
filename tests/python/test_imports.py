"""No modules of the package import each other in a circle, also inside functions."""

from __future__ import annotations

import ast
import unittest
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "python"


def modules() -> dict[str, Path]:
    """Returns the files of all modules by their names."""
    out = {}
    for path in (ROOT / "reprise").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        out[name.removesuffix(".__init__")] = path
    return out


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(node: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Returns the imports that are executed."""
    found: list[ast.Import | ast.ImportFrom] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            found.append(child)
        elif not is_for_types(child):
            found += imports(child)
    return found


def imported(name: str, path: Path, known: set[str]) -> set[str]:
    """Returns the modules of the package that a module imports, but for the packages it is in."""
    out: set[str] = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in imports(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
            continue
        parts = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*(parts if node.level else []), *filter(None, [node.module])])
        names = {f"{base}.{alias.name}" for alias in node.names}
        out |= names & known or {base}
    return {m for m in out & known if m != name and not name.startswith(m + ".")}


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """Returns a circle of modules, or nothing."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(arrows[name]):
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    for name in sorted(arrows):
        if found := visit(name, []):
            return found
    return []


#: As of the rooms of C++ (tests/arch).
MOST_MODULES = 40


def large_packages(files: list[Path]) -> list[Path]:
    """Returns the folders that hold more modules than a reader can survey."""
    count = Counter(path.parent for path in files)
    return sorted(folder for folder, modules in count.items() if modules > MOST_MODULES)


class Imports(unittest.TestCase):
    def test_no_package_is_too_large(self) -> None:
        self.assertEqual(large_packages(list(modules().values())), [])

    def test_a_package_that_is_too_large_is_found(self) -> None:
        folder = Path("a")
        files = [folder / f"{n}.py" for n in range(MOST_MODULES + 1)]
        self.assertEqual(large_packages(files[1:]), [])
        self.assertEqual(large_packages(files), [folder])

    def test_there_is_no_circle(self) -> None:
        files = modules()
        self.assertGreater(len(files), 60)
        arrows = {n: imported(n, p, set(files)) for n, p in files.items()}
        self.assertEqual(circle(arrows), [])

    def test_a_circle_is_found(self) -> None:
        self.assertEqual(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])


if __name__ == "__main__":
    unittest.main()
