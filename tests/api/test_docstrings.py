"""Everything public of the Python package has a docstring, which pdoc renders."""

from __future__ import annotations

import html
import importlib.util
import re
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import pdoc.doc
    import pdoc.render
except ImportError:
    pass  # the tests are skipped

if TYPE_CHECKING:
    Doc = pdoc.doc.Doc[Any]
    Owner = pdoc.doc.Module | pdoc.doc.Class

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).resolve().parent / "undocumented" / "module.py"
sys.path.insert(0, str(ROOT / "docs" / "api"))

import python_reference


def is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("__call__", "__version__")


def public(of: Owner) -> Iterator[tuple[Doc, Owner]]:
    """Yields what a module or class has, and what its classes have, with the owner."""
    for member in of.members.values():
        foreign = member.taken_from[0].partition(".")[0] not in ("reprise", "module")
        if not is_public(member.name) or foreign:
            continue
        yield member, of
        if isinstance(member, pdoc.doc.Class):
            yield from public(member)


def text_of(member: Doc) -> str:
    """Returns the docstring, unless it is that of Python."""
    is_own = member.docstring != type.__call__.__doc__
    return member.docstring if is_own else ""


def parameters(member: Doc) -> list[str]:
    """Returns what a docstring must speak of. That of a class describes how it is made."""
    if isinstance(member, pdoc.doc.Class):
        made = member.members.get("__init__")
        if made is None or made.taken_from[0] == "builtins":
            return []
        is_fields = hasattr(member.obj, "__dataclass_fields__")
        return [] if is_fields else parameters(made)
    if isinstance(member, pdoc.doc.Function):
        return list(member.signature_without_self.parameters)
    return []


def undocumented(module: pdoc.doc.Module) -> list[str]:
    """Returns the names without a docstring, and parameters of which docstrings say nothing."""
    found = [] if module.docstring else [module.fullname]
    for member, owner in public(module):
        text = text_of(member)
        if not text and member.kind != "module":
            field = re.compile(rf"^ +{member.name}: ", re.MULTILINE)
            if member.kind != "variable" or not field.search(owner.docstring):
                found.append(member.fullname)
            continue
        found += [
            f"{member.fullname}({name})"
            for name in parameters(member)
            if not re.search(rf"\b{name}\b", text)
        ]
    return found


def examples(page: str) -> list[str]:
    """Returns the blocks of code of a page."""
    blocks = re.findall(
        r"<pre>(?:<span></span>)?<code>(.*?)</code></pre>", page, re.DOTALL
    )
    return [html.unescape(re.sub(r"<[^>]*>", "", block)) for block in blocks]


class Docstrings(unittest.TestCase):
    def setUp(self) -> None:
        if importlib.util.find_spec("pdoc") is None:
            self.skipTest("pdoc is not installed: run tools/python")
        self.modules = [pdoc.doc.Module(m) for m in python_reference.load()]

    def page(self, module: pdoc.doc.Module) -> str:
        python_reference.configure()
        everything = {m.modulename: m for m in [*self.modules, module]}
        return pdoc.render.html_module(module, everything)

    def test_nothing_is_undocumented(self) -> None:
        found = [name for module in self.modules for name in undocumented(module)]
        self.assertEqual(found, [])

    def test_everything_is_rendered(self) -> None:
        for module in self.modules:
            page = self.page(module)
            rendered = {
                member.qualname
                for member, _ in public(module)
                if f'id="{member.qualname}"' in page
            }
            names = {member.qualname for member, _ in public(module)}
            self.assertEqual(names - rendered, set())
            self.assertGreater(len(names), 15)

    def test_the_extension_is_documented(self) -> None:
        """What the extension has under the names of the package is a part of it."""
        names = {member.fullname for member, _ in public(self.modules[0])}
        for name in (
            "Package.inputs",
            "Session.run_raw",
            "Session.__call__",
            "Tensor.empty",
        ):
            self.assertIn(f"reprise.{name}", names)

    def test_examples_can_be_run(self) -> None:
        """Blocks of code have the form that the tests of examples run."""
        found = [
            code for module in self.modules for code in examples(self.page(module))
        ]
        self.assertGreater(len(found), 5)
        self.assertEqual([code for code in found if not code.startswith(">>> ")], [])

    def test_what_is_undocumented_is_found(self) -> None:
        spec = importlib.util.spec_from_file_location("module", SAMPLE)
        assert spec is not None and spec.loader is not None
        sample = importlib.util.module_from_spec(spec)
        sys.modules["module"] = sample
        spec.loader.exec_module(sample)
        module = pdoc.doc.Module(sample)
        self.assertEqual(
            sorted(undocumented(module)),
            [
                "module.Class(hidden)", "module.Class.__call__", "module.Class.method",
                "module.Class.prop", "module.Fields.untold", "module.Undocumented",
                "module.function(untold)", "module.undocumented",
            ],
        )  # fmt: skip
        self.assertEqual(len(examples(self.page(module))), 1)


if __name__ == "__main__":
    unittest.main()
