"""tools/gpu-check and reprise_gpubench as a whole, on the stand-in driver (LD_LIBRARY_PATH)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from gpucheck import cli, facts

BUILD = Path(os.environ.get("REPRISE_BUILD", ROOT / "build"))
MODELS = Path(os.environ.get("REPRISE_MODELS", ROOT.parent / "shared" / "models"))
BENCH = BUILD / "bin" / "reprise_gpubench"


def gpu_check(*arguments: object, program: Path = ROOT / "tools" / "gpu-check"):
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)


def on_the_standin(test_class: type) -> type:
    """Skips the tests of a class where something is missing that they need."""
    for condition, reason in (
        (BENCH.is_file(), "reprise_gpubench is not built (REPRISE_BENCH is off)"),
        (
            facts.nvrtc_version(os.environ.get("REPRISE_NVRTC", "")) != "missing",
            "NVRTC is missing",
        ),
        ("cuda-standin" in os.environ.get("LD_LIBRARY_PATH", ""), "CTest sets the driver"),
    ):
        test_class = unittest.skipUnless(condition, reason)(test_class)
    return test_class


@on_the_standin
class OnTheStandIn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = Path(folder.name)

    def bench(self, *arguments: object) -> tuple[int, dict]:
        target = self.at / "bench.json"
        command = [BENCH, "--quick", "--runs", 3, "--seconds", 0.1, "--json", target, *arguments]
        if "--models" not in arguments:
            command += ["--models", MODELS]
        done = subprocess.run(
            list(map(str, command)), check=False, capture_output=True, text=True, timeout=600
        )
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.returncode, json.loads(target.read_text())

    def test_every_quick_case_is_right_and_timed(self):
        status, result = self.bench("--vulkan", "off")
        self.assertEqual(status, 0)
        self.assertEqual(result["device"]["name"], "Reprise stand-in")
        self.assertEqual(sorted(result["missing"]), ["cublas", "cudnn", "reprise vulkan"])
        names = [case["case"] for case in result["cases"]]
        self.assertIn("replay of 100", names)
        for case in result["cases"]:
            if "skipped" in case:
                continue
            ours = case["contenders"][0]
            self.assertEqual((ours["name"], ours["status"]), ("reprise cuda", "ok"), case)
            for key in ("wall_ms", "device_ms", "submit_us"):
                self.assertGreater(ours[key], 0, case)
            if case["unit"]:
                self.assertGreater(ours["rate"], 0)
        replay = next(case for case in result["cases"] if case["case"] == "replay of 10")
        self.assertEqual([row["launches"] for row in replay["contenders"]], [10, 10])
        self.assertEqual([row["status"] for row in replay["contenders"]], ["ok", "ok"])

    def test_schedules_are_measured_one_by_one(self):
        status, result = self.bench("--vulkan", "off", "--tune", "--group", "matmul")
        self.assertEqual(status, 0)
        self.assertEqual({case["group"] for case in result["cases"]}, {"matmul"})
        for case in result["cases"]:
            names = [row["name"] for row in case["contenders"]]
            self.assertGreater(len(names), 1, case)
            self.assertEqual(len(names), len(set(names)))
            for row in case["contenders"]:
                self.assertEqual(row["status"], "ok", row)
                self.assertGreater(row["device_ms"], 0)

    def test_cases_are_compiled_without_a_device(self):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.at), "LD_LIBRARY_PATH": ""}
        command = [BENCH, "--quick", "--group", "matmul", "--compile-only"]

        def compiled(arch: str) -> subprocess.CompletedProcess:
            return subprocess.run(
                [*command, arch], check=False, env=environment, capture_output=True, text=True
            )

        done = compiled("sm_90")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len([f for f in self.at.rglob("*") if f.is_file()]), 2)
        wrong = compiled("sm_9")
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("no architecture", wrong.stderr)

    def test_a_missing_model_is_skipped_with_the_reason(self):
        _, result = self.bench("--filter", "linear_ln_gelu", "--models", self.at, "--vulkan", "off")
        (case,) = result["cases"]
        self.assertIn("there is no", case["skipped"])
        self.assertEqual(case["contenders"], [])

    def test_the_time_limit_stops_between_cases(self):
        _, result = self.bench("--time-limit", 1e-9, "--vulkan", "off")
        self.assertEqual(result["cases"], [])
        self.assertIn("the time limit was reached before 'copy", result["stopped"])

    def test_devices_that_are_not_there(self):
        for arguments, status in ((["--device", "vulkan:0"], 2), (["--device", "cuda:9"], 2)):
            done = subprocess.run(
                [str(BENCH), *arguments], check=False, capture_output=True, text=True
            )
            self.assertEqual(done.returncode, status, done.stderr)

    def primitives(self, folder: Path) -> tuple[int, dict]:
        target = self.at / "primitives.json"
        command = [BUILD / "bin" / "reprise_primitives", folder, "--json", target]
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, timeout=300, check=False
        )
        self.assertIn(done.returncode, (0, 1), done.stderr)
        rows = json.loads(target.read_text())["primitives"]
        return done.returncode, {row["name"]: row for row in rows}

    def test_primitives_are_compared_bit_by_bit(self):
        folder, sources = self.at / "recorded", self.at / "cache" / "reprise" / "cuda"
        recorder = [BUILD / "bin" / "reprise_record_primitives", folder, "sm_90a", sources]
        subprocess.run(list(map(str, recorder)), check=True, timeout=600)
        cache = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.at / "cache")})
        cache.start()
        self.addCleanup(cache.stop)
        status, rows = self.primitives(folder)
        self.assertEqual(status, 0, rows)
        self.assertGreater(len(rows), 20)
        index = json.loads((folder / "index.json").read_text())
        by_name = {p["name"]: p for p in index["primitives"]}
        # A wrong answer, and one that another reading gives.
        wrong = by_name["max"]
        answer = bytearray((folder / wrong["results"][0]).read_bytes())
        answer[40] ^= 1
        (folder / wrong["results"][0]).write_bytes(answer)
        exchanged = by_name["sum of f16"]
        exchanged["readings"] = [{"name": "a difference", "package": by_name["difference of f16"]["package"]}]
        exchanged["results"] = by_name["difference of f16"]["results"]
        (folder / by_name["f32 to f16"]["package"]).write_bytes(b"no package")
        (folder / "index.json").write_text(json.dumps(index))
        status, rows = self.primitives(folder)
        self.assertEqual(status, 1)
        self.assertEqual(rows["max"]["status"], "differs")
        self.assertIn("1 of 4096 bytes differ, from byte 40 on; 0 other readings tried, none", rows["max"]["reason"])
        self.assertEqual(rows["sum of f16"]["matches"], ["a difference"])
        self.assertEqual(rows["f32 to f16"]["status"], "failed")
        self.assertEqual(rows["min"]["status"], "pass")

    def test_gpu_check_writes_one_file(self):
        target, page = self.at / "r.json", self.at / "r.html"
        done = gpu_check(
            *("--build", BUILD, "--quick", "--skip-tests", "--vulkan", "off"),
            *("--models", MODELS, "--python", sys.executable, "-o", target, "--html", page),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(target.read_text())
        tests = ("primitives", "probes", "tests", "suite")
        parts = [name for name in cli.PARTS if name not in tests]
        self.assertEqual([part["name"] for part in result["parts"]], parts)
        self.assertGreater(len(result["tune"]["cases"]), 3)
        self.assertEqual(result["facts"]["device"], "Reprise stand-in")
        self.assertIn("nvidia-smi", str(result["facts"]["gpu"]))
        self.assertGreater(len(result["bench"]["cases"]), 8)
        self.assertIn("torch", {**result["bench"]["missing"], **result["bench"]["peers"]})
        self.assertIn("<svg", page.read_text())

    def test_without_time_the_file_says_what_was_not_begun(self):
        target = self.at / "r.json"
        done = gpu_check("--build", BUILD, "--time-limit", 1, "-o", target)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(target.read_text())
        self.assertEqual(result["tests"], [])
        self.assertEqual({part["note"] for part in result["parts"]}, {"not begun: the time limit is near"})
        self.assertEqual(len(result["parts"]), len(cli.PARTS) + 7)  # parts of probes, tests, suite


@on_the_standin
class FullOnTheStandIn(unittest.TestCase):
    def test_a_packed_folder_measures(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        at = Path(folder.name)
        packed_folder, target = at / "packed", at / "r.json"
        packed = gpu_check("--build", BUILD, "--pack", packed_folder, "--models", MODELS, "--quick")
        self.assertEqual(packed.returncode, 0, packed.stderr)
        size = sum(f.stat().st_size for f in packed_folder.rglob("*") if f.is_file())
        self.assertLessEqual(size, 60 << 20)
        moved = at / "moved"
        shutil.move(packed_folder, moved)
        done = gpu_check(
            *("--quick", "--parts", "matmul,replay", "--vulkan", "off", "-o", target),
            program=moved / "gpu-check",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(target.read_text())
        self.assertTrue((moved / "primitives" / "index.json").is_file())
        self.assertEqual(result["facts"]["commit"], json.loads((moved / "commit.json").read_text())["commit"])
        self.assertGreater(len(result["bench"]["cases"]), 3)


if __name__ == "__main__":
    unittest.main()
