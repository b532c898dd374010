#!/usr/bin/env python3
"""Scores many images with Ray Data: several worker processes, each with a session of its own.

Reprise runs on one machine; an engine for batches, such as Ray Data, brings it to many. The model is
compiled once, each worker opens the package and keeps its session, and Ray hands batches to the
workers. This program does so with 1 worker, then with 2, and so on, prints how many images each
run scores in a second, compares the scores with those of a session without Ray, and draws a chart.

    pip install '.[examples]'                        # Ray Data, matplotlib, tqdm
    apps/python/scoring.py                           # a small network with random weights
    apps/python/scoring.py --model model.onnx --images 20000 --workers 1,2,4,8
    RAY_ADDRESS=auto apps/python/scoring.py          # the workers of a cluster

A worker runs on the best device of its machine. On CPUs, each gets one core.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import reprise

Batch = dict[str, np.ndarray[Any, Any]]
MISSING = "{0} is missing, with which this example {1}: pip install '{0}', or '.[examples]' in the source tree"
SAMPLE = 64  # images whose scores are compared


def network() -> bytes:
    """A model that gives images of 3x32x32 scores for 10 classes; its weights are random."""
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        sys.exit(
            "scoring: "
            + MISSING.format("onnx", "writes its model (--model names another)")
        )
    random = np.random.default_rng(0)
    nodes, weights = [], []
    x, channels = "images", 3
    for i, (width, stride) in enumerate(((16, 1), (32, 2), (32, 1), (64, 2))):
        w = random.normal(0, (2 / (9 * channels)) ** 0.5, (width, channels, 3, 3))
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{i}"))
        nodes += [
            helper.make_node(
                "Conv", [x, f"w{i}"], [f"c{i}"], pads=[1] * 4, strides=[stride] * 2
            ),
            helper.make_node("Relu", [f"c{i}"], [f"r{i}"]),
        ]
        x, channels = f"r{i}", width
    w = random.normal(0, 0.1, (channels, 10)).astype(np.float32)
    weights.append(numpy_helper.from_array(w, "w"))
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["scores"]),
    ]
    images = helper.make_tensor_value_info(
        "images", TensorProto.FLOAT, ["n", 3, 32, 32]
    )
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, "scoring", [images], [scores], weights)
    opset = helper.make_opsetid("", 18)
    return helper.make_model(
        graph, ir_version=9, opset_imports=[opset]
    ).SerializeToString()


@dataclass(frozen=True)
class Images:
    """Makes the rows of the data set from their numbers, the same ones on each machine."""

    shape: tuple[int, ...]

    def __call__(self, batch: Batch) -> Batch:
        rows = [
            np.random.default_rng(int(i)).random(self.shape, np.float32)
            for i in batch["id"]
        ]
        return {"id": batch["id"], "image": np.stack(rows)}


class Scorer:
    """A worker. Ray makes one in each process; its session serves all batches of the worker."""

    def __init__(self, package: reprise.Package, device: str) -> None:
        self.session = reprise.Session(package, device)

    def __call__(self, batch: Batch) -> Batch:
        scores = self.session(batch["image"])
        return {"id": batch["id"], "score": scores.reshape(len(scores), -1)}


@dataclass(frozen=True)
class Run:
    """What one number of workers achieved."""

    workers: int
    seconds: float
    images: int
    scores: np.ndarray[Any, Any]

    @property
    def rate(self) -> float:
        return self.images / self.seconds


def score(
    ray_data: Any,
    package: reprise.Package,
    shape: tuple[int, ...],
    workers: int,
    options: Any,
) -> Run:
    """Scores all images with a number of workers. Time counts from the first batch that is done.

    Until then the workers start, and load and compile what the first run needs.
    """
    from tqdm.auto import tqdm

    blocks = -(-options.images // options.batch)
    scored = (
        ray_data.range(options.images, override_num_blocks=blocks)
        .map_batches(Images(shape), batch_size=options.batch)
        .map_batches(
            Scorer,
            fn_constructor_args=(package, options.device),
            batch_size=options.batch,
            compute=ray_data.ActorPoolStrategy(size=workers),
            num_cpus=1,
        )
    )
    parts: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    start = done = 0.0
    counted = 0
    title = f"{workers} worker{'s' if workers > 1 else ''}"
    with tqdm(total=options.images, desc=title, unit="image", disable=None) as bar:
        for batch in scored.iter_batches(batch_size=None, batch_format="numpy"):
            done = time.perf_counter()
            if start:
                counted += len(batch["id"])
            else:
                start = done
            parts.append((batch["id"], batch["score"]))
            bar.update(len(batch["id"]))
    order = np.argsort(np.concatenate([ids for ids, _ in parts]))
    scores = np.concatenate([scores for _, scores in parts])[order]
    if not counted:
        sys.exit("scoring: there was one batch only; raise --images or lower --batch")
    return Run(workers, done - start, counted, scores)


def image_shape(package: reprise.Package) -> tuple[int, ...]:
    """Returns the shape of one image, or ends the program if the model does not score images."""
    slot, *others = package.inputs
    first, *dims = slot.shape
    if others or slot.dtype != "float32" or not isinstance(first, str):
        sys.exit(
            "scoring: the model must have one input, of float32, whose first dim is dynamic: "
            f"it has {[(s.name, s.dtype, s.shape) for s in package.inputs]}"
        )
    if not all(isinstance(d, int) for d in dims):
        sys.exit(
            f"scoring: the dims of an image must be static, '{slot.name}' is {slot.shape}"
        )
    return tuple(d for d in dims if isinstance(d, int))


def draw(runs: list[Run], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.bar([str(run.workers) for run in runs], [run.rate for run in runs])
    plt.xlabel("workers")
    plt.ylabel("images per second")
    plt.title("Scoring with Ray Data")
    plt.savefig(path, dpi=120)
    print(f"chart: {path}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, help="an ONNX model or package of your own"
    )
    parser.add_argument("--device", default="auto", help="of each worker (auto)")
    parser.add_argument("--images", type=int, default=4096, help="to score (4096)")
    parser.add_argument("--batch", type=int, default=64, help="images in a batch (64)")
    parser.add_argument(
        "--workers", default="1,2", help="numbers of workers to compare (1,2)"
    )
    parser.add_argument("--plot", type=Path, default=Path("scoring.png"))
    options = parser.parse_args()
    try:
        options.workers = [int(n) for n in options.workers.split(",")]
    except ValueError:
        options.workers = []
    if not options.workers or min(*options.workers, options.batch, options.images) < 1:
        parser.error(
            "--workers takes numbers such as 1,2,4, and all numbers are positive"
        )
    return options


def start_ray(workers: int) -> Any:
    """Connects to a cluster (RAY_ADDRESS), or starts Ray on this machine, and returns Ray Data."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        sys.exit("scoring: " + MISSING.format("ray[data]", "scores on many workers"))
    cores = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers + 1}
    try:
        ray.init(include_dashboard=False, logging_level="error", **cores)
    except Exception as error:  # noqa: BLE001  (Ray raises nothing narrower)
        sys.exit(f"scoring: Ray did not start: {error}")
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data


def main() -> None:
    options = arguments()
    ray_data = start_ray(max(options.workers))
    package = reprise.compile(options.model or network())
    shape = image_shape(package)
    runs = [score(ray_data, package, shape, n, options) for n in options.workers]
    sample = {"id": np.arange(min(SAMPLE, options.images))}
    alone = Scorer(package, options.device)(Images(shape)(sample))["score"]
    for run in runs:
        error = float(np.abs(run.scores[: len(alone)] - alone).max())
        print(
            f"{run.workers} worker{'s' if run.workers > 1 else ''}: {run.rate:8.0f} images/s"
            f"  (largest difference from a session without Ray: {error:.1g})"
        )
        if len(run.scores) != options.images or not error <= 1e-4 * np.abs(alone).max():
            sys.exit("scoring: the scores are wrong")
    draw(runs, options.plot)


if __name__ == "__main__":
    main()
