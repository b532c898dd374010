#!/usr/bin/env python3
"""Trains a small convolutional network on scikit-learn's digits, eagerly and with Reprise.

Both start from the same weights and see the same batches. Prints the share of digits that the
networks name right, of those that they were not trained on, and draws both loss curves into one
plot: they should lie on each other, because forward and backward compute the same.

    pip install '.[examples]'                     # PyTorch, scikit-learn, matplotlib, tqdm
    apps/python/digits.py --device vulkan:0 --plot digits.png

The training loop is an ordinary one. The only line for Reprise is
torch.compile(model, backend="reprise").
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

try:
    import torch
    import torch.nn.functional as F
    from sklearn.datasets import load_digits
    from torch import nn
    from tqdm.auto import tqdm
except ImportError as error:
    sys.exit(
        f"digits: {error.name} is missing: pip install '.[examples]' in the source tree"
    )


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns images and labels to train on, and to test with."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16
    labels = torch.from_numpy(digits.target).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return images[:1408], labels[:1408], images[1408:], labels[1408:]


def train(
    model: nn.Module,
    run: Any,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    bar: Any,
) -> list[float]:
    """Returns the loss of each step. All batches have one size, so everything compiles once."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for images, labels in batches:
        optimiser.zero_grad()
        loss = F.cross_entropy(run(images), labels)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
        bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
        bar.update()
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto", help="of Reprise (auto)")
    parser.add_argument(
        "--epochs", type=int, default=8, help="passes over the digits (8)"
    )
    parser.add_argument("--plot", type=Path, default=Path("digits.png"))
    options = parser.parse_args()
    images, labels, test_images, test_labels = data()
    epoch = list(zip(images.split(64), labels.split(64), strict=True))
    curves: dict[str, list[float]] = {}
    for name in ("eager", "reprise"):
        torch.manual_seed(0)
        model = network()
        run: Any = model
        if name == "reprise":
            run = torch.compile(
                model, backend="reprise", options={"device": options.device}
            )
        start = time.monotonic()
        batches = epoch * options.epochs
        with tqdm(total=len(batches), desc=name, unit="step", disable=None) as bar:
            curves[name] = train(model, run, batches, bar)
        seconds = time.monotonic() - start
        model.eval()
        with torch.no_grad():
            right = run(test_images).argmax(1) == test_labels
        accuracy = 100 * float(right.float().mean())
        print(f"{name}: {accuracy:.1f} % right after {seconds:.1f} s of training")
    draw(curves, options.plot)


def draw(curves: dict[str, list[float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for (name, losses), style in zip(curves.items(), ("-", "--"), strict=True):
        plt.plot(losses, style, label=name)
    plt.xlabel("step")
    plt.ylabel("cross-entropy")
    plt.yscale("log")
    plt.legend()
    plt.savefig(path, dpi=120)
    print(f"loss curves: {path}")


if __name__ == "__main__":
    main()
