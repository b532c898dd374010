"""Compares `reprise generate` with transformers on SmolLM2-135M-Instruct in every format.

    python3 tests/families/smollm2.py MODEL.gguf build/bin/reprise WORK_FOLDER [--device D] [--only NAME,...]

It needs torch, transformers, gguf and safetensors of PyPI, and for ONNX files onnxruntime-genai with onnx
and onnx_ir, whose model builder writes them. The weights are those of the GGUF file, dequantised. From these it makes a
folder of Hugging Face and ONNX files in fp32 and int4 (the builder's defaults), takes 100 greedy ids from
transformers, for int4 with the builder's weights dequantised, and compares. An id may differ from the
reference only where the reference's two best logits are closer than 1e-3; such a tie is shown, and
ends the comparison. Prints a line for each format and exits with 1 if one differs, or with 77 if a package
or the GGUF file (tools/models chat) is missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from requirements import require

require("torch", "transformers", "gguf", "safetensors", "onnx", "onnx_ir", "onnxruntime_genai")

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPT = "The capital of France is"
TOKENS = 100
TIE = 1e-3


def greedy(model: torch.nn.Module, prompt: list[int]) -> tuple[list[int], list[float]]:
    """The ids, and how much larger the best logit was than the next."""
    ids, gaps, past = list(prompt), [], None
    new = torch.tensor([prompt])
    with torch.no_grad():
        for _ in range(TOKENS):
            out = model(new, past_key_values=past, use_cache=True)
            past, logits = out.past_key_values, out.logits[0, -1]
            best = torch.topk(logits, 2).values
            gaps.append(float(best[0] - best[1]))
            ids.append(int(logits.argmax()))
            new = torch.tensor([[ids[-1]]])
    return ids[len(prompt) :], gaps


def folder_of(gguf: Path, work: Path) -> Path:
    folder = work / "folder"
    if not (folder / "config.json").exists():
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        )
        # transformers does not save what it has read from a GGUF file, but the same weights.
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        plain = AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)
        plain.load_state_dict(model.state_dict())
        plain.save_pretrained(folder)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(
            folder
        )
    return folder


def builder_model(folder: Path, work: Path, precision: str) -> Path:
    """What ONNX Runtime's model builder makes of the folder for its CPU provider."""
    out = work / f"onnx-{precision}"
    if not (out / "model.onnx").exists():
        subprocess.run(
            [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", folder, "-o", out]
            + ["-p", precision, "-e", "cpu", "-c", work / "cache"],
            check=True,
        )  # fmt: skip
    return out / "model.onnx"


def low_bits(data: np.ndarray, bits: int) -> np.ndarray:
    if bits == 8:
        return data
    return np.stack([data & 15, data >> 4], -1).reshape(*data.shape[:-1], -1)


def dequantised(path: Path) -> dict[str, np.ndarray]:
    """The weights of each MatMulNBits [N, K], by the name of its node."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(path)
    constants = {t.name: t for t in model.graph.initializer}
    out = {}
    for node in model.graph.node:
        if node.op_type != "MatMulNBits":
            continue
        facts = {a.name: a.i for a in node.attribute}
        n, k, block, bits = (facts[key] for key in ("N", "K", "block_size", "bits"))
        count = -(-k // block)
        load = [
            numpy_helper.to_array(constants[name]) for name in node.input[1:] if name
        ]
        numbers = low_bits(load[0].reshape(n, count, -1), bits).astype(np.float32)
        zeros = np.float32(1 << (bits - 1))
        if len(load) > 2:
            packed = low_bits(load[2].reshape(n, -1), bits)[:, :count]
            zeros = packed.astype(np.float32)[:, :, None]
        weights = (numbers - zeros) * load[1].reshape(n, count, 1).astype(np.float32)
        out[node.name] = weights.reshape(n, -1)[:, :k]
    return out


def place(node: str) -> str:
    """The module that a node computes: '/model/layers.0/attn/o_proj/MatMul_Q4'."""
    path = node.rsplit("/", 1)[0].strip("/").replace("/attn/", "/self_attn/")
    return path.replace("/", ".")


def with_weights(folder: Path, weights: dict[str, np.ndarray]) -> torch.nn.Module:
    """The model of the folder with the weights that the builder has quantised."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    modules = dict(model.named_modules())

    def put(name: str, rows: np.ndarray) -> None:
        if name not in modules or modules[name].weight.shape != rows.shape:
            sys.exit(f"the model has no weight {name} {list(rows.shape)}")
        modules[name].weight = torch.nn.Parameter(torch.from_numpy(rows.copy()))

    for node, weight in weights.items():
        name = place(node)
        if not name.endswith(".qkv_proj"):
            put(name, weight)
            continue
        first = 0
        for part in ("q_proj", "k_proj", "v_proj"):
            own = name.replace("qkv_proj", part)
            last = first + modules[own].out_features
            put(own, weight[first:last])
            first = last
    if model.config.tie_word_embeddings and "lm_head" in map(place, weights):
        model.get_input_embeddings().weight = modules["lm_head"].weight
    return model


def compare(name: str, got: list[int], expected: list[int], gaps: list[float]) -> bool:
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        if a == b:
            continue
        tie = gaps[i] < TIE
        print(f"{name}: id {i} is {a}, expected {b}; the best logits differ by {gaps[i]:.2g}"
              f"{', a tie' if tie else ''}")  # fmt: skip
        return tie
    print(f"{name}: {len(expected)} of {len(expected)} ids are equal")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("reprise")
    parser.add_argument("work", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default="gguf,folder,package,onnx-fp32,onnx-int4")
    options = parser.parse_args()
    if not options.gguf.is_file():
        print(f"skipped: there is no {options.gguf}; tools/models chat fetches it")
        return 77
    options.work.mkdir(parents=True, exist_ok=True)
    folder = folder_of(options.gguf, options.work)
    prompt = AutoTokenizer.from_pretrained(folder)(PROMPT).input_ids
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    reference = greedy(plain, prompt)
    good = True
    for name in options.only.split(","):
        path, expected = options.gguf, reference
        if name == "folder":
            path = folder
        elif name == "package":
            path = options.work / "model.rpk"
            subprocess.run(
                [options.reprise, "compile", options.gguf, "-o", path], check=True
            )
        elif name.startswith("onnx-"):
            path = builder_model(folder, options.work, name.removeprefix("onnx-"))
            if name == "onnx-int4":
                expected = greedy(with_weights(folder, dequantised(path)), prompt)
        done = subprocess.run(
            [options.reprise, "generate", path, "--ids", ",".join(map(str, prompt)), "--json", "-"]
            + ["--max-tokens", str(TOKENS), "--ignore-end", "--device", options.device],
            check=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        good = compare(name, json.loads(done.stdout)["ids"], *expected) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
