"""Random programs: views, writes, reductions, windows and indices in all orders, against eager."""

from __future__ import annotations

import logging
import os
import unittest
import warnings
from collections.abc import Callable
from typing import Any

from fuzz_programs import check, compare, run
from random_programs import Program, make
from torch.fx import GraphModule

DEVICE = os.environ.get("REPRISE_TEST_DEVICE", "vulkan:0")
#: Programs that were wrong once.
FOUND = [
    # Views of arguments whose sizes depend on the run.
    Program([("float32", (None, 6))], ["v0 = x0.narrow(1, 0, 5)"], dynamic=True),
    Program([("float32", (None, 3, 4))], ["v0 = x0.expand(3, *x0.shape)"], True, True),
    Program([("float32", (None, 3, 1))], ["v0 = x0.chunk(2, 1)[-1]"], True, True),
    Program([("float32", (None, 6))], ["v0 = x0.chunk(2, 0)[-1]"], True),
    # Views of a tensor that is no result, and of a result that comes later.
    Program(
        [("float32", (5, 3, 4))],
        ["v0 = x0 + 1", "v1 = v0.expand(2, *v0.shape)", "v0.transpose_(0, -1)"],
    ),
    Program(
        [("float32", (None, 2, 5, 6))],
        ["v0 = x0.repeat_interleave(2, -2)", "v1 = v0.detach()"], True, True,
    ),
    # Operators that copy, of which a formula makes a view.
    Program([("float32", (None, 2, 5, 6))], ["v0 = F.channel_shuffle(x0, 2)"], True),
    Program([("float32", (3, 4))], ["v0 = torch.native_dropout(x0, 0.5, False)[0]"]),
    # Views of an argument that is not dense and has been written to.
    Program(
        [("float32", (None, 6))], ["x0[0] = 5", "v0 = x0[:x0.shape[0] - 1].t()"], True, False,
        ("part",),
    ),
    Program(
        [("float32", (None, 6))], ["x0[1:].add_(1)", "v0 = x0.view(x0.shape[0], 1, -1)"], True,
        False, ("part",),
    ),
    # Views of a result whose elements have gaps between them.
    Program(
        [("float32", (4, 6))],
        [
            "v0 = x0.new_empty_strided((4, 3, 2), (2, 16, 1))", "v0.copy_(x0.view(4, 3, 2))",
            "v1 = v0[:, 0].view(-1)", "v2 = v0.select(1, 1)",
        ],
    ),
    # Indices that count from the end.
    Program([("float32", (3, 2))], ["v0 = -x0", "v0[torch.tensor([0, -1])] = 0.5"]),
    # A view of a result that needs no gradient.
    Program([("float32", (4, 6))], ["v0 = x0 * 2", "v1 = v0.detach()[1:]"], training=True),
]  # fmt: skip


class Programs(unittest.TestCase):
    def setUp(self) -> None:
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)  # PyTorch logs what it cannot trace
        self.addCleanup(logging.disable, logging.NOTSET)

    def test_programs_that_were_wrong(self) -> None:
        for number, program in enumerate(FOUND):
            with self.subTest(program.text()):
                arguments = program.arguments(number, 4)
                run(program.function(), arguments)  # eager raises no error
                self.assertEqual(check(program, number, DEVICE), "")

    def test_random_programs(self) -> None:
        for seed in range(20):
            program = make(seed)
            with self.subTest(f"seed {seed}:\n{program.text()}"):
                self.assertEqual(check(program, seed, DEVICE), "")

    def test_a_difference_is_seen(self) -> None:
        def wrong(gm: GraphModule, inputs: object) -> Callable[..., Any]:
            return lambda *arguments: [r + 1 for r in gm(*arguments)]

        program = Program([("float32", (3, 4))], ["v0 = x0.sin()"])
        self.assertIn("v0: differs by 1", compare(program, 1, backend=wrong))


if __name__ == "__main__":
    unittest.main()
