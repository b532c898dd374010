"""Compares the C interface of today with that of an earlier version: `layout.py CC OLD NEW`.

OLD and NEW are include folders. Every constant, function and struct member of OLD must be in NEW, with
the same value, declaration, offset and size. New members may only follow those of OLD. The tables of
functions of NEW must have all functions of their libraries.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HEADERS = ("types.h", "device.h", "session.h", "graph.h", "compiler.h", "functions.h")
# Tables of functions, with the headers whose functions they have.
TABLES = {
    "reprise_functions": ("types.h", "device.h", "session.h"),
    "reprise_compiler_functions": ("compiler.h", "graph.h"),
}


@dataclass
class Interface:
    structs: dict[str, list[str]] = field(default_factory=dict)  # members in order
    constants: list[str] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)  # declarations
    types: dict[str, str] = field(
        default_factory=dict
    )  # of members, as they are declared
    macros: dict[str, str] = field(default_factory=dict)
    layout: dict[str, tuple[int, int]] = field(default_factory=dict)  # offset, size
    values: dict[str, int] = field(default_factory=dict)


def members_of(body: str) -> dict[str, str]:
    """The members of a struct with their declarations."""
    names = {}
    for declaration in body.split(";"):
        text = declaration.strip()
        if not text:
            continue
        pointer = re.search(r"\(\*(\w+)\)", text)
        if pointer:
            names[pointer[1]] = " ".join(text.split())
            continue
        for part in text.split(","):
            name = re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", part)
            if name is None:
                raise SystemExit(f"a member has an unknown form: {text}")
            names[name[1]] = " ".join(text.split(",")[0].split()[:-1])
    return names


def headers_of(folder: Path) -> list[str]:
    """Returns the headers that an include folder has; versions may add some."""
    return [h for h in HEADERS if (folder / "reprise" / h).exists()]


def parse(folder: Path, headers: Sequence[str] | None = None) -> Interface:
    out = Interface()
    for header in headers_of(folder) if headers is None else headers:
        text = (folder / "reprise" / header).read_text(encoding="utf-8")
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for body, name in re.findall(
            r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.DOTALL
        ):
            members = members_of(body)
            out.structs[name] = list(members)
            out.types |= {f"{name}.{m}": t for m, t in members.items()}
        for body in re.findall(r"typedef enum \w+ \{(.*?)\} \w+;", text, re.DOTALL):
            out.constants += re.findall(r"(REPRISE_\w+) =", body)
        folded = text.replace("\\\n", " ")
        for name, value in re.findall(
            r"^#define (REPRISE_\w+) (.*)$", folded, re.MULTILINE
        ):
            out.macros[name] = " ".join(value.split())
        for declaration in re.findall(
            r"^REPRISE_API (.*?);", text, re.DOTALL | re.MULTILINE
        ):
            line = " ".join(declaration.split())
            name = re.search(r"(\w+)\(", line)
            assert name is not None
            out.functions[name[1]] = line
    return out


def measure(cc: str, folder: Path, interface: Interface) -> None:
    lines = [f'#include "reprise/{h}"' for h in headers_of(folder)]
    lines += ["#include <stdio.h>", "int main(void) {"]
    for struct, members in interface.structs.items():
        lines.append(f'printf("size {struct} 0 %zu\\n", sizeof({struct}));')
        lines += [
            f'printf("size {struct}.{m} %zu %zu\\n", offsetof({struct}, {m}), '
            f"sizeof((({struct}*)0)->{m}));"
            for m in members
        ]
    lines += [f'printf("value {c} %d\\n", (int){c});' for c in interface.constants]
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as scratch:
        source, program = Path(scratch, "layout.c"), Path(scratch, "layout")
        source.write_text("\n".join(lines), encoding="utf-8")
        subprocess.run(
            [cc, "-std=c99", f"-I{folder}", str(source), "-o", str(program)], check=True
        )
        printed = subprocess.run(
            [str(program)], check=True, capture_output=True, text=True
        ).stdout
    for line in printed.splitlines():
        kind, name, *numbers = line.split()
        if kind == "size":
            interface.layout[name] = (int(numbers[0]), int(numbers[1]))
        else:
            interface.values[name] = int(numbers[0])


def differences(old: Interface, new: Interface) -> list[str]:
    found = [
        f"{name} was {value} and is {new.values.get(name, 'gone')}"
        for name, value in old.values.items()
        if new.values.get(name) != value
    ]
    found += [
        f"{name} was '{declaration}' and is '{new.functions.get(name, 'gone')}'"
        for name, declaration in old.functions.items()
        if new.functions.get(name) != declaration
    ]
    found += [
        f"{name} was of type '{kind}' and is '{new.types.get(name, 'gone')}'"
        for name, kind in old.types.items()
        if new.types.get(name) != kind
    ]
    found += [
        f"the macro {name} was '{value}' and is '{new.macros.get(name, 'gone')}'"
        for name, value in old.macros.items()
        if new.macros.get(name) != value and not name.endswith("_INIT")
    ]
    for name, place in old.layout.items():
        now = new.layout.get(name)
        if "." in name and now != place:
            found.append(f"{name} was at (offset, size) {place} and is at {now}")
        elif now is None:
            found.append(f"{name} is gone")
    for struct, members in old.structs.items():
        end = old.layout[struct][1]
        found += [
            f"{struct}.{m} is new, but within the struct of the earlier version"
            for m in new.structs.get(struct, [])
            if m not in members and new.layout[f"{struct}.{m}"][0] < end
        ]
    return found


def left_out(interface: Interface, folder: Path) -> list[str]:
    found = []
    for table, headers in TABLES.items():
        names = parse(folder, headers).functions
        found += [
            f"{table} lacks {name}"
            for name in names
            if not name.startswith("reprise_get_")
            and name.removeprefix("reprise_") not in interface.structs[table]
        ]
    return found


def main() -> int:
    cc, *folders = sys.argv[1:]
    interfaces = []
    for folder in map(Path, folders):
        interface = parse(folder)
        if not (interface.structs and interface.constants and interface.functions):
            raise SystemExit(f"{folder}: nothing was found in its headers")
        measure(cc, folder, interface)
        interfaces.append(interface)
    old, new = interfaces
    found = differences(old, new) + left_out(new, Path(folders[1]))
    for line in found:
        print(line)
    print(
        f"{len(old.functions)} functions, {len(old.layout)} structs and members, "
        f"{len(old.values)} constants: {len(found)} differ"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
