"""Writes the reference of the Python package with pdoc: `python_reference.py FOLDER`.

Neither the extension nor PyTorch is needed. The stub of the extension, which a test compares with the
extension, takes its place, and of modules that import torch only the declarations are read.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "reprise"
#: What is documented, with all names of `__all__`.
MODULES = ("reprise", "reprise.errors", "reprise.torch")
#: Modules that import torch, with public classes and what these consist of.
NEED_TORCH = ("report", "explanation", "train_step")


class _Name(type):
    """A name of another package, such as torch.nn.Module, for annotations."""

    def __getattr__(cls, name: str) -> _Name:
        if name.startswith("_"):
            raise AttributeError(name)
        place = f"{cls.__module__}.{cls.__name__}".removeprefix(".")
        return _Name(name, (), {"__module__": place})


def _module(
    name: str, tree: ast.Module, file: Path, names: dict[str, object]
) -> ModuleType:
    """Makes a module that others can import, with `names` that it has from elsewhere."""
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(names, __file__=str(file))
    exec(compile(tree, name, "exec"), vars(module))  # noqa: S102 - our own sources
    return module


def _native() -> ModuleType:
    """Returns the stub of the extension as a module."""
    stub = PACKAGE / "_native.pyi"
    tree = ast.parse(f"from __future__ import annotations\n{stub.read_text()}")
    module = _module("reprise._native", tree, stub, {})
    project = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(reprise VERSION ([\d.]+)", project)
    assert version is not None
    vars(module)["version"] = lambda: version[1]
    return module


def _is_needed(node: ast.stmt) -> bool:
    """Whether a statement is a class, or imports what is always there."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        names = [node.module or ""]
    tops = {name.partition(".")[0] for name in names}
    return isinstance(node, ast.ClassDef) or bool(tops & sys.stdlib_module_names)


def _declarations(path: Path) -> ast.Module:
    """Returns the classes of a module, with functions that do nothing."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if _is_needed(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            is_text = ast.get_docstring(node) is not None
            node.body = node.body[:1] if is_text else [ast.Pass()]
    return ast.fix_missing_locations(tree)


def load() -> list[ModuleType]:
    """Imports the public modules. Their classes have the members of the extension's classes."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT / "python"))
    native = _native()
    names: dict[str, object] = {"torch": _Name("torch", (), {"__module__": ""})}
    names["reprise"] = importlib.import_module("reprise")
    for name in NEED_TORCH:
        file = PACKAGE / "torch" / f"{name}.py"
        names[name] = _module(f"reprise.torch.{name}", _declarations(file), file, names)
    modules = [importlib.import_module(name) for name in MODULES]
    for module in modules:
        for name in module.__all__:  # some are imported when they are asked for
            setattr(module, name, getattr(module, name))
    for name in ("Package", "Session"):
        own = getattr(modules[0], name)
        for member, value in vars(getattr(native, name)).items():
            if not member.startswith("_") and member not in vars(own):
                setattr(own, member, value)
    return modules


def configure() -> None:
    """Sets pdoc's options."""
    import pdoc.render

    pdoc.render.configure(
        docformat="google",
        show_source=False,
        template_directory=Path(__file__).parent / "templates",
    )


def main() -> None:
    warnings.simplefilter("error")  # such as a type that is not known
    import pdoc

    load()
    configure()
    pdoc.pdoc("reprise", "reprise.torch", output_directory=Path(sys.argv[1]))


if __name__ == "__main__":
    main()
