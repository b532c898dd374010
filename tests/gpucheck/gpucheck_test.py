"""tools/gpu-check: what it reads, merges, packs and shows. Needs no GPU and no build."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from gpucheck import checks, cli, document, facts, pack, page, process

GTEST = """\
[==========] Running 4 tests from 1 test suite.
[ RUN      ] Devices/DeviceContract.Copies/cuda_0
[       OK ] Devices/DeviceContract.Copies/cuda_0 (3 ms)
[ RUN      ] Devices/DeviceContract.Sizes/host
host_test.cpp:1: Skipped
[  SKIPPED ] Devices/DeviceContract.Sizes/host (0 ms)
[ RUN      ] CudaRun.Times
run_test.cpp:9: Failure
Expected equality of these values
[  FAILED  ] CudaRun.Times (1 ms)
[  FAILED  ] 1 test, listed below:
[  FAILED  ] CudaRun.Times
"""

FUZZ = """\
seed 1

--- seed 7: wrong
// seed=8
graph fuzz
output y
--- seed 9: error
graph fuzz

operators: Abs 1
40 graphs, 2 findings
  seed 7, 1 times: wrong device=cuda:0
"""

CONFORMANCE = """\
device cuda:0, 4 cases
pass  test_abs
fail  test_add: element 3 is 1, expected 2
unsupported  test_loop: no kernel
error  test_conv: the process was killed: signal 9
"""


def recorded() -> dict:
    made = document.empty({"device": "NVIDIA <H200>", "commit": "abc", "gpu": {}, "devices": []})
    document.take_bench(
        made,
        {
            "peers": {"cublas": "130000"},
            "missing": {"cudnn": "no libcudnn.so.9"},
            "cases": [
                {
                    "case": "matmul 1024",
                    "dtype": "fp16",
                    "unit": "TFLOP/s",
                    "flops": 2e9,
                    "contenders": [
                        {"name": "reprise cuda", "status": "ok", "wall_ms": 0.02, "error": 1e-3},
                        {"name": "cublas", "status": "ok", "wall_ms": 0.01, "error": 1e-3},
                        {"name": "reprise vulkan", "status": "failed", "reason": "lost"},
                    ],
                },
                {"case": "bert", "dtype": "fp32", "unit": "", "skipped": "no file", "contenders": []},
            ],
        },
    )
    return made


def finished(output: str, status: int | None) -> process.Finished:
    return process.Finished(status, output, 1.5)


class Reading(unittest.TestCase):
    def test_googletest(self):
        result = checks.read_gtest("cuda", finished(GTEST, 1))
        self.assertEqual((result.passed, result.skipped), (1, 1))
        self.assertEqual(list(result.failures), ["CudaRun.Times"])
        self.assertIn("Expected equality", result.failures["CudaRun.Times"])
        self.assertEqual(result.stopped, "")

    def test_a_crash_is_a_failure_of_the_test_that_ran(self):
        crashed = GTEST.split("[  FAILED  ] CudaRun")[0]
        result = checks.read_gtest("cuda", finished(crashed, -11))
        self.assertEqual(list(result.failures), ["CudaRun.Times"])
        self.assertIn("status -11", result.failures["CudaRun.Times"])

    def test_a_time_out_is_none(self):
        result = checks.read_gtest("cuda", finished(GTEST.split("[  FAILED  ] CudaRun")[0], None))
        self.assertEqual(result.failures, {})
        self.assertEqual(result.stopped, "at its time limit, in CudaRun.Times")

    def test_a_program_that_does_not_start_is_a_failure(self):
        result = checks.read_gtest("cuda", finished("error while loading libx.so", 127))
        self.assertIn("libx.so", result.failures["(program)"])

    def test_conformance(self):
        result = checks.read_conformance("suite", finished(CONFORMANCE, 1))
        self.assertEqual((result.passed, result.unsupported), (1, 1))
        self.assertEqual(list(result.failures), ["test_add", "test_conv"])
        self.assertEqual(result.failures["test_add"], "fail: element 3 is 1, expected 2")
        stopped = checks.read_conformance("suite", finished(CONFORMANCE[:50], None))
        self.assertEqual((stopped.passed, stopped.stopped), (1, "at its time limit"))


    def test_a_case_whose_data_are_wrong_is_no_failure(self):
        (name,) = checks.WRONG_CASES
        text = f"pass  test_abs\nfail  {name}: output 'y' differs\n"
        result = checks.read_conformance("suite", finished(text, 1))
        self.assertEqual((result.passed, result.failures), (1, {}))
        crashed = checks.read_conformance("suite", finished(text, -11))
        self.assertEqual(list(crashed.failures), ["(program)"])
        result = checks.read_conformance("suite", finished("it did not begin", 1))
        self.assertEqual(list(result.failures), ["(program)"])

    def test_random_graphs(self):
        result = checks.read_fuzz("random graphs", finished(FUZZ, 1))
        self.assertEqual((result.passed, list(result.failures)), (38, ["seed 7", "seed 9"]))
        self.assertIn("output y", result.failures["seed 7"])
        self.assertNotIn("operators", result.failures["seed 9"])
        clean = checks.read_fuzz("random graphs", finished("seed 1\n12 graphs, 0 findings\n", 0))
        self.assertEqual((clean.passed, clean.failures), (12, {}))
        crashed = checks.read_fuzz("random graphs", finished("seed 1\n", -11))
        self.assertEqual(list(crashed.failures), ["(program)"])
        self.assertTrue(checks.read_fuzz("random graphs", finished("seed 1\n", None)).stopped)


class Merging(unittest.TestCase):
    def test_rows_of_peers_stand_beside_ours(self):
        made = recorded()
        row = {"case": "matmul 1024", "dtype": "fp16", "name": "torch compile"}
        text = "\n".join(
            [
                "a warning that is not JSON",
                json.dumps({"name": "of a library"}),
                json.dumps({"peer": "torch", "version": "2.11"}),
                json.dumps({**row, "status": "failed", "reason": "first try"}),
                json.dumps({**row, "status": "ok", "wall_ms": 0.04, "device_ms": 0.02}),
                json.dumps({**row, "dtype": "fp32", "status": "ok", "wall_ms": 1}),
                json.dumps({"missing": "onnxruntime", "reason": "no CUDA provider"}),
                '{"case": "matmul 1024", "dty',
            ]
        )
        document.merge_rows(made, document.parse_rows(text))
        rows = made["bench"]["cases"][0]["contenders"]
        self.assertEqual([r["name"] for r in rows][-1], "torch compile")
        self.assertEqual(len(rows), 4)
        self.assertAlmostEqual(rows[-1]["rate"], 2e9 / 0.04 / 1e9)
        self.assertAlmostEqual(rows[-1]["device_rate"], 2e9 / 0.02 / 1e9)
        self.assertEqual(made["bench"]["peers"], {"cublas": "130000", "torch": "2.11"})
        self.assertEqual(sorted(made["bench"]["missing"]), ["cudnn", "onnxruntime"])

    def test_failures_are_ours_alone(self):
        made = recorded()
        made["tests"].append(checks.read_gtest("cuda", finished(GTEST, 1)).json())
        self.assertEqual(document.failures(made), ["cuda: CudaRun.Times"])
        self.assertEqual(
            document.wrong_results(made), ["matmul 1024 fp16: reprise vulkan: failed: lost"]
        )

    def test_a_file_is_whole_or_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new" / "r.json"
            document.write(recorded(), path)
            document.write(recorded() | {"tests": [1]}, path)
            self.assertEqual(document.read(path)["tests"], [1])
            self.assertEqual([p.name for p in path.parent.iterdir()], ["r.json"])

    def test_file_names(self):
        self.assertEqual(
            document.file_name("NVIDIA H200 (80 GB)", "2026-11-22"),
            "nvidia-h200-80-gb-2026-11-22.json",
        )
        self.assertEqual(document.file_name("", "2026-11-22"), "gpu-2026-11-22.json")


LONG_ENOUGH = 4.0  # seconds for a shell to begin, on a busy machine


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # ended, and not waited for by anyone yet


class Programs(unittest.TestCase):
    def test_what_was_printed_before_a_stop_is_kept(self):
        code = "echo 'pass  test_a'; exec sleep 600"
        done = process.run(["sh", "-c", code], dict(os.environ), LONG_ENOUGH)
        self.assertIsNone(done.status)
        self.assertIn("test_a", done.output)
        self.assertLess(done.seconds, 300)

    def test_what_it_started_is_stopped_too(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = Path(folder) / "pid"
            code = f"sleep 600 & echo $! > {pid}; wait"
            self.assertIsNone(process.run(["sh", "-c", code], dict(os.environ), LONG_ENOUGH).status)
            child = int(pid.read_text())
            end = time.monotonic() + 60  # a signal takes effect when the machine finds the time
            while runs(child) and time.monotonic() < end:
                time.sleep(0.05)
            self.assertFalse(runs(child))

    def test_nvidia_smi_that_is_missing_says_so(self):
        path = os.environ["PATH"]
        os.environ["PATH"] = "/nonexistent"
        try:
            self.assertIn("nvidia-smi", facts.nvidia_smi("0", ("name",))["error"])
        finally:
            os.environ["PATH"] = path

    def test_the_compiler_is_no_newer_than_the_driver_where_there_is_a_choice(self):
        both = ["/b/libnvrtc.so.13", "/a/libnvrtc.so.12"]
        for driver, found, wanted in (
            (12, both, "12"),
            (13, both, "13"),
            (14, both, "13"),
            (None, both, "13"),
            (11, both, "12"),
            (12, both[:1], "13"),
        ):
            with self.subTest(driver=driver, found=found):
                self.assertTrue(facts.fitting_nvrtc(found, driver).endswith("so." + wanted))

    def test_the_same_gpu_through_vulkan(self):
        listed = [
            {"id": "cuda:0", "name": "NVIDIA H200", "usable": True},
            {"id": "vulkan:0", "name": "llvmpipe", "usable": True},
            {"id": "vulkan:1", "name": "NVIDIA H200", "usable": True},
        ]
        self.assertEqual(facts.same_gpu(listed, "0"), "vulkan:1")
        self.assertIsNone(facts.same_gpu(listed[:2], "0"))


class TimeLimit(unittest.TestCase):
    def check(self, left: float) -> cli.Check:
        made = cli.Check.__new__(cli.Check)
        made.document, made.saved = recorded(), 0
        made.left, made.seconds = lambda: left, 1000
        made.save = lambda: setattr(made, "saved", made.saved + 1)
        return made

    def test_parts_without_time_are_not_begun(self):
        check, limits = self.check(20), []
        check.part("first", limits.append, share=0.5)
        check.part("second", limits.append, least=30)
        self.assertEqual(limits, [8.5])
        self.assertEqual(
            check.document["parts"],
            [
                {"name": "first", "note": ""},
                {"name": "second", "note": "not begun: the time limit is near"},
            ],
        )
        self.assertEqual(check.saved, 2)

    def test_a_part_takes_no_longer_than_it_may(self):
        check, limits = self.check(500), []
        check.seconds = 60
        check.part("first", limits.append)
        check.part("second", limits.append, share=0.5)
        self.assertEqual(limits, [60, 30])

    def test_longer_limits_give_parts_more_time(self):
        check = self.check(500)
        for limit, parts, seconds in ((540, "", 60), (1080, "", 120), (1080, "probes:7", 7), (0, "", 500)):
            check.o = argparse.Namespace(time_limit=limit, parts=parts)
            check.parts = cli.parse_parts(parts) if parts else cli.PARTS
            self.assertEqual(check.allowed("probes"), seconds)

    def test_the_usual_parts_begin_with_what_tells_most(self):
        first = [name for name in cli.PARTS if name not in ("tests", "suite")]
        self.assertLessEqual(sum(cli.PARTS[name] for name in first), cli.USUAL_LIMIT)
        self.assertEqual(set(cli.GROUPS) - set(cli.PARTS), set())

    def test_lists_of_parts(self):
        self.assertEqual(cli.parse_parts("matmul:200,tune"), {"matmul": 200, "tune": cli.PARTS["tune"]})
        for text, message in (("gemm", "there is no part 'gemm'"), ("tune:x", "NAME:SECONDS")):
            with self.assertRaisesRegex(ValueError, message):
                cli.parse_parts(text)


class Runs(unittest.TestCase):
    def test_a_second_run_of_the_bench_adds_cases_and_replaces_equal_ones(self):
        made = recorded()
        new = {"case": "bert", "dtype": "fp32", "unit": "", "contenders": [{"name": "x"}]}
        more = {"case": "conv", "dtype": "fp32", "unit": "", "contenders": []}
        document.take_bench(made, {"cases": [new, more]})
        self.assertEqual([c["case"] for c in made["bench"]["cases"]], ["matmul 1024", "bert", "conv"])
        self.assertEqual(made["bench"]["cases"][1], new)

    def test_a_schedule_that_is_wrong_is_found(self):
        made = recorded()
        row = {"name": "reprise cuda, shared tile 8x8", "status": "wrong", "reason": "NaN"}
        case = {"case": "matmul 64", "dtype": "fp16", "unit": "", "contenders": [row]}
        document.take_bench(made, {"cases": [case]}, "tune")
        self.assertIn("shared tile 8x8: wrong: NaN", "\n".join(document.wrong_results(made)))

    def test_probes(self):
        rows = [
            {"status": "pass"},
            {"status": "skipped"},
            {"status": "wrong", "model": "matmul", "kernel": "k0", "reason": "element 3"},
        ]
        read = checks.read_check("probes", process.Finished(1, "", 2.0), rows)
        self.assertEqual((read.passed, read.skipped), (1, 1))
        self.assertEqual(read.failures, {"matmul k0": "wrong: element 3"})
        broken = checks.read_check("probes", process.Finished(4, "no device", 1.0), [])
        self.assertIn("no device", broken.failures["(program)"])


    def test_primitives(self):
        rows = [
            {"status": "pass", "name": "max"},
            {"status": "differs", "name": "wgmma", "reason": "8 bytes; it matches with x"},
        ]
        read = checks.read_primitives("primitives", process.Finished(1, "", 2.0), rows)
        self.assertEqual(read.passed, 1)
        self.assertEqual(read.failures, {"wgmma": "differs: 8 bytes; it matches with x"})
        for status, said in ((4, "no device"), (1, "nothing differs, it says")):
            broken = checks.read_primitives("primitives", process.Finished(status, said, 1.0), [])
            self.assertIn(said, broken.failures["(program)"])
        stopped = checks.read_primitives("primitives", process.Finished(None, "", 9.0), rows[:1])
        self.assertEqual((stopped.stopped, stopped.failures), ("at its time limit", {}))

    def test_architectures(self):
        for gpu, arch in (({"compute_cap": "8.0"}, "sm_80"), ({"compute_cap": "9.0"}, "sm_90a"),
                          ({"compute_cap": "12.0"}, "sm_120"), ({"error": "none"}, "sm_90a")):
            self.assertEqual(facts.architecture({"gpu": gpu}), arch)


class Packing(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = Path(self.folder.name)
        for name in pack.PROGRAMS:
            program = self.at / "build" / "bin" / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_bytes(Path(sys.executable).resolve().read_bytes())
        for name, size in (("small", 1000), ("large", 3 << 20)):
            model = self.at / "models" / name / "model.onnx"
            model.parent.mkdir(parents=True)
            model.write_bytes(b"x" * size)

    def pack(self, limit: int, names: list[str], to: str = "out", tests: tuple = pack.TESTS) -> dict:
        build, models = self.at / "build", self.at / "models"
        return pack.pack(ROOT, build, self.at / to, models, limit, names, tests)

    def test_what_fits_is_taken(self):
        without_models = self.pack(1 << 30, [], "first")["bytes"]
        made = self.pack(without_models + (2 << 20), ["large", "small", "absent"])
        self.assertTrue((self.at / "out/models/small/model.onnx").is_file())
        self.assertLessEqual(made["bytes"], without_models + (2 << 20))
        left_out = [line.split(":")[0] for line in made["left_out"]]
        self.assertEqual(left_out, ["large", "absent", *pack.TESTS])
        self.assertIn(f"{pack.TESTS[0]}: it was not built", made["left_out"])
        libraries = {path.name for path in (self.at / "out/lib").iterdir()}
        self.assertFalse({name for name in libraries if name.startswith("libc.")})

    def test_tests_that_do_not_fit_are_left_out_and_named(self):
        program = (self.at / "build/bin" / pack.PROGRAMS[0]).read_bytes()
        for name in pack.TESTS[:2]:
            (self.at / "build/bin" / name).write_bytes(program)
        without, one = (self.pack(1 << 30, [], to, tests)["bytes"] for to, tests in (
            ("first", ()), ("second", pack.TESTS[:1])))
        self.assertGreater(one, without)
        made = self.pack(one + 1, [], tests=pack.TESTS[:2])
        self.assertLessEqual(made["bytes"], one + 1)
        self.assertTrue((self.at / "out/bin" / pack.TESTS[0]).is_file())
        self.assertFalse((self.at / "out/bin" / pack.TESTS[1]).exists())
        self.assertEqual(len(made["left_out"]), 1)
        self.assertRegex(made["left_out"][0], pack.TESTS[1] + r": [\d.]+ MiB, 0\.0 MiB are left")

    def test_models_have_the_room_before_tests(self):
        program = (self.at / "build/bin" / pack.PROGRAMS[0]).read_bytes()
        (self.at / "build/bin" / pack.TESTS[0]).write_bytes(program)
        with_model = self.pack(1 << 30, ["large"], "first", ())["bytes"]
        made = self.pack(with_model + 1, ["large"], tests=pack.TESTS[:1])
        self.assertTrue((self.at / "out/models/large/model.onnx").is_file())
        self.assertEqual([line.split(":")[0] for line in made["left_out"]], [pack.TESTS[0]])

    def test_kernels_are_kept_for_the_next_pack(self):
        build, target = self.at / "build", self.at / "out"
        bench = target / "bin" / "reprise_gpubench"
        bench.parent.mkdir(parents=True)
        made = "${XDG_CACHE_HOME}/reprise/cuda"
        bench.write_text(f'#!/bin/sh\nmkdir -p "{made}"\ntouch "{made}/$#.cudaimage" "{made}/$#.cu"\n')
        bench.chmod(0o755)
        old = build / pack.KEPT / "reprise" / "cuda" / "old.cudaimage"
        old.parent.mkdir(parents=True)
        old.touch()
        os.utime(old, (1, 1))
        pack.compile_cases(build, target, self.at, pack.Cases("sm_90", dict(os.environ)))
        packed = sorted(path.name for path in (target / pack.CACHE).rglob("*") if path.is_file())
        self.assertEqual(packed, ["4.cudaimage", "5.cudaimage"])
        self.assertTrue(old.is_file())

    def test_programs_that_do_not_fit_are_an_error(self):
        with self.assertRaisesRegex(pack.PackError, r"without tests and models.*limit of 1\.0 MiB"):
            self.pack(1 << 20, [])

    def test_the_packed_folder_runs(self):
        self.pack(1 << 30, [])
        large = self.at / "large.so"
        large.write_bytes(b"x" * (pack.LARGE_LIBRARY + 1))
        pack.copy_library(large, self.at / "out/lib/large.so")
        self.assertLess((self.at / "out/lib/large.so.gz").stat().st_size, 1 << 20)
        done = subprocess.run(
            [self.at / "out/gpu-check", "--help"],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--time-limit", done.stdout)
        self.assertEqual((self.at / "out/lib/large.so").read_bytes(), large.read_bytes())
        commit = json.loads((self.at / "out/commit.json").read_text())
        self.assertEqual(facts.commit(ROOT, self.at / "out"), commit)

    def test_folders_that_are_there_and_builds_that_are_not(self):
        (self.at / "out").mkdir()
        (self.at / "out/file").touch()
        with self.assertRaisesRegex(pack.PackError, "is there already"):
            self.pack(1 << 30, [])
        with self.assertRaisesRegex(pack.PackError, "has no reprise"):
            pack.pack(ROOT, self.at, self.at / "new", self.at, 1 << 30, [])


class Showing(unittest.TestCase):
    def test_text(self):
        text = page.text(recorded())
        self.assertIn("without cudnn: no libcudnn.so.9", text)
        self.assertIn("bert fp32: skipped: no file", text)
        line = next(line for line in text.splitlines() if " cublas " in line)
        self.assertTrue(line.endswith("0.50x"), line)

    def test_documents_have_every_measured_case(self):
        text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
        for name in ("nvidia-h200-2026-11-26", "nvidia-h200-2026-11-26-first"):
            results = document.read(ROOT / "bench" / "results" / f"{name}.json")
            table = page.markdown(results)
            self.assertEqual(table.count("\n"), len(results["bench"]["cases"]) + 2)
            self.assertIn(table, text, "tools/gpu-check --from FILE --markdown writes it")

    def test_page(self):
        html = page.page(recorded())
        self.assertIn("NVIDIA &lt;H200&gt;", html)
        for reference in ("<script", "<link", "src=", "@import", "url("):
            self.assertNotIn(reference, html)
        chart = xml.fromstring(page.chart(recorded()["bench"]["cases"]))
        space = "{http://www.w3.org/2000/svg}"
        bars = [float(bar.get("width")) for bar in chart.iter(f"{space}rect")]
        self.assertEqual(bars, [page.WIDTH / 2, page.WIDTH])  # half as fast as cuBLAS


class CommandLine(unittest.TestCase):
    def run_it(self, *arguments: object) -> subprocess.CompletedProcess:
        command = [str(ROOT / "tools" / "gpu-check"), *map(str, arguments)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    def test_recorded_results_become_text_and_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            path, html = Path(folder) / "r.json", Path(folder) / "r.html"
            document.write(recorded(), path)
            done = self.run_it("--from", path, "--html", html)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("matmul 1024", done.stdout)
            self.assertIn("<svg", html.read_text())

    def test_help_teaches(self):
        done = self.run_it("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("--pack", "--time-limit", "exit status", "examples", "max-autotune"):
            self.assertIn(word, done.stdout)

    def test_wrong_usage_and_files_that_are_not_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder) / "broken.json"
            broken.write_text('{"facts": {}}')
            for status, message, arguments in (
                (2, "unrecognized arguments", ["--build", folder, "--nonsense"]),
                (2, "must be a CUDA device", ["--build", folder, "--device", "vulkan:0"]),
                (4, "there is no", ["--build", folder]),
                (4, "the key 'tests' is missing", ["--from", broken]),
                (4, "No such file", ["--from", Path(folder) / "absent.json"]),
            ):
                done = self.run_it(*arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
