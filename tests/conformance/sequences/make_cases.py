#!/usr/bin/env python3
"""Writes the cases of this folder: sequences, optionals and maps, and what ONNX Runtime makes of them.

Run it with a Python that has onnx and onnxruntime 1.32. The tests read cases.tar.xz, which it wrote, so it
only runs when a case changes.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import archived, run_model

CASES = Path(__file__).resolve().parent / "cases"
ONNX_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
    "object": TensorProto.STRING,
}


def tensor_type(dtype: str = "float32", shape: Sequence[int | str | None] | None = None) -> TypeProto:
    return helper.make_tensor_type_proto(ONNX_TYPES[dtype], shape)


def sequence(item: TypeProto) -> TypeProto:
    return helper.make_sequence_type_proto(item)


def optional(item: TypeProto) -> TypeProto:
    return helper.make_optional_type_proto(item)


def mapping(key: str, value: TypeProto) -> TypeProto:
    return helper.make_map_type_proto(ONNX_TYPES[key], value)


def floats(*dims: int) -> np.ndarray:
    count = int(np.prod(dims))
    return (np.arange(count) * 0.37 % 2 - 0.9).reshape(dims).astype(np.float32)


def words(*texts: str) -> np.ndarray:
    return np.array(texts, dtype=object)


def value_proto(value: Any, of: TypeProto, name: str) -> Any:
    """A value in the message that its type has in files."""
    kind = of.WhichOneof("value")
    if kind == "tensor_type":
        return numpy_helper.from_array(np.asarray(value), name)
    if kind == "map_type":
        proto = onnx.MapProto(name=name, key_type=of.map_type.key_type)
        proto.values.elem_type = onnx.SequenceProto.TENSOR
        dtype = helper.tensor_dtype_to_np_dtype(of.map_type.value_type.tensor_type.elem_type)
        for key, v in value.items():
            if isinstance(key, str):
                proto.string_keys.append(key.encode())
            else:
                proto.keys.append(key)
            proto.values.tensor_values.append(numpy_helper.from_array(np.asarray(v, dtype)))
        return proto
    if kind == "optional_type":
        proto = onnx.OptionalProto(name=name)
        inner = of.optional_type.elem_type
        if inner.HasField("sequence_type"):
            proto.elem_type = onnx.OptionalProto.SEQUENCE
            if value is not None:
                proto.sequence_value.CopyFrom(value_proto(value, inner, ""))
        else:
            proto.elem_type = onnx.OptionalProto.TENSOR
            if value is not None:
                proto.tensor_value.CopyFrom(value_proto(value, inner, ""))
        return proto
    inner = of.sequence_type.elem_type
    proto = onnx.SequenceProto(name=name)
    if inner.HasField("map_type"):
        proto.elem_type = onnx.SequenceProto.MAP
        proto.map_values.extend(value_proto(v, inner, "") for v in value)
    else:
        proto.elem_type = onnx.SequenceProto.TENSOR
        proto.tensor_values.extend(value_proto(v, inner, "") for v in value)
    return proto


def write(
    name: str,
    nodes: list[onnx.NodeProto],
    inputs: list[tuple[str, TypeProto, Any]],
    outputs: list[tuple[str, TypeProto]],
    constants: dict[str, np.ndarray] | None = None,
    expected: list[Any] | None = None,
) -> None:
    """`expected` is for what ONNX Runtime lacks: it is the definition, written out in Python."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_value_info(n, t) for n, t, _ in inputs],
        [helper.make_value_info(n, t) for n, t in outputs],
        [numpy_helper.from_array(v, n) for n, v in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    if expected is None:
        expected = run_model(model, {n: v for n, _, v in inputs})
    folder = CASES / name
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for kind, values in (
        ("input", [(n, t, v) for n, t, v in inputs]),
        ("output", [(n, t, v) for (n, t), v in zip(outputs, expected, strict=True)]),
    ):
        for i, (n, t, v) in enumerate(values):
            (data / f"{kind}_{i}.pb").write_bytes(value_proto(v, t, n).SerializeToString())
    print(name)


def node(op: str, ins: list[str], outs: list[str], **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, ins, outs, name=f"{op}_{outs[0]}", **attrs)


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def built_sequences() -> None:
    """Sequences that the compiler takes apart."""
    x, y = floats(2, 3), floats(4, 3) * 2
    nodes = [
        node("SequenceConstruct", ["x", "y", "x"], ["s"]),
        node("SequenceAt", ["s", "minus_two"], ["second"]),
        node("SequenceErase", ["s", "zero"], ["rest"]),
        node("SequenceInsert", ["rest", "x", "one"], ["t"]),
        node("ConcatFromSequence", ["t"], ["all"], axis=0),
        node("SequenceLength", ["t"], ["n"]),
        node("Relu", ["second"], ["positive"]),
    ]
    row = tensor_type("float32", ["rows", 3])
    write(
        "built",
        nodes,
        [("x", tensor_type("float32", ["n", 3]), x), ("y", tensor_type("float32", ["m", 3]), y)],
        [("positive", row), ("all", row), ("n", tensor_type("int64", [])), ("t", sequence(row))],
        {"minus_two": number(-2), "zero": number(0), "one": number(1)},
    )
    nodes = [
        node("SplitToSequence", ["x", "two"], ["s"], axis=1),
        node("SequenceAt", ["s", "last"], ["tail"]),
        node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
        node("ConcatFromSequence", ["rows"], ["stacked"], axis=-1, new_axis=1),
        node("SplitToSequence", ["x", "parts"], ["pieces"], axis=-1),
    ]
    write(
        "split",
        nodes,
        [("x", tensor_type("float32", [3, 5]), floats(3, 5))],
        [
            ("tail", tensor_type("float32", [3, 1])),
            ("stacked", tensor_type("float32", [5, 3])),
            ("pieces", sequence(tensor_type("float32", [3, None]))),
        ],
        {"two": number(2), "last": number(-1), "parts": np.array([1, 0, 4], np.int64)},
    )


def given_sequences() -> None:
    """Sequences that only a run knows."""
    parts = [floats(2, 3), floats(1, 3), floats(3, 3) + 1]
    item = tensor_type("float32", [None, 3])
    nodes = [
        node("SequenceLength", ["s"], ["n"]),
        node("SequenceAt", ["s", "i"], ["one"]),
        node("Relu", ["one"], ["positive"]),
        node("SequenceErase", ["s"], ["shorter"]),
        node("SequenceInsert", ["shorter", "positive", "i"], ["t"]),
        node("ConcatFromSequence", ["t"], ["all"], axis=0),
    ]
    row = tensor_type("float32", [None, 3])
    write(
        "given",
        nodes,
        [("s", sequence(item), parts), ("i", tensor_type("int64", []), number(-2))],
        [("n", tensor_type("int64", [])), ("positive", row), ("t", sequence(row)), ("all", row)],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"], dtype=TensorProto.STRING),
        node("SequenceInsert", ["none", "x"], ["one"]),
        node("SequenceInsert", ["one", "y", "zero"], ["both"]),
        node("ConcatFromSequence", ["both"], ["all"], axis=0),
        node("SequenceLength", ["none"], ["n"]),
    ]
    text = tensor_type("object", [None])
    write(
        "strings",
        nodes,
        [("x", text, words("a", "", "é")), ("y", text, words("b c"))],
        [("none", sequence(text)), ("both", sequence(text)), ("all", text), ("n", tensor_type("int64", []))],
        {"zero": number(0)},
    )
    write(
        "empty",
        [node("Identity", ["s"], ["t"]), node("SequenceLength", ["s"], ["n"])],
        [("s", sequence(tensor_type("int32", [None])), [])],
        [("t", sequence(tensor_type("int32", [None]))), ("n", tensor_type("int64", []))],
        expected=[[], number(0)],
    )


def loop_body(nodes: list[onnx.NodeProto], item: TypeProto, stacked: list[str]) -> onnx.GraphProto:
    return helper.make_graph(
        [*nodes, node("Identity", ["going"], ["again"])],
        "body",
        [
            helper.make_value_info("i", tensor_type("int64", [])),
            helper.make_value_info("going", tensor_type("bool", [])),
            helper.make_value_info("before", sequence(item)),
        ],
        [
            helper.make_value_info("again", tensor_type("bool", [])),
            helper.make_value_info("after", sequence(item)),
            *[helper.make_value_info(n, tensor_type("float32", None)) for n in stacked],
        ],
    )


def control_flow() -> None:
    """Sequences that bodies take, return, capture and pass on."""
    item = tensor_type("float32", [None, 3])
    body = loop_body(
        [
            node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            node("Add", ["x", "f"], ["moved"]),
            node("SequenceInsert", ["before", "moved"], ["after"]),
            node("ReduceSum", ["moved"], ["sum"], keepdims=0),
        ],
        item,
        ["sum"],
    )
    for name, constant in (("loop", False), ("loop_of_known_length", True)):
        nodes = [
            node("SequenceEmpty", [], ["none"]),
            node("Loop", ["n", "", "none"], ["s", "sums"], body=body),
            node("ConcatFromSequence", ["s"], ["all"], axis=0),
        ]
        given = [("x", tensor_type("float32", ["rows", 3]), floats(2, 3))]
        if not constant:
            given.append(("n", tensor_type("int64", []), number(4)))
        write(
            name,
            nodes,
            given,
            [
                ("s", sequence(item)),
                ("sums", tensor_type("float32", [None])),
                ("all", tensor_type("float32", [None, 3])),
            ],
            {"n": number(4)} if constant else None,
        )
    body = loop_body(
        [
            node("SequenceAt", ["parts", "i"], ["part"]),
            node("MatMul", ["part", "w"], ["product"]),
            node("SequenceInsert", ["before", "product", "front"], ["after"]),
        ],
        item,
        [],
    )
    write(
        "loop_over_elements",
        [
            node("SequenceLength", ["parts"], ["n"]),
            node("SequenceEmpty", [], ["none"]),
            node("Loop", ["n", "", "none"], ["s"], body=body),
        ],
        [
            ("parts", sequence(item), [floats(2, 3), floats(1, 3), floats(4, 3)]),
            ("w", tensor_type("float32", [3, 3]), floats(3, 3)),
        ],
        [("s", sequence(item))],
        {"front": number(0)},
    )
    branches = {}
    for label, op in (("then_branch", "SequenceErase"), ("else_branch", "SequenceInsert")):
        ins = ["s", "zero"] if op == "SequenceErase" else ["s", "x"]
        branches[label] = helper.make_graph(
            [node(op, ins, ["r"])], label, [], [helper.make_value_info("r", sequence(item))]
        )
    for taken in (True, False):
        write(
            f"if_{str(taken).lower()}",
            [node("If", ["c"], ["t"], **branches), node("SequenceLength", ["t"], ["n"])],
            [
                ("c", tensor_type("bool", []), np.array(taken)),
                ("s", sequence(item), [floats(2, 3), floats(1, 3)]),
                ("x", tensor_type("float32", [1, 3]), floats(1, 3) + 5),
            ],
            [("t", sequence(item)), ("n", tensor_type("int64", []))],
            {"zero": number(0)},
        )


def map_bodies() -> None:
    """SequenceMap, over sequences of unknown and of known length."""
    item = tensor_type("float32", [None, 3])
    body = helper.make_graph(
        [node("Add", ["a", "b"], ["sum"]), node("Shape", ["sum"], ["dims"])],
        "body",
        [helper.make_value_info("a", item), helper.make_value_info("b", tensor_type("float32", [3]))],
        [
            helper.make_value_info("sum", item),
            helper.make_value_info("dims", tensor_type("int64", [2])),
        ],
    )
    results = [("t", sequence(item)), ("d", sequence(tensor_type("int64", [2])))]
    offset = ("b", tensor_type("float32", [3]), np.array([1, 2, 3], np.float32))
    parts = [floats(2, 3), floats(1, 3)]
    sums = [p + offset[2] for p in parts]
    shapes = [np.array(p.shape, np.int64) for p in parts]
    write(
        "map",
        [node("SequenceMap", ["s", "b"], ["t", "d"], body=body)],
        [("s", sequence(item), parts), offset],
        results,
        expected=[sums, shapes],
    )
    write(
        "map_of_known_length",
        [
            node("SequenceConstruct", ["x", "y"], ["s"]),
            node("SequenceMap", ["s", "b"], ["t", "d"], body=body),
        ],
        [("x", item, parts[0]), ("y", item, parts[1]), offset],
        results,
        expected=[sums, shapes],
    )


def optionals() -> None:
    item = tensor_type("float32", [None, 2])
    listed = sequence(item)
    for name, value in (("some", floats(3, 2)), ("none", None)):
        nodes = [
            node("OptionalHasElement", ["o"], ["has"]),
            node(
                "If",
                ["has"],
                ["y"],
                then_branch=helper.make_graph(
                    [node("OptionalGetElement", ["o"], ["got"]), node("Neg", ["got"], ["r"])],
                    "then",
                    [],
                    [helper.make_value_info("r", item)],
                ),
                else_branch=helper.make_graph(
                    [node("Identity", ["x"], ["r"])], "else", [], [helper.make_value_info("r", item)]
                ),
            ),
        ]
        x = floats(1, 2)
        expected = [np.array(value is not None), x if value is None else -value]
        write(
            f"optional_{name}",
            nodes,
            [("o", optional(item), value), ("x", item, x)],
            [("has", tensor_type("bool", [])), ("y", item)],
            expected=expected,
        )
    for name, items in (("some", [floats(3, 2), floats(1, 2)]), ("none", None)):
        write(
            f"optional_sequence_{name}",
            [node("Identity", ["o"], ["p"]), node("OptionalHasElement", ["o"], ["has"])],
            [("o", optional(listed), items)],
            [("p", optional(listed)), ("has", tensor_type("bool", []))],
            expected=[items, np.array(items is not None)],
        )
    write(
        "optional_made",
        [
            node("SequenceConstruct", ["x", "x"], ["s"]),
            node("Optional", ["s"], ["o"]),
            node("OptionalGetElement", ["o"], ["t"]),
            node("SequenceAt", ["t", "one"], ["y"]),
            node("Optional", [], ["nothing"], type=item),
        ],
        [("x", item, floats(2, 2))],
        [("o", optional(listed)), ("y", item), ("nothing", optional(item))],
        {"one": number(1)},
        expected=[[floats(2, 2)] * 2, floats(2, 2), None],
    )


def maps() -> None:
    """ZipMap as converters of scikit-learn write it, and what takes maps."""
    scores = np.abs(floats(3, 2))
    for name, labels in (("strings", ["no", "yes"]), ("integers", [4, 7])):
        text = isinstance(labels[0], str)
        attribute = "classlabels_strings" if text else "classlabels_int64s"
        key = "object" if text else "int64"
        result = sequence(mapping(key, tensor_type("float32", None)))
        rows = [dict(zip(labels, row.tolist(), strict=True)) for row in scores]
        write(
            f"zip_map_{name}",
            [node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **{attribute: labels})],
            [("x", tensor_type("float32", ["n", 2]), scores)],
            [("y", result)],
            expected=[rows],
        )
    weights = {
        "coefficients": [0.5, -1.0, 2.0, -0.5, 1.0, -2.0],
        "intercepts": [0.25, -0.25],
        "classlabels_ints": [0, 1],
        "post_transform": "LOGISTIC",
    }
    x = floats(4, 3)
    write(
        "classifier",
        [
            node("LinearClassifier", ["x"], ["label", "raw"], domain="ai.onnx.ml", **weights),
            node("Normalizer", ["raw"], ["scores"], domain="ai.onnx.ml", norm="L1"),
            node("ZipMap", ["scores"], ["zipped"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
        ],
        [("x", tensor_type("float32", ["n", 3]), x)],
        [
            ("label", tensor_type("int64", ["n"])),
            ("zipped", sequence(mapping("int64", tensor_type("float32", None)))),
        ],
    )
    cases = (
        ("strings", "object", "string_vocabulary", ["b", "z", "a"], {"a": 1.5, "b": -2.0}),
        ("integers", "int64", "int64_vocabulary", [5, 2, 9], {2: 3.5, 9: 4.0, 1: 8.0}),
    )
    for name, key, attribute, vocabulary, value in cases:
        write(
            f"dict_vectorizer_{name}",
            [node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", **{attribute: vocabulary})],
            [("m", mapping(key, tensor_type("float32", None)), value)],
            [("y", tensor_type("float32", [1, 3]))],
        )
    entries = {3: 2.5, 0: 1.0, 1: -4.0}
    source = mapping("int64", tensor_type("float32", None))
    forms = (
        ("dense", {"cast_to": "TO_FLOAT", "map_form": "DENSE"}, "float32"),
        ("sparse", {"cast_to": "TO_FLOAT", "map_form": "SPARSE", "max_map": 6}, "float32"),
        ("integers", {"cast_to": "TO_INT64", "map_form": "DENSE"}, "int64"),
    )
    for name, attrs, dtype in forms:
        write(
            f"cast_map_{name}",
            [node("CastMap", ["m"], ["y"], domain="ai.onnx.ml", **attrs)],
            [("m", source, entries)],
            [("y", tensor_type(dtype, [1, None]))],
        )


def main() -> None:
    with archived(CASES):
        built_sequences()
        given_sequences()
        control_flow()
        map_bodies()
        optionals()
        maps()


if __name__ == "__main__":
    main()
