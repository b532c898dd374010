"""What tests/platforms/samples needs besides the programs: inputs for them, and a comparison of results."""

import json
import math
import struct
import sys
import wave

RATE = 16000
PAUSES_AND_SPEECH = ((0.8, 1.8), (2.5, 3.4))


def write_sound(path):
    """Vowels: harmonics of a pitch, of which a mouth lets some pass."""
    samples, phase = [], 0.0
    for i in range(4 * RATE):
        time = i / RATE
        phase += 2 * math.pi * (120 + 20 * math.sin(6 * math.pi * time)) / RATE
        value = 0.0
        if any(begin <= time < end for begin, end in PAUSES_AND_SPEECH):
            for k in range(1, 30):
                off = (k * 120 - 500 - 200 * math.sin(5 * math.pi * time)) / 120
                value += 0.2 * math.sin(k * phase) / (1 + off * off)
        samples.append(int(12000 * max(-1.0, min(1.0, value))))
    with wave.open(path, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(struct.pack(f"<{len(samples)}h", *samples))


def write_array(path, rows, columns):
    shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    header = shape.ljust(117).encode() + b"\n"
    values = [0.1 * (i % 7) - 0.2 for i in range(rows * columns)]
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        out.write(struct.pack(f"<{len(values)}f", *values))


def types_of(path):
    """Pairs of a file's name and what it is, and the scores."""
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["files"]
    names = [(row["file"].replace("\\", "/").rsplit("/", 1)[-1], row["type"]) for row in rows]
    return names, [row["score"] for row in rows]


def numbers_of(path):
    """The words of a text that are no numbers, and the numbers."""
    words, numbers = [], []
    with open(path, encoding="utf-8") as file:
        for word in file.read().split():
            try:
                numbers.append(float(word))
            except ValueError:
                words.append(word)
    return words, numbers


def compare(found, expected, tolerance=1e-4):
    read = types_of if found.endswith(".json") else numbers_of
    (names, values), (expected_names, expected_values) = read(found), read(expected)
    if not values or names != expected_names or len(values) != len(expected_values):
        sys.exit(f"{found} has {names}, {len(values)} values; expected {expected_names}, {len(expected_values)}")
    worst = max(abs(a - b) for a, b in zip(values, expected_values))
    if not worst <= tolerance:
        sys.exit(f"{found} differs from {expected} by {worst}")
    return worst, len(values)


def main():
    if sys.argv[1] == "inputs":
        folder = sys.argv[2]
        write_sound(f"{folder}/voice.wav")
        write_array(f"{folder}/x.npy", 5, 3)
        write_array(f"{folder}/y.npy", 5, 1)
    else:
        worst, count = compare(*sys.argv[2:])
        print(f"{count} values, largest difference {worst:.2g}")


main()
