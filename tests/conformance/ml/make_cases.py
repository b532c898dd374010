#!/usr/bin/env python3
"""Writes the cases of this folder: operators of ai.onnx.ml, and what ONNX Runtime makes of them.

Run it with a Python that has onnx and onnxruntime. The tests read cases.tar.xz, which it wrote, so it
only runs when a case changes. It needs ONNX Runtime 1.32: earlier ones do not see that weights of
one of two classes are probabilities.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import archived, write_case

CASES = Path(__file__).resolve().parent / "cases"
TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "object": TensorProto.STRING,
}


def write(name: str, op: str, inputs: list[np.ndarray], outputs: list[int], **attrs: Any) -> None:
    """`outputs` are the element types."""
    ins = [f"x{i}" for i in range(len(inputs))]
    outs = [f"y{i}" for i in range(len(outputs))]
    version = attrs.pop("version", 3)
    node = helper.make_node(op, ins, outs, name=op, domain="ai.onnx.ml", **attrs)
    graph = helper.make_graph(
        [node],
        name,
        [
            helper.make_tensor_value_info(n, TYPES[str(x.dtype)], x.shape)
            for n, x in zip(ins, inputs, strict=True)
        ],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(outs, outputs, strict=True)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    write_case(CASES / name, model, dict(zip(ins, inputs, strict=True)))


def floats(*dims: int) -> np.ndarray:
    count = int(np.prod(dims))
    return (np.arange(count) * 0.37 % 2 - 0.9).reshape(dims).astype(np.float32)


def trees(leaves: dict[str, list[Any]], prefix: str) -> dict[str, Any]:
    """Two trees of three and five nodes; `leaves` are the ids and weights of their leaves."""
    return {
        "nodes_treeids": [0, 0, 0, 1, 1, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 0, 1, 2, 0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "BRANCH_LT"] + ["LEAF"] * 3,
        "nodes_values": [0.1, 0.0, 0.0, -0.2, 0.3, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0, 1, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 2, 4, 0, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 1, 0, 0, 0],
        f"{prefix}_treeids": [0, 0, 1, 1, 1],
        f"{prefix}_nodeids": [1, 2, 2, 3, 4],
        f"{prefix}_ids": leaves["ids"],
        f"{prefix}_weights": leaves["weights"],
    }


def tree_cases() -> None:
    x = floats(9, 3)
    x[4, 0] = x[5, 2] = np.nan
    f, i64, s = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        leaves = {"ids": [0, 1, 0, 1, 0], "weights": [0.5, -1.0, 2.0, 0.25, 0.75]}
        write(
            f"tree_regressor_{aggregate.lower()}",
            "TreeEnsembleRegressor",
            [x],
            [f],
            n_targets=2,
            aggregate_function=aggregate,
            **trees(leaves, "target"),
        )
    write(
        "tree_regressor_with_base",
        "TreeEnsembleRegressor",
        [x],
        [f],
        n_targets=1,
        base_values=[0.5],
        **trees({"ids": [0] * 5, "weights": [0.5, -1.0, 2.0, 0.25, 0.75]}, "target"),
    )
    three = {"ids": [0, 1, 2, 1, 0], "weights": [0.5, 0.75, 1.5, 0.25, -0.75]}
    for post in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        write(
            f"tree_classifier_{post.lower()}",
            "TreeEnsembleClassifier",
            [x],
            [i64, f],
            classlabels_int64s=[10, 20, 30],
            post_transform=post,
            **trees(three, "class"),
        )
    signs = {"positive": [0.1, 0.5, 0.3, 0.2, 0.4], "mixed": [0.5, -0.75, 0.5, 0.25, -0.5]}
    for sign, post, only in itertools.product(signs, ("NONE", "LOGISTIC"), (0, 1)):
        write(
            f"tree_classifier_of_class_{only}_{sign}_{post.lower()}",
            "TreeEnsembleClassifier",
            [x],
            [s, f],
            classlabels_strings=["no", "yes"],
            post_transform=post,
            **trees({"ids": [only] * 5, "weights": signs[sign]}, "class"),
        )


def tie_cases() -> None:
    """Five trees of one split each, whose weights add up to 0.5 in float32 and not in double."""
    x = np.array([[-1.0], [1.0]], np.float32)
    f, i64 = TensorProto.FLOAT, TensorProto.INT64
    for kind, only, dtype in (("float32", 0, np.float32), ("float64", 0, np.float64)):
        leaves = [weight for _ in range(5) for weight in (0.1, 0.2)]
        write(
            f"tree_classifier_tie_{kind}",
            "TreeEnsembleClassifier",
            [x.astype(dtype)],
            [i64, f],
            classlabels_int64s=[10, 20],
            nodes_treeids=[t for t in range(5) for _ in range(3)],
            nodes_nodeids=[0, 1, 2] * 5,
            nodes_featureids=[0] * 15,
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 5,
            nodes_values=[0.0] * 15,
            nodes_truenodeids=[1, 0, 0] * 5,
            nodes_falsenodeids=[2, 0, 0] * 5,
            class_treeids=[t for t in range(5) for _ in range(2)],
            class_nodeids=[1, 2] * 5,
            class_ids=[only] * 10,
            class_weights=leaves,
        )


def svm_cases() -> None:
    f, i64, s = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
    x = floats(5, 3)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        shared: dict[str, Any] = {"kernel_type": kernel, "kernel_params": [0.5, 0.25, 3.0]}
        write(
            f"svm_regressor_{kernel.lower()}",
            "SVMRegressor",
            [x],
            [f],
            n_supports=4,
            support_vectors=[float(v) for v in floats(4, 3).ravel()[::-1]],
            coefficients=[0.5, -1.0, 0.75, 0.25],
            rho=[0.125],
            **shared,
        )
        for name, probabilities in (("scores", False), ("probabilities", True)):
            pairs: dict[str, Any] = {}
            if probabilities:
                pairs = {"prob_a": [-1.0, -0.5, -2.0], "prob_b": [0.1, -0.2, 0.3]}
            write(
                f"svm_classifier_{kernel.lower()}_{name}",
                "SVMClassifier",
                [x],
                [i64, f],
                classlabels_ints=[3, 5, 7],
                vectors_per_class=[2, 1, 2],
                support_vectors=[float(v) for v in floats(5, 3).ravel()[::-1]],
                coefficients=[0.5, -1.0, 0.75, 0.25, -0.5, 1.0, -0.25, 0.5, -0.75, 0.3],
                rho=[0.1, -0.2, 0.3],
                **shared,
                **pairs,
            )
    write(
        "svm_regressor_one_class",
        "SVMRegressor",
        [x],
        [f],
        coefficients=[0.5, -1.0, 0.75],
        rho=[0.1],
        kernel_params=[0.0, 0.0, 0.0],
        one_class=1,
    )
    for post in ("NONE", "LOGISTIC", "SOFTMAX"):
        write(
            f"svm_classifier_of_two_{post.lower()}",
            "SVMClassifier",
            [x],
            [s, f],
            classlabels_strings=["no", "yes"],
            vectors_per_class=[1, 2],
            support_vectors=[float(v) for v in floats(3, 3).ravel()[::-1]],
            coefficients=[0.5, -1.0, 0.75],
            rho=[0.1],
            kernel_params=[0.5, 0.0, 3.0],
            kernel_type="RBF",
            post_transform=post,
        )
        write(
            f"svm_classifier_linear_model_{post.lower()}",
            "SVMClassifier",
            [x],
            [i64, f],
            classlabels_ints=[3, 5, 7],
            coefficients=[0.5, -0.25, 1.0, 0.75, -0.5, 0.1, 0.2, 0.3, 1.0],
            rho=[0.1],
            kernel_params=[0.0, 0.0, 0.0],
            post_transform=post,
        )


def linear_cases() -> None:
    x = floats(5, 4)
    f, i64, s = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
    weights = [0.5, -0.25, 1.0, 0.75, -0.5, 0.1, 0.2, 0.3, 1.0, -1.0, 0.4, 0.0]
    for post in ("NONE", "SOFTMAX", "LOGISTIC"):
        write(
            f"linear_classifier_{post.lower()}",
            "LinearClassifier",
            [x],
            [i64, f],
            coefficients=weights,
            intercepts=[0.1, -0.2, 0.3],
            classlabels_ints=[3, 5, 7],
            post_transform=post,
        )
    for post in ("NONE", "LOGISTIC"):
        write(
            f"linear_classifier_of_two_{post.lower()}",
            "LinearClassifier",
            [x],
            [s, f],
            coefficients=weights[:4],
            intercepts=[0.1],
            classlabels_strings=["no", "yes"],
            post_transform=post,
        )
    write(
        "linear_regressor",
        "LinearRegressor",
        [x],
        [f],
        coefficients=weights[:8],
        intercepts=[0.1, -0.2],
        targets=2,
    )


def feature_cases() -> None:
    x = floats(4, 3)
    f, i64, s = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
    write("scaler", "Scaler", [x], [f], offset=[0.1, 0.2, 0.3], scale=[2.0, 3.0, 4.0])
    write(
        "scaler_of_integers", "Scaler", [np.arange(6).reshape(2, 3)], [f], offset=[1.0], scale=[0.5]
    )
    write("binarizer", "Binarizer", [x], [f], threshold=0.25)
    for norm in ("MAX", "L1", "L2"):
        rows = x.copy()
        rows[1] = 0
        write(f"normalizer_{norm.lower()}", "Normalizer", [rows], [f], norm=norm)
    holes = x.copy()
    holes[0, 1] = holes[2, 2] = np.nan
    write(
        "imputer",
        "Imputer",
        [holes],
        [f],
        imputed_value_floats=[1.0, 2.0, 3.0],
        replaced_value_float=float("nan"),
    )
    write(
        "imputer_of_integers",
        "Imputer",
        [np.array([[1, -1, 3], [-1, 5, 6]])],
        [i64],
        imputed_value_int64s=[7],
        replaced_value_int64=-1,
    )
    write("feature_vectorizer", "FeatureVectorizer", [x, floats(4, 2)], [f], inputdimensions=[3, 2])
    write("array_feature_extractor", "ArrayFeatureExtractor", [x, np.array([2, 0, 2, 1])], [f])
    write(
        "one_hot_encoder", "OneHotEncoder", [np.array([[1, 5], [9, 3]])], [f], cats_int64s=[3, 5, 9]
    )
    names = np.array(["b", "a", "x", "c"], dtype=object)
    write("one_hot_encoder_of_strings", "OneHotEncoder", [names], [f], cats_strings=["a", "b", "c"])
    write(
        "label_encoder_of_strings",
        "LabelEncoder",
        [names],
        [i64],
        keys_strings=["a", "b", "c"],
        values_int64s=[4, 5, 6],
        default_int64=-3,
    )
    write(
        "label_encoder_to_strings",
        "LabelEncoder",
        [np.array([3, 1, 2])],
        [s],
        keys_int64s=[1, 2],
        values_strings=["one", "two"],
    )
    write(
        "category_mapper",
        "CategoryMapper",
        [names],
        [i64],
        cats_strings=["a", "b", "c"],
        cats_int64s=[7, 8, 9],
    )


def main() -> None:
    with archived(CASES):
        tree_cases()
        tie_cases()
        svm_cases()
        linear_cases()
        feature_cases()


if __name__ == "__main__":
    main()
