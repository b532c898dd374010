"""Packages of small configurations of well-known models against eager."""

from __future__ import annotations

import unittest

from models import MODELS
from more_models import MORE_MODELS
from test_export import ExportCase


class ExportedModels(ExportCase):
    def test_all(self) -> None:
        for name, make in (MODELS | MORE_MODELS).items():
            with self.subTest(name):
                self.agree_on(*make())


if __name__ == "__main__":
    unittest.main()
