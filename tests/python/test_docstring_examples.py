"""The examples in the package's docstrings."""

from __future__ import annotations

import unittest
from types import ModuleType

import docstring_examples
import numpy as np
import reprise


class Examples(unittest.TestCase):
    def test_they_are_right(self) -> None:
        names = {"np": np, "reprise": reprise}
        self.assertGreater(docstring_examples.run(self, reprise, names), 4)

    def test_a_wrong_one_is_found(self) -> None:
        module = ModuleType("sample", "An example.\n\n>>> 1 + 1\n3\n")
        module.__dict__["__all__"] = []
        case = unittest.TestCase()
        with self.assertRaises(AssertionError):
            docstring_examples.run(case, module, {})


if __name__ == "__main__":
    unittest.main()
