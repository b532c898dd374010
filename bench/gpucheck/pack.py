"""Packs everything for a machine without our dependencies: programs, their libraries, test data."""

import gzip
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import facts

PROGRAMS = ("reprise", "reprise_gpubench", "reprise_primitives")
# It records primitives for a pack, which does not need it.
RECORDER = "reprise_record_primitives"
# Those that tell most first: what does not fit is left out.
TESTS = ("test_backends", "test_cuda", "reprise_fuzz", "test_nvrtc")
# Every system that can run our programs has these libraries in the same or a newer version.
BASE = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so.*)$")
# A larger library, such as ICU's data, is packed compressed; the first run unpacks it.
LARGE_LIBRARY = 8 << 20
# Libraries that stand for a driver or a compiler in the tests.
STAND_INS = ("lib/cuda-partial", "lib/fake-nvrtc")
SCRIPTS = ("tools/gpu-check", "tools/common.sh", "bench/gpucheck", "bench/peerbench", "bench/gpu")
# The folder of compiled kernels in a pack, and that of a build, from which the next pack takes them.
CACHE = "cache"
KEPT = "gpu-check-kernels"
IMAGE = ".cudaimage"
# Small models first. The names are those that the benches use.
WANTED = ("linear_ln_gelu", "mnist", "vit", "bert", "resnet18")


class PackError(Exception):
    pass


def size_of(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def libraries(program: Path) -> list[Path]:
    """The shared libraries that a program needs, except those that every system has."""
    done = subprocess.run(["ldd", str(program)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise PackError(f"ldd {program}: {(done.stderr or done.stdout).strip()}")
    found = []
    for line in done.stdout.splitlines():
        match = re.match(r"\s*(\S+) => (\S+) \(", line)
        if "not found" in line:
            raise PackError(f"{program} needs {line.strip()}")
        if match and not BASE.match(match[1]):
            found.append(Path(match[2]))
    return found


def vulkan_loader() -> Path | None:
    """A library that is opened at run time, so that ldd does not list it."""
    done = subprocess.run(
        "ldconfig -p 2>/dev/null || /sbin/ldconfig -p",
        check=False,
        shell=True,
        capture_output=True,
        text=True,
    )
    match = re.search(r"libvulkan\.so\.1 .*=> (\S+)", done.stdout)
    return Path(match[1]) if match else None


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.cpp", "*.h"))
    else:
        shutil.copy2(source.resolve(), target)
    # Copies are not read-only, so that the folder can be removed.
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def pack_program(source: Path, target: Path) -> list[Path]:
    copy(source, target)
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", str(target)], check=False)
    return libraries(source)


def compressed(library: Path) -> Path:
    return library.with_name(library.name + ".gz")


def copy_library(source: Path, target: Path) -> None:
    if source.resolve().stat().st_size <= LARGE_LIBRARY:
        copy(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        compressed(target).write_bytes(gzip.compress(source.read_bytes()))


def mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def pack_tests(build: Path, target: Path, room: int, names: tuple[str, ...]) -> list[str]:
    """Copies the tests that fit, with their libraries; returns why each of the others is left out."""
    left_out = []
    for name in names:
        source, packed = build / "bin" / name, target / "bin" / name
        if not source.is_file():
            left_out.append(f"{name}: it was not built")
            continue
        new = {
            path
            for path in pack_program(source, packed)
            for there in (target / "lib" / path.name,)
            if not there.exists() and not compressed(there).exists()
        }
        size = size_of(packed) + sum(size_of(path.resolve()) for path in new)
        if size > room:
            packed.unlink()
            left_out.append(f"{name}: {mib(size)}, {mib(room)} are left")
            continue
        for library in sorted(new):
            copy_library(library, target / "lib" / library.name)
        room -= size
    return left_out


def pack_models(models: Path, target: Path, room: int, names: list[str]) -> list[str]:
    """Copies the models that fit; returns why each of the others is left out."""
    left_out = []
    for name in names:
        source = models / name
        if not (source / "model.onnx").is_file():
            left_out.append(f"{name}: there is no {source / 'model.onnx'}")
            continue
        size = size_of(source)
        if size > room:
            left_out.append(f"{name}: {mib(size)}, {mib(room)} are left")
            continue
        copy(source, target / name)
        room -= size
    return left_out


def record_primitives(build: Path, target: Path, arch: str, environment: dict) -> None:
    """Records the primitives of an architecture into the packed folder.

    Their texts are packed too: a rehearsal without a GPU runs these, and nothing else writes them.
    """
    arch = "sm_90a" if arch == "sm_90" else arch
    texts = target / CACHE / "reprise" / "cuda"
    command = [str(build / "bin" / RECORDER), str(target / "primitives"), arch, str(texts)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PackError(f"primitives of {arch}: {done.stderr.strip()[-600:]}")


@dataclass
class Cases:
    """Whose kernels a pack has, compiled for an architecture."""

    arch: str
    environment: dict
    quick: bool = False  # the small ones


def compile_cases(build: Path, target: Path, models: Path, cases: Cases) -> None:
    """Compiles the kernels of all cases and of the schedules that a run tries, and packs them.

    The build folder keeps them, so the next pack compiles only those that have changed.
    """
    kept = build / KEPT
    kept.mkdir(exist_ok=True)
    start = kept / "started"
    start.touch()
    environment = {**cases.environment, "XDG_CACHE_HOME": str(kept)}
    bench = [target / "bin" / "reprise_gpubench", "--models", models, "--compile-only", cases.arch]
    for more in ([], ["--tune"]):
        command = [str(word) for word in [*bench, *more, *(["--quick"] if cases.quick else [])]]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            said = done.stderr.strip()[-600:]
            raise PackError(f"the cases do not compile for {cases.arch}: {said}")
    # An image that was found or made has a new time. Texts are for profilers; a run writes them again.
    for image in kept.rglob("*" + IMAGE):
        if image.stat().st_mtime >= start.stat().st_mtime:
            copy(image, target / CACHE / image.relative_to(kept))


def pack(
    root: Path,
    build: Path,
    target: Path,
    models: Path,
    limit: int,
    names: list[str],
    tests: tuple[str, ...] = TESTS,
    cases: Cases | None = None,
) -> dict:
    """Fills the folder, which must be new or empty, up to the limit. Sizes are in bytes."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise PackError(f"{target} is there already; name a new folder")
    needed_here = (*PROGRAMS, RECORDER) if cases else PROGRAMS
    missing = [name for name in needed_here if not (build / "bin" / name).is_file()]
    if missing:
        raise PackError(f"{build / 'bin'} has no {', '.join(missing)}: build them first")
    needed: set[Path] = set()
    for name in PROGRAMS:
        needed.update(pack_program(build / "bin" / name, target / "bin" / name))
    loader = vulkan_loader()
    for library in sorted(needed | ({loader} if loader else set())):
        copy_library(library, target / "lib" / library.name)
    for name in STAND_INS if tests else ():
        if (build / name).is_dir():
            copy(build / name, target / name)
    for name in SCRIPTS:
        copy(root / name, target / name)
    start = target / "gpu-check"
    start.write_text(
        '#!/usr/bin/env bash\nhere=$(cd "$(dirname "$0")" && pwd)\n'
        'for library in "$here"/lib/*.gz; do [ ! -f "$library" ] || gzip -d "$library" || exit 4; done\n'
        'exec "$here/tools/gpu-check" --build "$here" --models "$here/models" "$@"\n'
    )
    start.chmod(0o755)
    (target / "commit.json").write_text(json.dumps(facts.git_commit(root)) + "\n")
    if cases:
        compile_cases(build, target, models, cases)
        record_primitives(build, target, cases.arch, cases.environment)
    size = size_of(target)
    if size > limit:
        raise PackError(
            f"{target} is {mib(size)} without tests and models, more than the limit of {mib(limit)}: "
            "raise --pack-limit, or pack fewer compiled kernels (--quick, --pack-arch none)"
        )
    # In the order of a check: models are measured before tests run.
    left_out = pack_models(models, target / "models", limit - size, names)
    left_out += pack_tests(build, target, limit - size_of(target), tests)
    return {"bytes": size_of(target), "left_out": left_out}
