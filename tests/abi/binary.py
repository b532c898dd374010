"""Compares a library with the headers of an earlier version, by libabigail:
`binary.py ABIDIFF CXX OLD NEW LIBRARY HEADER...`.

A library of nothing but the functions that the HEADERs of the include folder OLD declare stands for the
earlier version. LIBRARY has debug information of the same functions, and NEW are its headers. New
functions, and new members at the end of a struct, are no difference; layout.py checks those structs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import layout


def build_earlier(cxx: str, old: Path, headers: list[str], library: Path) -> None:
    version = layout.parse(old).macros["REPRISE_ABI_VERSION"]
    lines = [f'#include "reprise/{h}"' for h in headers] + ['extern "C" {']
    declarations = layout.parse(old, headers).functions.values()
    lines += [f"{d} {{ __builtin_trap(); }}" for d in declarations] + ["}"]
    source, exports = library.with_suffix(".cpp"), library.with_suffix(".map")
    source.write_text("\n".join(lines), encoding="utf-8")
    exports.write_text(
        f"REPRISE_{version} {{ global: reprise_*; local: *; }};", encoding="utf-8"
    )
    command = [cxx, "-std=c++20", "-g", "-O0", "-fPIC", "-shared", f"-I{old}"]
    command += [f"-Wl,--version-script={exports}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)


def suppressions(old: Path, new: Path) -> str:
    """For structs that have new members alone, because abidiff suppresses more than these."""
    before, now = layout.parse(old).structs, layout.parse(new).structs
    grown = [s for s, members in before.items() if set(now.get(s, [])) - set(members)]
    return "".join(
        f"[suppress_type]\n  name = {s}\n  has_data_member_inserted_at = end\n"
        for s in grown
    )


def main() -> int:
    abidiff, cxx, old, new, library, *headers = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        earlier = Path(scratch, "earlier.so")
        build_earlier(cxx, Path(old), headers, earlier)
        accepted = Path(scratch, "accepted")
        accepted.write_text(suppressions(Path(old), Path(new)), encoding="utf-8")
        options = ["--no-added-syms", "--fail-no-debug-info", "--suppressions"]
        command = [abidiff, *options, str(accepted), str(earlier), library]
        status = subprocess.run(command, check=False).returncode
    if status == 0:
        count = len(layout.parse(Path(old), headers).functions)
        print(f"{Path(library).name}: {count} functions are as they were")
    return status


if __name__ == "__main__":
    sys.exit(main())
