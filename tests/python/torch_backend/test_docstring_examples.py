"""The examples in the docstrings of reprise.torch."""

from __future__ import annotations

import unittest

import docstring_examples
import reprise.torch
import torch


class Examples(unittest.TestCase):
    def test_they_are_right(self) -> None:
        names = {"reprise": reprise, "torch": torch}
        count = docstring_examples.run(self, reprise.torch, names)
        self.assertGreater(count, 3)


if __name__ == "__main__":
    unittest.main()
