"""The peers, as a table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    packages: tuple[str, ...]  # from PyPI; none: built here
    alone: tuple[str, ...]  # those that are installed without what they say they need
    vulkan: bool  # competes with us on the same device
    converts: bool  # needs a form of the model of its own
    colour: str


PEERS = {
    peer.name: peer
    for peer in (
        Peer("reprise", "Reprise", (), (), True, True, "#1f6feb"),
        Peer("ort-webgpu", "ORT WebGPU", ("onnxruntime-webgpu",), (), True, False, "#8b949e"),
        # pnnx names torch, gigabytes that its program does not use.
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
