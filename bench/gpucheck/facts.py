"""The facts about the machine that a result records."""

import ctypes
import datetime
import glob
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

QUERY = (
    "name",
    "uuid",
    "driver_version",
    "compute_cap",
    "memory.total",
    "power.limit",
    "clocks.max.sm",
    "clocks.max.memory",
)
CLOCKS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", "pstate")


def nvidia_smi(ordinal: str, keys: tuple[str, ...]) -> dict:
    """Facts from nvidia-smi; only the reason under 'error' if it does not answer."""
    command = ["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader", "-i", ordinal]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": f"nvidia-smi: {error}"}
    values = [value.strip() for value in done.stdout.strip().split(",")]
    if done.returncode != 0 or len(values) != len(keys):
        return {"error": f"nvidia-smi: {(done.stderr or done.stdout).strip()}"}
    return dict(zip(keys, values))


def nvrtc_version(path: str) -> str:
    """The version, such as '13.0', or why there is none."""
    for name in filter(None, (path, "libnvrtc.so.13", "libnvrtc.so.12", *_toolkit_nvrtc())):
        try:
            library = ctypes.CDLL(name)
            major, minor = ctypes.c_int(), ctypes.c_int()
            if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
                return f"{major.value}.{minor.value}"
        except (OSError, AttributeError):
            continue
    return "missing"


def driver_major() -> int | None:
    """12 for a driver for CUDA 12.4."""
    version = ctypes.c_int()
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000


def fitting_nvrtc(paths: list[str], driver: int | None) -> str:
    """The newest library that the driver supports, or else the oldest one."""
    by_major = sorted(paths, key=lambda path: int(path.rpartition(".")[2]))
    fitting = [p for p in by_major if driver is None or int(p.rpartition(".")[2]) <= driver]
    return fitting[-1] if fitting else by_major[0]


def _toolkit_nvrtc() -> list[str]:
    return sorted(glob.glob("/usr/local/cuda*/lib64/libnvrtc.so.1[23]"), reverse=True)


def vendor_folders() -> list[str]:
    """Where pip puts NVIDIA's libraries for this Python, usually beside torch."""
    found = []
    for folder in sys.path:
        found += glob.glob(os.path.join(folder, "nvidia", "*", "lib"))
    return sorted(set(found))


def commit(root: Path, build: Path) -> dict:
    """The commit of the sources that were built, from the packed folder or from git."""
    packed = build / "commit.json"
    if packed.is_file():
        return json.loads(packed.read_text(encoding="utf-8"))
    return git_commit(root)


def git_commit(root: Path) -> dict:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        return {"commit": git("rev-parse", "HEAD") or "unknown", "changed": bool(git("status", "-s"))}
    except OSError:
        return {"commit": "unknown", "changed": False}


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def devices(reprise: Path, environment: dict) -> list[dict]:
    """The list of `reprise devices`; one entry with the reason if it fails."""
    try:
        done = subprocess.run(
            [str(reprise), "devices", "--json", "-"],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
        )
        listed = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return [{"id": "none", "usable": False, "reason": f"reprise devices: {error}"}]
    return listed if isinstance(listed, list) else listed.get("devices", [])


def ordinal_of(device: str) -> str:
    """'1' for cuda:1, '0' for cuda."""
    return device.partition(":")[2] or "0"


def collect(root: Path, build: Path, device: str, environment: dict) -> dict:
    ordinal = ordinal_of(device)
    listed = devices(build / "bin" / "reprise", environment)
    ours = next((d for d in listed if d.get("id") == f"cuda:{ordinal}"), {})
    smi = nvidia_smi(ordinal, QUERY)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": ours.get("name") or smi.get("name") or "gpu",
        "gpu": smi,
        "clocks_before": nvidia_smi(ordinal, CLOCKS),
        "nvrtc": nvrtc_version(environment.get("REPRISE_NVRTC", "")),
        "devices": listed,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        **commit(root, build),
    }


def architecture(collected: dict) -> str:
    """The target of the device's own code: "sm_90a" of a Hopper."""
    number = collected["gpu"].get("compute_cap", "9.0").replace(".", "")
    return f"sm_{number}" + ("a" if number == "90" else "")


def same_gpu(listed: list[dict], ordinal: str) -> str | None:
    """The Vulkan device of NVIDIA's GPU, if its driver is installed."""
    cuda = next((d for d in listed if d.get("id") == f"cuda:{ordinal}"), None)
    for d in listed:
        vulkan = str(d.get("id", "")).startswith("vulkan:") and d.get("usable")
        if cuda and vulkan and d.get("name") == cuda.get("name"):
            return d["id"]
    return None
