"""tools/gpu-check."""

import argparse
import datetime
import glob
import json
import os
import sys
import time
from pathlib import Path

from . import benches, checks, facts, pack, page
from . import document as results

USAGE, FAILED, DIFFERS = 2, 4, 1

DESCRIPTION = """\
Tests and measures Reprise on this machine's NVIDIA GPU, on CUDA and on NVIDIA's Vulkan, and writes
one JSON file. Needs an NVIDIA driver (CUDA 12.0 or later) and NVRTC of the CUDA toolkit. Uses what
else is available: a Vulkan loader, cuBLAS, cuDNN, torch, ONNX Runtime with CUDA, the models of
../shared/models, the ONNX backend suite. Uses the network only to install missing packages for the
build (tools/setup; not with --build)."""

EPILOG = """\
what it does, in this order; the file is written after each part
  facts      device, driver, clocks, power limit, NVRTC, commit
  primitives each assembly function of CUDA kernels alone, bit by bit, against an executor of PTX; of
             one that differs, which other reading of the instruction set matches
  probes     each kind of kernel alone, on CUDA and Vulkan, against the interpreter's results
  constants  what memory, caches, arithmetic, barriers and launches of the device can do
  matmul, attention, conv, rows, models, replay
             reprise_gpubench: Reprise on CUDA and Vulkan, cuBLAS, cuDNN, the driver, in turn
  tune       every schedule that the compiler could have chosen
  torch      the same cases in torch (eager, CUDA graph, max-autotune) and ONNX Runtime
  tests      the backend contract, tests of CUDA that need no stand-in, the models on CUDA and Vulkan,
             random graphs on both
  suite      tests of NVRTC, and the ONNX backend suite on CUDA and Vulkan; last because they are long
  facts      clocks afterwards
With --time-limit, a part takes at most the seconds of --parts, and less if the others were late.

exit status
  0 done; 1 a test failed, or a result of Reprise was wrong; 2 wrong usage; 4 no CUDA device, or a
  file or a build failed. A part that the time limit stopped is not a failure; the file records it.

examples
  tools/gpu-check                                # builds, tests, measures
  tools/gpu-check --build build --skip-tests --quick
  tools/gpu-check --pack /tmp/gpu-check          # on a machine without a GPU: build, then pack
  tools/gpu-check --pack /tmp/more --skip-tests --pack-models resnet18     # a large model instead
  /tmp/gpu-check/gpu-check --time-limit 560 -o results.json      # elsewhere, with a GPU
  /tmp/gpu-check/gpu-check --parts matmul:200,tune:200 -o more.json
  tools/gpu-check --from bench/results/nvidia-h200-2026-11-22.json --html page.html
  LD_LIBRARY_PATH=build/lib/cuda-standin tools/gpu-check --build build --quick -o try.json"""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="tools/gpu-check",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = p.add_argument
    add("--build", type=Path, metavar="DIR", help="build folder, or a packed one; else it is built")
    add("--skip-tests", action="store_true", help="measure only")
    add("--skip-bench", action="store_true", help="test only")
    add("--quick", action="store_true", help="small sizes and few cases, to try everything")
    add("--device", default="cuda:0", metavar="ID", help="cuda:N (default: cuda:0)")
    add("--vulkan", metavar="ID", help="vulkan:N or off (default: the same GPU, where it is listed)")
    add("-o", "--output", type=Path, metavar="FILE", help="default: bench/results/DEVICE-DATE.json")
    add("--time-limit", type=float, metavar="SECONDS", help="start no part that cannot end in time")
    add("--parts", metavar="LIST", help="NAME[:SECONDS],... of the parts below; default: all")
    add("--models", type=Path, metavar="DIR", help="default: ../shared/models")
    add("--suite", type=Path, metavar="DIR", help="ONNX suite's data (Debian: libonnx-testdata)")
    add("--python", metavar="PROGRAM", default="", help="Python with torch (default: this one)")
    add("--pack", type=Path, metavar="DIR", help="make a folder that runs on another machine")
    add("--pack-limit", type=float, default=60, metavar="MIB", help="its maximum size (default: 60)")
    add("--pack-arch", metavar="ARCH", default="sm_90", help="compile the cases for it; none: do not")
    add("--pack-models", metavar="LIST", help="default: " + ",".join(pack.WANTED))
    add("--from", dest="recorded", type=Path, metavar="FILE", help="show results, measure nothing")
    add("--markdown", action="store_true", help="show device times alone, as a table for documents")
    add("--html", type=Path, metavar="FILE", help="write a page with a chart")
    add("--started", type=float, help=argparse.SUPPRESS)  # the time limit includes the build
    return p


def environment(build: Path) -> dict:
    """Our environment, with the packed libraries after the ones that the caller chose."""
    env = dict(os.environ)
    extra = [str(build / "lib")] if (build / "commit.json").is_file() else []
    extra += facts.vendor_folders()
    # Paths are absolute because tests run in the build folder.
    given = [os.path.abspath(f) for f in env.get("LD_LIBRARY_PATH", "").split(":") if f]
    if given or extra:
        env["LD_LIBRARY_PATH"] = ":".join([*given, *extra])
    if "REPRISE_NVRTC" not in env:
        found = [f for folder in extra for f in glob.glob(f"{folder}/libnvrtc.so.1[23]")]
        if found:
            env["REPRISE_NVRTC"] = facts.fitting_nvrtc(found, facts.driver_major())
    elsewhere = "/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json"
    usual = glob.glob("/etc/vulkan/icd.d/nvidia*.json") + glob.glob("/usr/share/vulkan/icd.d/nvidia*")
    if os.path.isfile(elsewhere) and not usual:
        env.setdefault("VK_DRIVER_FILES", elsewhere)
    if (build / pack.CACHE).is_dir():
        env["XDG_CACHE_HOME"] = str(build / pack.CACHE)
    if (build / "commit.json").is_file():
        for name in ("REPRISE_TEST_BINARIES", "REPRISE_TEST_SOURCES"):
            env.setdefault(name, str(build))
        env.setdefault("REPRISE_TEST_MODELS", str(build / "models"))
    return env


#: The parts of a check with their seconds in a run of nine minutes. The first ones tell most.
USUAL_LIMIT = 540
PARTS = {
    "primitives": 15,
    "probes": 60,
    "constants": 40,
    "matmul": 110,
    "attention": 50,
    "conv": 40,
    "rows": 30,
    "models": 60,
    "replay": 15,
    "tune": 60,
    "torch": 60,
    "tests": 300,
    "suite": 600,
}
#: The groups of reprise_gpubench in each of its parts.
GROUPS = {
    "constants": "constants,copy",
    "matmul": "matmul",
    "attention": "attention",
    "conv": "conv",
    "rows": "softmax,pointwise",
    "models": "model",
    "replay": "replay",
}


def parse_parts(text: str) -> dict[str, float]:
    """The parts in "matmul:200,tune" with their seconds. ValueError says what is wrong."""
    out = {}
    for word in text.split(","):
        name, _, seconds = word.partition(":")
        if name not in PARTS:
            raise ValueError(f"there is no part '{name}'; choose from {', '.join(PARTS)}")
        try:
            out[name] = float(seconds) if seconds else PARTS[name]
        except ValueError:
            raise ValueError(f"'{word}' is not NAME:SECONDS") from None
    return out


class Check:
    """Runs the parts in order as long as there is time."""

    def __init__(self, options: argparse.Namespace, root: Path):
        self.o = options
        self.build = options.build.resolve()
        models = options.models or root.parent / "shared" / "models"
        suite = options.suite or Path("/usr/share/libonnx-testdata/data")
        env = environment(self.build)
        self.document = results.empty(facts.collect(root, self.build, options.device, env))
        ordinal = facts.ordinal_of(options.device)
        vulkan = options.vulkan or facts.same_gpu(self.document["facts"]["devices"], ordinal)
        self.machine = checks.Machine(
            self.build, env, options.device, vulkan, models, suite, options.quick
        )
        day = datetime.date.today().isoformat()
        named = results.file_name(self.document["facts"]["device"], day)
        self.parts = options.parts or dict(PARTS)
        self.seconds = 0.0  # of the part that runs
        self.path = options.output or root / "bench" / "results" / named
        limit = options.time_limit
        self.end = (options.started or time.time()) + limit if limit else None

    def left(self) -> float:
        return 24 * 3600 if self.end is None else self.end - time.time()

    def save(self) -> None:
        results.write(self.document, self.path)

    def part(self, name: str, work, share: float = 1.0, least: float = 5) -> None:
        """Runs one part with a share of the remaining time; some is reserved for writing the file."""
        limit = min(self.left() - 3, self.seconds) * share
        if limit < least:
            note = "not begun: the time limit is near"
        else:
            print(f"== {name}", flush=True)
            note = work(limit) or ""
        self.document["parts"].append({"name": name, "note": note})
        if note:
            print(f"{name}: {note}", flush=True)
        self.save()

    def test(self, result: checks.Result) -> str:
        self.document["tests"].append(result.json())
        print("\n".join(page.test_lines({"tests": [result.json()]})), flush=True)
        return f"stopped {result.stopped}" if result.stopped else result.missing

    def conformance(self, title: str, folder: Path, device: str | None, share: float) -> None:
        if not device or device == "off":
            missing = checks.Result(title, missing="no Vulkan device on this GPU")
            self.part(title, lambda _: self.test(missing))
            return
        self.part(
            title,
            lambda limit: self.test(
                checks.conformance(self.machine, title, folder, device, limit)
            ),
            share,
        )

    def gtests(self, table, share: float) -> None:
        for title, program, select in table:
            self.part(
                title,
                lambda limit, t=title, p=program, s=select: self.test(
                    checks.gtest(self.machine, t, p, s, limit)
                ),
                share,
            )

    def primitives(self) -> None:
        self.part(
            "primitives",
            lambda limit: self.test(
                checks.primitives(self.machine, facts.architecture(self.document["facts"]), limit)
            ),
        )

    def probes(self) -> None:
        m = self.machine
        for device, share in ((m.device, 0.6), (m.vulkan, 1.0)):
            self.part(
                f"probes on {device or 'vulkan'}",
                lambda limit, d=device: self.test(checks.probes(m, d, limit)),
                share,
            )

    def tests(self) -> None:
        self.gtests(checks.GTESTS, 0.4)
        m = self.machine
        self.conformance("models on cuda", m.models, m.device, 0.4)
        self.conformance("models on vulkan", m.models, m.vulkan, 0.3)
        self.part(
            "random graphs", lambda limit: self.test(checks.random_graphs(m, limit)), 0.25, 15
        )

    def suite(self) -> None:
        self.gtests(checks.LATE_GTESTS, 0.3)
        m = self.machine
        self.conformance("onnx suite on cuda", m.suite, m.device, 0.7)
        self.conformance("onnx suite on vulkan", m.suite, m.vulkan, 0.9)

    def bench(self, name: str) -> None:
        groups, tune = GROUPS.get(name, "matmul,attention,conv,softmax"), name == "tune"
        self.part(
            name,
            lambda limit: benches.gpubench(
                self.machine, self.document, self.save, limit, groups, tune
            ),
        )

    def torch(self) -> None:
        self.part(
            "torch",
            lambda limit: benches.torch_peers(self.machine, self.document, self.o.python, limit),
            1,
            30,
        )

    def allowed(self, name: str) -> float:
        """The most seconds of a part: without a limit as many as it takes, with a longer one more."""
        if not self.o.time_limit:
            return self.left()
        usual = not self.o.parts
        return self.parts[name] * (max(1.0, self.o.time_limit / USUAL_LIMIT) if usual else 1.0)

    def run(self) -> int:
        self.save()
        own = {
            "primitives": self.primitives,
            "probes": self.probes,
            "torch": self.torch,
            "tests": self.tests,
            "suite": self.suite,
        }
        skipped = {"primitives", "probes", "tests", "suite"} if self.o.skip_tests else set()
        if self.o.skip_bench:
            skipped |= {"tune", "torch", *GROUPS}
        for name in PARTS:
            if name not in self.parts or name in skipped:
                continue
            self.seconds = self.allowed(name)
            own.get(name, lambda n=name: self.bench(n))()
        ordinal = facts.ordinal_of(self.o.device)
        self.document["facts"]["clocks_after"] = facts.nvidia_smi(ordinal, facts.CLOCKS)
        self.save()
        print(f"\n{page.text(self.document)}\n{self.path}")
        bad = results.failures(self.document) + results.wrong_results(self.document)
        for line in bad:
            print(f"failed: {line}", file=sys.stderr)
        return DIFFERS if bad else 0


def show(options: argparse.Namespace, document: dict) -> None:
    if options.html:
        options.html.write_text(page.page(document), encoding="utf-8")
    if options.recorded:
        print(page.markdown(document) if options.markdown else page.text(document), end="")


def make_pack(options: argparse.Namespace, root: Path) -> None:
    names = options.pack_models.split(",") if options.pack_models else list(pack.WANTED)
    models = options.models or root.parent / "shared" / "models"
    limit = int(options.pack_limit * (1 << 20))
    tests = () if options.skip_tests else pack.TESTS
    cases = None
    if options.pack_arch != "none":
        cases = pack.Cases(options.pack_arch, environment(options.build), options.quick)
    build = options.build.resolve()
    made = pack.pack(root, build, options.pack, models, limit, names, tests, cases)
    print(f"{options.pack}: {pack.mib(made['bytes'])}")
    for line in made["left_out"]:
        print(f"left out: {line}")


def check_device(options: argparse.Namespace, document: dict) -> None:
    ordinal = facts.ordinal_of(options.device)
    listed = document["facts"]["devices"]
    wanted = next((d for d in listed if d.get("id") == f"cuda:{ordinal}"), None)
    wanted = wanted or next((d for d in listed if not d.get("usable")), {"reason": "not listed"})
    if not wanted.get("usable"):
        raise results.FormatError(f"{options.device} cannot be used: {wanted.get('reason')}")


def work(options: argparse.Namespace, root: Path) -> int:
    if options.recorded:
        show(options, results.read(options.recorded))
        return 0
    if options.pack:
        make_pack(options, root)
        return 0
    if not (options.build / "bin" / "reprise").is_file():
        raise results.FormatError(f"there is no {options.build / 'bin' / 'reprise'}")
    check = Check(options, root)
    check_device(options, check.document)
    status = check.run()
    show(options, check.document)
    return status


def main(root: Path) -> int:
    p = parser()
    options = p.parse_args()
    if not options.device.startswith("cuda"):
        p.error("--device must be a CUDA device, such as cuda:0")
    try:
        options.parts = parse_parts(options.parts) if options.parts else None
    except ValueError as error:
        p.error(f"--parts: {error}")
    if options.recorded and (options.pack or options.build):
        p.error("--from measures nothing: use it without --build and --pack")
    if not options.recorded and options.build is None:
        p.error("--build is missing")
    try:
        return work(options, root)
    except (results.FormatError, pack.PackError, OSError, json.JSONDecodeError) as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return FAILED
