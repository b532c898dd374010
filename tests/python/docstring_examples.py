"""Runs the examples in docstrings."""

from __future__ import annotations

import doctest
import io
import os
import tempfile
import unittest
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import support

_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def docstrings(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yields the docstrings of a module and of its public classes and functions, with their names."""
    yield module.__name__, module.__doc__ or ""
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            continue
        yield f"{module.__name__}.{name}", getattr(value, "__doc__", None) or ""
        for member in dir(value) if isinstance(value, type) else ():
            if not member.startswith("_"):
                text = getattr(getattr(value, member), "__doc__", None) or ""
                yield f"{module.__name__}.{name}.{member}", text


def run(
    case: unittest.TestCase, module: ModuleType, names: Mapping[str, object]
) -> int:
    """Runs the examples of a module in an empty folder with a model, and returns their number."""
    parser, count = doctest.DocTestParser(), 0
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("model.onnx").write_bytes(support.pointwise())
            for name, text in docstrings(module):
                test = parser.get_doctest(text, dict(names), name, None, None)
                if not test.examples:
                    continue
                count += 1
                out = io.StringIO()
                runner = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False)
                with case.subTest(name):
                    failed = runner.run(test, out=out.write).failed
                    case.assertEqual(failed, 0, out.getvalue())
        finally:
            os.chdir(here)
    return count
