"""The peers, as a table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    packages: tuple[str, ...]  # from PyPI; empty: built here
    alone: tuple[str, ...]  # packages that are installed without their dependencies
    vulkan: bool  # competes with Reprise on the same device
    converts: bool  # needs its own form of the model
    colour: str


PEERS = {
    peer.name: peer
    for peer in (
        Peer("reprise", "Reprise", (), (), True, True, "#1f6feb"),
        Peer("ort-webgpu", "ORT WebGPU", ("onnxruntime-webgpu",), (), True, False, "#8b949e"),
        # pnnx depends on torch, gigabytes that its program does not use.
        Peer("ncnn", "ncnn", ("ncnn",), ("pnnx",), True, True, "#d29922"),
        Peer(
            "iree",
            "IREE",
            ("iree-base-compiler[onnx]", "iree-base-runtime"),
            (),
            True,
            True,
            "#2da44e",
        ),
        Peer("ort-cpu", "ORT CPU", ("onnxruntime",), (), False, False, "#bf3989"),
    )
}
