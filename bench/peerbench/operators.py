"""Models that stress single operators; needs numpy, onnx and onnxruntime."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import onnx
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[numpy.generic]


@dataclass
class Model:
    """A graph in the making, with values for its inputs."""

    rng: numpy.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    inputs: dict[str, Array] = field(default_factory=dict)
    domains: dict[str, int] = field(default_factory=lambda: {"": 20})

    def random(self, *shape: int, scale: float = 1.0) -> Array:
        return (self.rng.standard_normal(shape) * scale).astype(numpy.float32)

    def input(self, name: str, value: Array) -> str:
        self.inputs[name] = value
        return name

    def weight(self, value: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"{op}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def proto(self, outputs: list[str]) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in self.inputs.items()
        ]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "case", inputs, results, self.weights)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def lstm(m: Model) -> list[str]:
    """Two layers of 256 units, 100 steps, batch 1."""
    x = m.input("x", m.random(100, 1, 256))
    for _ in range(2):
        w, r = (m.weight(m.random(1, 1024, 256, scale=1 / 16)) for _ in range(2))
        bias = m.weight(m.random(1, 2048, scale=0.1))
        y = m.node("LSTM", [x, w, r, bias], 1, hidden_size=256)[0]
        x = m.node("Squeeze", [y, m.weight(numpy.array([1]))])[0]
    return [x]


def gru_crnn(m: Model) -> list[str]:
    """A CRNN for lines of text: seven convolutions and two bidirectional GRUs of 256 units."""
    x, channels = m.input("image", m.random(1, 1, 32, 100)), 1
    pools = {0: (2, 2), 1: (2, 2), 3: (2, 1), 5: (2, 1)}
    for layer, width in enumerate((64, 128, 256, 256, 512, 512, 512)):
        size = 2 if layer == 6 else 3
        scale = (2 / (channels * size * size)) ** 0.5
        w = m.weight(m.random(width, channels, size, size, scale=scale))
        pads = [0] * 4 if layer == 6 else [1] * 4
        bias = m.weight(m.random(width, scale=0.1))
        x = m.node("Conv", [x, w, bias], pads=pads)[0]
        x = m.node("Relu", [x])[0]
        if layer in pools:
            strides = pools[layer]
            x = m.node("MaxPool", [x], kernel_shape=[2, strides[1]], strides=strides)[0]
        channels = width
    x = m.node("Squeeze", [x, m.weight(numpy.array([2]))])[0]
    x = m.node("Transpose", [x], perm=[2, 0, 1])[0]
    for _ in range(2):
        w = m.weight(m.random(2, 768, 512, scale=1 / 20))
        r = m.weight(m.random(2, 768, 256, scale=1 / 16))
        bias = m.weight(m.random(2, 1536, scale=0.1))
        attributes = {"hidden_size": 256, "direction": "bidirectional", "linear_before_reset": 1}
        y = m.node("GRU", [x, w, r, bias], 1, **attributes)[0]
        y = m.node("Transpose", [y], perm=[0, 2, 1, 3])[0]
        x = m.node("Reshape", [y, m.weight(numpy.array([0, 0, -1]))])[0]
    x = m.node("MatMul", [x, m.weight(m.random(512, 37, scale=1 / 20))])[0]
    return m.node("Softmax", [x], axis=-1)


def dft(points: int) -> Callable[[Model], list[str]]:
    def build(m: Model) -> list[str]:
        x = m.input("x", m.random(1, points, 1))
        return m.node("DFT", [x, "", m.weight(numpy.array(1))])

    build.__doc__ = f"A DFT of {points:,} real points."
    return build


def topk(m: Model) -> list[str]:
    """The 1,000 largest of 1,000,000 numbers."""
    x = m.input("x", m.random(1, 1_000_000))
    return m.node("TopK", [x, m.weight(numpy.array([1000]))], 2)


def nms(m: Model) -> list[str]:
    """8,400 boxes of one class, in clusters, as YOLO produces them."""
    centres = m.rng.uniform(40, 600, (120, 2)).repeat(70, axis=0) + m.rng.normal(0, 12, (8400, 2))
    sizes = m.rng.uniform(20, 160, (120, 2)).repeat(70, axis=0) * m.rng.uniform(0.8, 1.2, (8400, 2))
    boxes = numpy.concatenate([centres, sizes], 1).astype(numpy.float32)[None]
    scores = m.rng.uniform(0, 1, (1, 1, 8400)).astype(numpy.float32)
    limits: list[Array] = [numpy.array([300])]
    limits += [numpy.array([v], numpy.float32) for v in (0.45, 0.25)]
    names = [m.input("boxes", boxes), m.input("scores", scores), *map(m.weight, limits)]
    return m.node("NonMaxSuppression", names, center_point_box=1)


def forest(m: Model) -> list[str]:
    """A classifier of 500 trees of depth 10, 20 features, 3 classes, 1,000 rows."""
    trees, depth, features, classes = 500, 10, 20, 3
    inner, leaves = 2**depth - 1, 2**depth
    ids = numpy.arange(inner + leaves)
    is_leaf = ids >= inner
    split = m.rng.integers(0, features, (trees, inner + leaves))
    values = m.random(trees, inner + leaves)
    votes = m.rng.dirichlet(numpy.ones(classes), (trees, leaves)) / trees
    m.domains["ai.onnx.ml"] = 3
    m.nodes.append(
        helper.make_node(
            "TreeEnsembleClassifier",
            [m.input("x", m.random(1000, features))],
            ["label", "probabilities"],
            domain="ai.onnx.ml",
            nodes_treeids=numpy.arange(trees).repeat(ids.size),
            nodes_nodeids=numpy.tile(ids, trees),
            nodes_featureids=split.ravel(),
            nodes_values=values.ravel().tolist(),
            nodes_modes=["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf] * trees,
            nodes_truenodeids=numpy.tile(numpy.where(is_leaf, 0, 2 * ids + 1), trees),
            nodes_falsenodeids=numpy.tile(numpy.where(is_leaf, 0, 2 * ids + 2), trees),
            class_treeids=numpy.arange(trees).repeat(leaves * classes),
            class_nodeids=numpy.tile(ids[is_leaf].repeat(classes), trees),
            class_ids=numpy.tile(numpy.arange(classes), trees * leaves),
            class_weights=votes.ravel().tolist(),
            classlabels_int64s=range(classes),
            post_transform="NONE",
        )
    )
    return ["label", "probabilities"]


def gemv_int4(m: Model) -> list[str]:
    """A row times a 4096 x 4096 matrix of 4-bit weights in blocks of 32."""
    k = n = 4096
    packed = m.rng.integers(0, 256, (n, k // 32, 16), dtype=numpy.uint8)
    scales = m.rng.uniform(0.01, 0.02, n * k // 32).astype(numpy.float32)
    m.domains["com.microsoft"] = 1
    names = [m.input("x", m.random(1, k)), m.weight(packed), m.weight(scales)]
    attributes = {"K": k, "N": n, "bits": 4, "block_size": 32}
    return m.node("MatMulNBits", names, domain="com.microsoft", **attributes)


CASES: dict[str, Callable[[Model], list[str]]] = {
    "lstm": lstm,
    "gru_crnn": gru_crnn,
    "dft_65536": dft(65536),
    "dft_1000": dft(1000),
    "topk": topk,
    "nms": nms,
    "forest": forest,
    "gemv_int4": gemv_int4,
}


def write(name: str, folder: Path) -> None:
    """Writes a case in the layout of the ONNX backend suite."""
    m = Model(numpy.random.default_rng(zlib.crc32(name.encode())))
    proto = m.proto(CASES[name](m))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    results = session.run(None, m.inputs)
    for i, (key, value) in enumerate(m.inputs.items()):
        tensor = numpy_helper.from_array(value, key)
        (data / f"input_{i}.pb").write_bytes(tensor.SerializeToString())
    for i, (output, value) in enumerate(zip(session.get_outputs(), results)):
        tensor = numpy_helper.from_array(value, output.name)
        (data / f"output_{i}.pb").write_bytes(tensor.SerializeToString())
