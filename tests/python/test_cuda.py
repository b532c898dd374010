"""CUDA memory of other libraries, on the stand-in driver. Skipped where there is no CUDA device."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import reprise
import support

HAS_CUDA = any(d.id == "cuda:0" and d.usable for d in reprise.devices())


class Lent:
    """Another library's CUDA tensor, which has only DLPack."""

    def __init__(self, tensor: reprise.Tensor) -> None:
        self.tensor = tensor
        self.streams: list[int | None] = []

    def __dlpack__(self, *, stream: int | None = None, **arguments: Any) -> object:
        self.streams.append(stream)
        return self.tensor.__dlpack__(stream=stream, **arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


@unittest.skipUnless(HAS_CUDA, "there is no CUDA device")
class Cuda(unittest.TestCase):
    def setUp(self) -> None:
        package = reprise.compile(support.unary("Neg"), device="cuda:0")
        self.session = reprise.Session(package, "cuda:0")
        self.x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def test_memory_is_used_in_place(self) -> None:
        x = Lent(reprise.Tensor(self.x, "cuda:0"))
        y = Lent(reprise.Tensor.empty((2, 3), "float32", "cuda:0"))
        self.assertEqual(x.__dlpack_device__(), (2, 0))
        (result,), times = self.session.run_timed([x], [y])
        self.assertIs(result, y)
        self.assertEqual(times.bytes_copied, 0)
        np.testing.assert_array_equal(y.tensor.numpy(), -self.x)
        self.assertEqual(x.streams, [self.session.device.stream])

    def test_memory_needs_a_session_on_cuda(self) -> None:
        host = reprise.Session(reprise.compile(support.unary("Neg")), "host")
        with self.assertRaisesRegex(reprise.InvalidInput, "CUDA memory"):
            host.run_raw([Lent(reprise.Tensor(self.x, "cuda:0"))])

    def test_host_memory_works_as_well(self) -> None:
        np.testing.assert_array_equal(self.session(self.x), -self.x)

    def test_the_callers_stream_is_used(self) -> None:
        per_thread = 2  # CU_STREAM_PER_THREAD
        device = reprise.open_device("cuda:0", per_thread)
        session = reprise.Session(
            reprise.compile(support.unary("Neg"), device=device), device
        )
        x = Lent(reprise.Tensor(self.x, device))
        np.testing.assert_array_equal(session.run_raw([x])[0], -self.x)
        self.assertEqual(x.streams, [per_thread])


if __name__ == "__main__":
    unittest.main()
