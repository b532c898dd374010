#!/usr/bin/env python3
"""Writes the cases of this folder: operators that run on the host, as ONNX Runtime computes them.

Run it with a Python that has onnx and onnxruntime. The tests read cases.tar.xz, which it wrote, so it
only runs when a case changes.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import archived, write_case

CASES = Path(__file__).resolve().parent / "cases"
TYPES = {
    "float32": TensorProto.FLOAT,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "object": TensorProto.STRING,
}


def write(
    name: str,
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    outputs: Sequence[int],
    **attrs: Any,
) -> None:
    """`inputs` may be omitted with None; `outputs` are the element types."""
    given = {n: x for n, x in inputs.items() if x is not None}
    outs = [f"y{i}" for i in range(len(outputs))]
    opset = attrs.pop("opset", 14)
    names = [n if x is not None else "" for n, x in inputs.items()]
    node = helper.make_node(op, names, outs, name=op, **attrs)
    graph = helper.make_graph(
        [node],
        name,
        [helper.make_tensor_value_info(n, TYPES[str(x.dtype)], x.shape) for n, x in given.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(outs, outputs, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    write_case(CASES / name, model, given)


def floats(*dims: int) -> np.ndarray:
    count = int(np.prod(dims))
    return (np.arange(count) * 0.37 % 2 - 0.9).reshape(dims).astype(np.float32)


def strings(*values: str) -> np.ndarray:
    return np.array(values, dtype=object)


def recurrent_cases() -> None:
    """Functions that take parameters stand behind those that take none, in both directions."""
    f = TensorProto.FLOAT
    steps, batch, width, hidden = 3, 2, 2, 3
    functions = {
        "GRU": ["Sigmoid", "LeakyRelu", "HardSigmoid", "ScaledTanh"],
        "LSTM": ["Sigmoid", "ScaledTanh", "Relu", "Tanh", "Affine", "Elu"],
    }
    for op, gates in (("GRU", 3), ("LSTM", 4)):
        tensors: dict[str, np.ndarray | None] = {
            "X": floats(steps, batch, width),
            "W": floats(2, gates * hidden, width),
            "R": floats(2, gates * hidden, hidden) * np.float32(0.5),
            "B": floats(2, 2 * gates * hidden),
            "lengths": np.array([3, 2], np.int32),
            "h": floats(2, batch, hidden),
        }
        outputs = [f, f]
        if op == "LSTM":
            tensors["c"] = floats(2, batch, hidden)
            tensors["P"] = floats(2, 3 * hidden)
            outputs.append(f)
        shared: dict[str, Any] = {"hidden_size": hidden, "direction": "bidirectional"}
        write(f"{op.lower()}_default_functions", op, tensors, outputs, **shared)
        write(
            f"{op.lower()}_functions_with_parameters",
            op,
            tensors,
            outputs,
            activations=functions[op],
            activation_alpha=[0.3, 0.4, 0.7],
            activation_beta=[0.6, 0.2],
            **shared,
        )
        write(
            f"{op.lower()}_functions_in_other_case",
            op,
            tensors,
            outputs,
            activations=[n.upper() for n in functions[op][:-1]] + [functions[op][-1].lower()],
            activation_alpha=[0.3, 0.4, 0.7],
            activation_beta=[0.6, 0.2],
            clip=0.5,
            **shared,
        )


def string_cases() -> None:
    s, i64, b, f = TensorProto.STRING, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT
    words = strings("Monday", "tuesday", "MONDAY", "", "\u00c9t\u00e9")
    for action in ("NONE", "LOWER", "UPPER"):
        for sensitive in (0, 1):
            write(
                f"string_normalizer_{action.lower()}_{sensitive}",
                "StringNormalizer",
                {"x": words[:4]},
                [s],
                case_change_action=action,
                is_case_sensitive=sensitive,
                stopwords=["monday", "tuesday"],
                locale="C",
                opset=10,
            )
    write(
        "string_normalizer_of_nothing",
        "StringNormalizer",
        {"x": words[:1].reshape(1, 1)},
        [s],
        is_case_sensitive=1,
        stopwords=["Monday"],
        locale="C",
        opset=10,
    )
    write("string_concat", "StringConcat", {"x": words, "y": strings("-")}, [s], opset=20)
    splits: list[tuple[str, dict[str, Any]]] = [
        ("whitespace", {}),
        ("whitespace_twice", {"maxsplit": 2}),
        ("commas", {"delimiter": ","}),
        ("dashes_once", {"delimiter": "--", "maxsplit": 1}),
    ]
    for name, attrs in splits:
        text = strings("a  b c ", "  a", ",a,,b,", "--a----b", "x")
        write(f"string_split_{name}", "StringSplit", {"x": text}, [s, i64], opset=20, **attrs)
    patterns = {
        "class": "[a-c]+x?",
        "alternatives": "(ab|a)(c|bcd)?|",
        "counts": "(?:a|b){2,3}",
        "flags": "(?i)AB.(?s:.)?",
        "escapes": r"\d{2}\.\x41\bé?",
        "anchors": "^a*$",
    }
    text = strings("abcx", "", "ab", "aab", "abab", "ABc\n", "12.A", "aaa", "é", "abc\n")
    for name, pattern in patterns.items():
        write(
            f"regex_full_match_{name}",
            "RegexFullMatch",
            {"x": text},
            [b],
            pattern=pattern,
            opset=20,
        )
    grams: dict[str, Any] = {
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 1,
        "ngram_counts": [0, 2],
        "ngram_indexes": [1, 0, 2],
        "weights": [0.5, 2.0, 4.0],
    }
    for mode in ("TF", "IDF", "TFIDF"):
        write(
            f"tf_idf_vectorizer_{mode.lower()}",
            "TfIdfVectorizer",
            {"x": strings("a", "b", "a", "c", "b", "a").reshape(2, 3)},
            [f],
            mode=mode,
            pool_strings=["b", "a", "a", "c"],
            **grams,
        )
    write(
        "tf_idf_vectorizer_of_integers",
        "TfIdfVectorizer",
        {"x": np.array([1, 2, 1, 3], np.int32)},
        [f],
        mode="TF",
        pool_int64s=[2, 1, 1, 3],
        **grams,
    )


def main() -> None:
    with archived(CASES):
        recurrent_cases()
        string_cases()


if __name__ == "__main__":
    main()
