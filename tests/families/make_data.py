"""Makes the data of these tests: small random models of each family with the logits of transformers,
and blocks of each GGUF type with what the package gguf makes of them.

    python3 tests/families/make_data.py     # with torch, transformers, safetensors and gguf of PyPI
"""

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM

DATA = Path(__file__).parent / "data"
STEPS = 20
PROMPT = [3, 17, 5, 9, 31, 2, 8]

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
FAMILIES = {
    "llama": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "llama3": {"model_type": "llama", "rope_parameters": LLAMA3, "tie_word_embeddings": True},
    "mistral": {"sliding_window": 5},
    "qwen2": {},
    "qwen3": {},
    "gemma2": {"sliding_window": 5, "query_pre_attn_scalar": 16, "tie_word_embeddings": True},
    "gemma3_text": {
        "num_hidden_layers": 3,
        "sliding_window": 5,
        "query_pre_attn_scalar": 8,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "tie_word_embeddings": True,
    },
    "phi3": {"sliding_window": 6},
}


def random_model(name: str, options: dict) -> torch.nn.Module:
    kind = options.get("model_type", name)
    config = AutoConfig.for_model(kind, **{**SIZES, **{k: v for k, v in options.items() if k != "model_type"}})
    config._attn_implementation = "eager"
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            is_norm = "norm" in key
            weight.normal_(0.0, 0.1 if is_norm else 0.3)
            if is_norm and not kind.startswith("gemma"):
                weight.add_(1.0)
            weight.copy_(weight.half().float())  # files have 16 bits
    return model


def logits_of(model: torch.nn.Module) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the prompt and of the greedy continuation, and the logits that chose each of the latter."""
    ids = list(PROMPT)
    rows = []
    with torch.no_grad():
        for _ in range(STEPS + 1):
            row = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
            rows.append(row.numpy())
            ids.append(int(row.argmax()))
    return np.array(ids, dtype=np.int64), np.stack(rows).astype(np.float32)


def save_folder(name: str, model: torch.nn.Module) -> None:
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ids, logits = logits_of(model)
    model.half().save_pretrained(folder)
    model.float()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file({"ids": ids, "logits": logits}, folder / "expected.safetensors")


# The names of weights, as files of llama.cpp have them.
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(key: str, gemma: bool) -> str:
    base, suffix = key.rsplit(".", 1)
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if base in whole:
        return f"{whole[base]}.{suffix}"
    _, _, layer, role = base.split(".", 3)
    name = "post_attention_norm" if gemma else "ffn_norm"
    return f"blk.{layer}.{LAYER.get(role, name)}.{suffix}"


def interleaved(w: np.ndarray, heads: int) -> np.ndarray:
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def save_gguf(name: str, arch: str, model: torch.nn.Module, kind: Type) -> None:
    """A file of llama.cpp's form, and the logits of the model with its dequantised weights."""
    c = model.config
    gemma = arch.startswith("gemma")
    w = gguf.GGUFWriter(DATA / f"{name}.gguf", arch)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_rope_dimension_count(c.head_dim)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(10000.0)
    w.add_eos_token_id(2)
    if getattr(c, "sliding_window", None):
        w.add_sliding_window(c.sliding_window)
    if arch == "gemma2":
        w.add_attn_logit_softcapping(c.attn_logit_softcapping)
        w.add_final_logit_softcapping(c.final_logit_softcapping)
    state = model.state_dict()
    if c.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    for key, tensor in state.items():
        array = tensor.numpy().astype(np.float32)
        offset = 1.0 if gemma and "norm" in key else 0.0
        if array.ndim == 1:
            w.add_tensor(gguf_name(key, gemma), array + np.float32(offset))
            continue
        blocks = gguf.quants.quantize(array, kind)
        tensor.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, kind).copy()))
        if arch == "llama" and ("q_proj" in key or "k_proj" in key):
            heads = c.num_attention_heads if "q_proj" in key else c.num_key_value_heads
            blocks = interleaved(blocks, heads)
        w.add_tensor(gguf_name(key, gemma), blocks, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    ids, logits = logits_of(model)
    save_file({"ids": ids, "logits": logits}, DATA / f"{name}.expected.safetensors")


def save_blocks() -> None:
    rng = np.random.default_rng(5)
    out = {}
    for kind in (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K, Type.Q4_K,
                 Type.Q5_K, Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS, Type.MXFP4):  # fmt: skip
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (4 if elements == 32 else 2, size), dtype=np.uint8)
        halves = {Type.Q2_K: (80, 82), Type.Q3_K: (108,), Type.Q6_K: (208,), Type.MXFP4: ()}
        for at in halves.get(kind, (0, 2) if kind.name in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else (0,)):
            values = rng.normal(0, 0.05, len(blocks)).astype(np.float16)
            blocks[:, at : at + 2] = values.view(np.uint8).reshape(-1, 2)
        if kind == Type.MXFP4:
            blocks[:, 0] = [0, 1, 120, 130]
        out[f"{kind.name}.blocks"] = blocks
        out[f"{kind.name}.floats"] = gguf.quants.dequantize(blocks, kind).astype(np.float32)
    save_file(out, DATA / "blocks.safetensors")


def main() -> None:
    DATA.mkdir(exist_ok=True)
    save_blocks()
    for name, options in FAMILIES.items():
        save_folder(name, random_model(name, options))
    save_gguf("llama_q4_1", "llama", random_model("llama", FAMILIES["llama"]), Type.Q4_1)
    save_gguf("llama_q4_0", "llama", random_model("llama", FAMILIES["llama"]), Type.Q4_0)
    save_gguf("qwen2_q8_0", "qwen2", random_model("qwen2", FAMILIES["qwen2"]), Type.Q8_0)
    save_gguf("qwen3_q5_1", "qwen3", random_model("qwen3", FAMILIES["qwen3"]), Type.Q5_1)
    gemma2 = {**FAMILIES["gemma2"], "query_pre_attn_scalar": 8}
    save_gguf("gemma2_q5_0", "gemma2", random_model("gemma2", gemma2), Type.Q5_0)
    save_gguf("phi3_f16", "phi3", random_model("phi3", FAMILIES["phi3"]), Type.F16)


main()
