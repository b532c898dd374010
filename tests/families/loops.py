"""Compares loops over models that keep states with PyTorch: LSTM, T5, Whisper, a diffusion UNet.

    PYTHONPATH=build/python python3 tests/families/loops.py WORK_FOLDER [--device D] [--only NAME,...]

It needs torch, transformers, diffusers, onnx and onnxscript of PyPI. The models are small and have random
weights; `torch.onnx` exports one step of each. Tokens must be those of PyTorch, except where its two best
logits are closer than 1e-4; images may differ by 2e-3 of their range after 20 steps. Prints a
line for each model and exits with 1 if one differs, or with 77 if a package is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from requirements import require

require("reprise", "torch", "transformers", "diffusers", "onnx", "onnxscript")

import numpy as np
import reprise
import torch
from diffusers import DDIMScheduler, UNet2DModel
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    T5Config,
    T5ForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

TOKENS = 40
STEPS = 20
TIE = 1e-4
LAYERS = 2
SEED = 7


class Options(argparse.Namespace):
    work: Path
    device: str
    only: str


def export(
    model: torch.nn.Module,
    inputs: dict[str, torch.Tensor],
    outputs: list[str],
    dynamic: dict[str, dict[int, Any]],
    path: Path,
) -> Path:
    torch.onnx.export(
        model.eval(),
        (),
        path,
        kwargs=inputs,
        input_names=list(inputs),
        output_names=outputs,
        dynamic_shapes={name: dynamic.get(name) for name in inputs},
        dynamo=True,
        verbose=False,
    )
    return path


class Chooser:
    """Greedy choice, which tells ties from differences."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.gaps: list[float] = []

    def take(self, logits: torch.Tensor) -> int:
        best = torch.topk(logits.flatten(), 2)
        self.gaps.append(float(best.values[0] - best.values[1]))
        self.ids.append(int(best.indices[0]))
        return self.ids[-1]


def same_ids(name: str, got: list[int], expected: Chooser) -> bool:
    for i, (a, b) in enumerate(zip(got, expected.ids, strict=True)):
        if a == b:
            continue
        tie = expected.gaps[i] < TIE
        print(f"{name}: id {i} is {a}, expected {b}; the best logits differ by "
              f"{expected.gaps[i]:.2g}{', a tie' if tie else ''}")  # fmt: skip
        return tie
    print(f"{name}: {len(got)} ids are equal, {len(set(got))} of them different")
    return True


class Lstm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(200, 48)
        self.lstm = torch.nn.LSTM(48, 64, LAYERS, batch_first=True)
        self.head = torch.nn.Linear(64, 200)
        torch.nn.init.normal_(self.head.weight, std=2.0)

    def forward(
        self, ids: torch.Tensor, h: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        out, (h, c) = self.lstm(self.words(ids), (h, c))
        return self.head(out[:, -1]), h, c


def lstm(options: Options) -> bool:
    model = Lstm()
    zeros = torch.zeros(LAYERS, 1, 64)
    # The exporter takes equal tensors for one.
    first = {"ids": torch.tensor([[1, 2, 3]]), "h": zeros + 1, "c": zeros + 2}
    path = export(model, first, ["logits", "h_next", "c_next"], {"ids": {1: "sequence"}},
                  options.work / "lstm.onnx")  # fmt: skip
    expected, ids, h, c = Chooser(), [5, 17, 99, 3], zeros, zeros
    new = list(ids)
    for _ in range(TOKENS):
        logits, h, c = model(torch.tensor([new]), h, c)
        new = [expected.take(logits)]
    package = reprise.compile(str(path), states={"h": "h_next", "c": "c_next"})
    session = reprise.Session(package, options.device)
    got: list[int] = []
    new = list(ids)
    for _ in range(TOKENS):
        out = session.run({"ids": np.array([new], np.int64)})
        new = [int(np.argmax(out["logits"]))]
        got += new
    return same_ids("lstm", got, expected)


class Step(torch.nn.Module):
    """A step of a decoder, with its caches as tensors."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, encoded: torch.Tensor, **past: torch.Tensor) -> Any:
        own, cross = DynamicCache(), DynamicCache()
        for i in range(LAYERS):
            own.update(past[f"past.{i}.key"], past[f"past.{i}.value"], i)
        cache = EncoderDecoderCache(own, cross)
        out = self.model(
            decoder_input_ids=ids,
            encoder_outputs=(encoded,),
            past_key_values=cache,
            use_cache=True,
        )
        kept = out.past_key_values.self_attention_cache
        caches = [t for layer in kept.layers for t in (layer.keys, layer.values)]
        return (out.logits[:, -1], *caches)


def decode(name: str, model: Any, encoder_input: torch.Tensor, options: Options) -> bool:
    """An encoder once, and a decoder whose caches grow in the session."""
    model = model.eval()
    heads = model.config.num_heads if name == "t5" else model.config.decoder_attention_heads
    size = 16
    encoder_name = "input_ids" if name == "t5" else "input_features"

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = model.get_encoder()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.encoder(**{encoder_name: x})[0]

    encoder_path = export(Encoder(), {"x": encoder_input}, ["encoded"], {},
                          options.work / f"{name}-encoder.onnx")  # fmt: skip
    encoded = Encoder()(encoder_input)
    names = [f"{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
    past = {f"past.{n}": torch.randn(1, heads, 3, size) for n in names}
    given = {"ids": torch.tensor([[4, 5]]), "encoded": encoded, **past}
    shapes = {"ids": {1: "new"}, **{n: {2: "past"} for n in past}}

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = Step(model)

        def forward(self, ids, encoded, k0, v0, k1, v1):  # type: ignore[no-untyped-def]
            return self.step(ids, encoded, **dict(zip(past, (k0, v0, k1, v1), strict=True)))

    flat = dict(zip(("ids", "encoded", "k0", "v0", "k1", "v1"), given.values(), strict=True))
    flat_shapes = dict(zip(flat, (shapes.get(n) for n in given), strict=True))
    torch.onnx.export(
        Flat().eval(), (), options.work / f"{name}-decoder.onnx", kwargs=flat,
        input_names=list(given), output_names=["logits", *(f"present.{n}" for n in names)],
        dynamic_shapes=flat_shapes, dynamo=True, verbose=False,
    )  # fmt: skip
    expected, new = Chooser(), [2, 9, 11]
    caches = [torch.zeros(1, heads, 0, size)] * (2 * LAYERS)
    with torch.no_grad():
        for _ in range(TOKENS):
            logits, *caches = Flat()(torch.tensor([new]), encoded, *caches)
            new = [expected.take(logits)]
    encoder = reprise.Session(reprise.compile(str(encoder_path)), options.device)
    seen = encoder.run({"x": encoder_input.numpy()})["encoded"]
    worst = float(np.abs(seen - encoded.detach().numpy()).max())
    package = reprise.compile(str(options.work / f"{name}-decoder.onnx"), grow_states="past.*")
    session = reprise.Session(package, options.device)
    got: list[int] = []
    new = [2, 9, 11]
    for _ in range(TOKENS):
        out = session.run({"ids": np.array([new], np.int64), "encoded": seen})
        new = [int(np.argmax(out["logits"]))]
        got += new
    print(f"{name}: the encoder's largest error is {worst:.2g}")
    return worst < 1e-3 and same_ids(name, got, expected)


def t5(options: Options) -> bool:
    config = T5Config(vocab_size=300, d_model=64, d_kv=16, d_ff=128, num_layers=LAYERS, num_heads=4,
                      decoder_start_token_id=0, initializer_factor=3.0)  # fmt: skip
    # The exporter cannot decompose what T5 does with the fused attention's strides.
    config._attn_implementation = "eager"
    return decode("t5", T5ForConditionalGeneration(config), torch.randint(0, 300, (1, 11)), options)


def whisper(options: Options) -> bool:
    config = WhisperConfig(vocab_size=300, d_model=64, encoder_layers=LAYERS, decoder_layers=LAYERS,
                           encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
                           decoder_ffn_dim=128, num_mel_bins=80, max_source_positions=100,
                           max_target_positions=96, init_std=0.2, pad_token_id=0, bos_token_id=1,
                           eos_token_id=2, decoder_start_token_id=1)  # fmt: skip
    return decode("whisper", WhisperForConditionalGeneration(config), torch.randn(1, 80, 200), options)


class Denoise(torch.nn.Module):
    """One step of DDIM: what the scheduler would compute is a table that the step's number reads."""

    def __init__(self) -> None:
        super().__init__()
        self.unet = UNet2DModel(
            sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
            block_out_channels=(32, 64), norm_num_groups=8, attention_head_dim=16,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        )  # fmt: skip
        scheduler = DDIMScheduler(clip_sample=False)
        scheduler.set_timesteps(STEPS)
        at = scheduler.timesteps
        before = torch.cat([at[1:], torch.tensor([-1])])
        alphas = scheduler.alphas_cumprod
        last = scheduler.final_alpha_cumprod
        self.register_buffer("time", at)
        self.register_buffer("alpha", alphas[at])
        self.register_buffer("next", torch.where(before >= 0, alphas[before.clamp(min=0)], last))
        self.scheduler = scheduler

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        noise = self.unet(x, self.time[step]).sample
        a, b = self.alpha[step], self.next[step]
        clean = (x - (1 - a).sqrt() * noise) / a.sqrt()
        return b.sqrt() * clean + (1 - b).sqrt() * noise, step + 1


def diffusion(options: Options) -> bool:
    model = Denoise().eval()
    x = torch.randn(1, 3, 16, 16)
    start = x
    with torch.no_grad():
        for t in model.scheduler.timesteps:
            x = model.scheduler.step(model.unet(x, t).sample, t, x).prev_sample
    path = export(model, {"x": start, "step": torch.tensor([0])}, ["x_next", "step_next"], {},
                  options.work / "diffusion.onnx")  # fmt: skip
    package = reprise.compile(str(path), states={"x": "x_next", "step": "step_next"})
    session = reprise.Session(package, options.device)
    session.write_state("x", start.numpy())
    for _ in range(STEPS):
        session.run({})
    got = session.read_state("x")
    worst = float(np.abs(got - x.numpy()).max() / x.abs().max())
    print(f"diffusion: after {STEPS} steps the largest error is {worst:.2g} of the range")
    return worst < 2e-3


MODELS: dict[str, Callable[[Options], bool]] = {
    "lstm": lstm,
    "t5": t5,
    "whisper": whisper,
    "diffusion": diffusion,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default=",".join(MODELS))
    options = parser.parse_args(namespace=Options())
    options.work.mkdir(parents=True, exist_ok=True)
    good = True
    for name in options.only.split(","):
        torch.manual_seed(SEED)
        good = MODELS[name](options) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
