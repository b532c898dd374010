"""bench/peers: reports of recorded results, and errors of usage."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent.parent / "bench"
sys.path.insert(0, str(BENCH))

from peerbench import report

RECORDED = HERE / "recorded.json"


def peers(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-B", str(BENCH / "peers"), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


class Summary(unittest.TestCase):
    def setUp(self):
        self.document = json.loads(RECORDED.read_text())

    def test_means_are_over_models_that_both_compute(self):
        self.assertEqual(
            report.ratios(self.document, "ort-webgpu", "median_ms"), {"alpha": 8, "beta": 2}
        )
        self.assertAlmostEqual(report.geometric_mean([8, 2]), 4)
        lines = report.summary(self.document, "ort-webgpu")
        self.assertIn(
            "warm: 4.00x ORT WebGPU (geometric mean over 2 models; least 2.00x on beta)", lines
        )
        self.assertIn(
            "load and first run: 3.00x ORT WebGPU (geometric mean over 2 models; least 1.00x on beta)",
            lines,
        )

    def test_wrong_peers_and_the_cpu_do_not_compete(self):
        lines = report.summary(self.document, "ort-webgpu")
        self.assertIn("best correct Vulkan peer faster on 1 of 2 models: beta (ncnn, 2.00x)", lines)
        self.assertIn("ncnn without a correct result: gamma (wrong)", lines)
        self.assertIn("ORT WebGPU without a correct result: gamma (failed)", lines)

    def test_another_baseline(self):
        self.assertIn(
            "warm: 1.41x ncnn (geometric mean over 2 models; least 0.50x on beta)",
            report.summary(self.document, "ncnn"),
        )

    def test_a_baseline_that_never_works_is_said(self):
        for model in self.document["models"]:
            model["peers"]["ort-webgpu"] = {
                "status": "failed",
                "stage": "setup",
                "reason": "no network",
            }
        self.assertIn(
            "warm: no model that both Reprise and ORT WebGPU compute",
            report.summary(self.document, "ort-webgpu"),
        )
        report.page(self.document, "ort-webgpu")


class Page(unittest.TestCase):
    def setUp(self):
        self.document = json.loads(RECORDED.read_text())
        self.page = report.page(self.document, "ort-webgpu")

    def chart(self) -> xml.Element:
        return xml.fromstring(report.chart(self.document, "ort-webgpu"))

    def test_text_of_others_is_escaped(self):
        self.assertIn("refuses &lt;this&gt; &amp; that", self.page)
        self.assertIn("llvmpipe &lt;LLVM 15&gt;", self.page)
        self.assertNotIn("<this>", self.page)

    def test_nothing_is_loaded_from_elsewhere(self):
        for reference in ("<script", "<link", "src=", "@import", "url("):
            self.assertNotIn(reference, self.page)

    def test_bars_of_the_chart(self):
        space = "{http://www.w3.org/2000/svg}"
        bars = [
            rect
            for rect in self.chart().iter(f"{space}rect")
            if rect.find(f"{space}title") is not None
        ]
        tips = {bar.find(f"{space}title").text: float(bar.get("width")) for bar in bars}
        self.assertIn("alpha, Reprise: 8x", tips)
        self.assertIn("geometric mean, Reprise: 4x", tips)
        self.assertEqual(sum("gamma" in tip for tip in tips), 0)  # it has no baseline
        # On a log scale 8 times is three times as long as 2 times.
        self.assertAlmostEqual(
            tips["alpha, Reprise: 8x"] / tips["beta, Reprise: 2x"], 3, delta=0.01
        )

    def test_wrong_results_have_no_bar(self):
        self.document["models"].pop(2)
        self.document["models"][1]["peers"]["ncnn"] |= {"status": "wrong", "reason": "far off"}
        texts = [text.text for text in self.chart().iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("ncnn wrong result", texts)
        self.assertNotIn("nothing to compare with: ORT WebGPU has no correct result", texts)

    def test_a_model_without_baseline_says_so(self):
        texts = [text.text for text in self.chart().iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("nothing to compare with: ORT WebGPU has no correct result", texts)


BINARIES = Path(os.environ.get("REPRISE_BINARIES", "/nonexistent"))
SUITE = Path(os.environ.get("REPRISE_ONNX_SUITE", "/nonexistent"))


@unittest.skipUnless((BINARIES / "reprise_runner").exists(), "reprise_runner is not built")
@unittest.skipUnless((SUITE / "node/test_add").exists(), "the ONNX backend suite is not installed")
class Runner(unittest.TestCase):
    def run_it(self, folder: str, inputs: Path, lines: str) -> subprocess.CompletedProcess:
        package = Path(folder) / "add.rpk"
        model = SUITE / "node/test_add/model.onnx"
        compile_it = [BINARIES / "reprise", "compile", model, "-o", package]
        subprocess.run(compile_it, check=True, capture_output=True, timeout=60)
        command = [BINARIES / "reprise_runner", package, "--device", "host"]
        command += ["--inputs", inputs, "--outputs", folder]
        return subprocess.run(
            command, check=False, input=lines, capture_output=True, text=True, timeout=60
        )

    def test_one_run_for_each_line(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_it(folder, SUITE / "node/test_add/test_data_set_0", "\n\n\n")
            self.assertEqual(done.returncode, 0, done.stderr)
            first, *runs = map(json.loads, done.stdout.splitlines())
            self.assertEqual(sorted(first), ["device", "first_run_ms", "load_ms", "variant"])
            self.assertEqual([sorted(run) for run in runs], [["ms"]] * 3)
            # 3x4x5 floats behind a header.
            self.assertGreater((Path(folder) / "0.npy").stat().st_size, 3 * 4 * 5 * 4)

    def test_inputs_that_are_missing_are_not_made_up(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_it(folder, Path(folder), "\n")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("input 'x'", done.stderr)
            self.assertEqual(done.stdout, "")


class CommandLine(unittest.TestCase):
    def test_recorded_results_become_text_and_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "peers.html"
            done = peers("--from", RECORDED, "--html", target)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("gamma", done.stdout)
            self.assertIn("2 wrong", done.stdout)
            self.assertIn("gamma: ORT WebGPU: refuses <this> & that", done.stdout)
            self.assertIn("<svg", target.read_text())

    def test_a_failure_of_ours_is_the_exit_status(self):
        document = json.loads(RECORDED.read_text())
        document["models"][0]["peers"]["reprise"] = {
            "status": "failed",
            "stage": "run",
            "reason": "lost",
        }
        with tempfile.TemporaryDirectory() as folder:
            recorded = Path(folder) / "recorded.json"
            recorded.write_text(json.dumps(document))
            self.assertEqual(peers("--from", recorded).returncode, 1)

    def test_help_teaches(self):
        done = peers("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("--models", "--icd", "exit status", "examples", "tools/lavapipe"):
            self.assertIn(word, done.stdout)

    def refused(self, status: int, message: str, *arguments: object):
        done = peers(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_wrong_usage(self):
        self.refused(2, "FOLDER")
        self.refused(2, "FOLDER", "somewhere", "--from", RECORDED)
        self.refused(
            2, "unknown peer 'tvm'; known: reprise, ort-webgpu", "--peers", "tvm", "somewhere"
        )
        self.refused(2, "'0' is not a number of at least 1", "--runs", "0", "somewhere")
        self.refused(2, "invalid choice: 'reprise'", "--baseline", "reprise", "somewhere")

    def test_files_that_are_not_there_or_not_ours(self):
        self.refused(4, "there is no folder '/nonexistent'", "/nonexistent")
        self.refused(4, "cannot read '/nonexistent.json'", "--from", "/nonexistent.json")
        self.refused(
            4,
            "cannot write '/nonexistent/x.html'",
            "--from",
            RECORDED,
            "--html",
            "/nonexistent/x.html",
        )
        good = json.loads(RECORDED.read_text())
        with tempfile.TemporaryDirectory() as folder:
            recorded = Path(folder) / "recorded.json"
            for change, message in (
                (lambda d: d.pop("meta"), "the key 'meta' is missing"),
                (lambda d: d["peers"].append("tvm"), "unknown peer 'tvm'"),
                (
                    lambda d: d["models"][1]["peers"].pop("ncnn"),
                    "model 'beta' has no result of 'ncnn'",
                ),
            ):
                document = copy.deepcopy(good)
                change(document)
                recorded.write_text(json.dumps(document))
                self.refused(4, message, "--from", recorded)
            recorded.write_text("{")
            self.refused(4, "is not a result of bench/peers", "--from", recorded)


if __name__ == "__main__":
    unittest.main()
