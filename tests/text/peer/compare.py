"""Compares the tokenizers of apps/text with the package `tokenizers`, which trains those that are compared.

compare.py PEER FOLDER [--count N] [--seed N] [--gguf FILE] [--only NAME]
compare.py --record FOLDER: writes the cases of the quick tier instead, with small vocabularies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from texts import corpus, texts
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SPECIAL = ["<unk>", "<s>", "</s>", "<|im_end|>", "[MASK]"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


SIZE = {"bpe": 1500, "unigram": 5000, "piece": 1500, "level": 800}
CORPUS = 3000


def train(model, trainer, normalizer=None, pre=None, decoder=None, post=None) -> Tokenizer:
    t = Tokenizer(model)
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    if decoder is not None:
        t.decoder = decoder
    t.train_from_iterator(corpus(7, CORPUS), trainer)
    if post is not None:
        t.post_processor = post
    return t


def bpe(**options):
    return trainers.BpeTrainer(vocab_size=SIZE["bpe"], special_tokens=SPECIAL, show_progress=False, **options)


def unigram(**options):
    return trainers.UnigramTrainer(vocab_size=SIZE["unigram"], special_tokens=SPECIAL, unk_token="<unk>",
                                   show_progress=False, **options)


def piece(**options):
    return trainers.WordPieceTrainer(vocab_size=SIZE["piece"], special_tokens=["[UNK]", "[CLS]", "[SEP]", *SPECIAL],
                                     show_progress=False, **options)


def byte_level(pre=None, **options):
    return train(models.BPE(**options), bpe(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
                 pre=pre or pre_tokenizers.ByteLevel(add_prefix_space=False), decoder=decoders.ByteLevel())


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior, invert),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def added(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True)])
    tokenizer.add_tokens([AddedToken("world", single_word=True), AddedToken("HeLLo", normalized=True),
                          AddedToken("naïve", normalized=False), AddedToken("  ", normalized=False)])
    return tokenizer


def fallback() -> Tokenizer:
    t = train(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True),
              bpe(), normalizer=normalizers.Sequence([normalizers.Prepend("▁"),
                                                      normalizers.Replace(" ", "▁")]),
              decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                         decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
    state = json.loads(t.to_str())
    vocab = state["model"]["vocab"]
    for b in range(256):
        vocab[f"<0x{b:02X}>"] = len(vocab)
    return Tokenizer.from_str(json.dumps(state))


def cases() -> dict:
    bert_post = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    meta = pre_tokenizers.Metaspace
    return {
        "gpt2": lambda: byte_level(),
        "gpt2-prefix": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
        "smollm": lambda: byte_level(pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
        "llama3": lambda: byte_level(split(LLAMA3), ignore_merges=True),
        "qwen-nfc": lambda: train(models.BPE(), bpe(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
                                  normalizer=normalizers.NFC(), pre=split(LLAMA3.replace("{1,3}", "")),
                                  decoder=decoders.ByteLevel()),
        "split-removed": lambda: byte_level(split(r"\s+", "removed")),
        "split-previous": lambda: byte_level(split(r"[\w\d]+", "merged_with_previous")),
        "split-next": lambda: byte_level(split(r"\W", "merged_with_next", True)),
        "split-contiguous": lambda: byte_level(split(r"\p{P}", "contiguous")),
        "added": lambda: added(byte_level()),
        "added-lower": lambda: added(train(models.BPE(), bpe(
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), normalizer=normalizers.Lowercase(),
            pre=pre_tokenizers.ByteLevel(), decoder=decoders.ByteLevel())),
        "fallback": fallback,
        "bpe-suffix": lambda: train(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
                                    bpe(end_of_word_suffix="</w>"), normalizer=normalizers.Lowercase(),
                                    pre=pre_tokenizers.BertPreTokenizer(), decoder=decoders.BPEDecoder()),
        "bpe-prefix": lambda: train(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
                                    bpe(continuing_subword_prefix="##"), pre=pre_tokenizers.Whitespace()),
        "unigram": lambda: train(models.Unigram(), unigram(), normalizer=normalizers.NFKC(),
                                 pre=meta(), decoder=decoders.Metaspace()),
        "unigram-first": lambda: train(models.Unigram(), unigram(), pre=meta(prepend_scheme="first"),
                                       decoder=decoders.Metaspace(prepend_scheme="first")),
        "unigram-never": lambda: train(models.Unigram(), unigram(), normalizer=normalizers.Nmt(),
                                       pre=meta(prepend_scheme="never", split=False),
                                       decoder=decoders.Metaspace(prepend_scheme="never")),
        "bert": lambda: train(models.WordPiece(unk_token="[UNK]"), piece(),
                              normalizer=normalizers.BertNormalizer(), pre=pre_tokenizers.BertPreTokenizer(),
                              decoder=decoders.WordPiece(), post=bert_post),
        "bert-cased": lambda: train(models.WordPiece(unk_token="[UNK]"), piece(),
                                    normalizer=normalizers.BertNormalizer(lowercase=False),
                                    pre=pre_tokenizers.BertPreTokenizer(),
                                    decoder=decoders.WordPiece(cleanup=False), post=bert_post),
        "piece-accents": lambda: train(models.WordPiece(unk_token="[UNK]"), piece(),
                                       normalizer=normalizers.Sequence([
                                           normalizers.NFD(), normalizers.StripAccents(),
                                           normalizers.Lowercase(), normalizers.Strip()]),
                                       pre=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                                    pre_tokenizers.Punctuation()]),
                                       decoder=decoders.WordPiece()),
        "level": lambda: train(models.WordLevel(unk_token="<unk>"),
                               trainers.WordLevelTrainer(vocab_size=SIZE["level"], special_tokens=SPECIAL,
                                                         show_progress=False),
                               normalizer=normalizers.NFKD(), pre=pre_tokenizers.Sequence([
                                   pre_tokenizers.CharDelimiterSplit("_"), pre_tokenizers.Whitespace(),
                                   pre_tokenizers.Digits()])),
        "replace": lambda: train(models.BPE(unk_token="<unk>"), bpe(), normalizer=normalizers.Sequence([
            normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("e", "é")]),
            pre=pre_tokenizers.Punctuation("merged_with_previous")),
    }


def from_gguf(path: str) -> Tokenizer:
    """The tokenizer of SmolLM2 as its authors describe it, from the vocabulary in the file."""
    from gguf import GGUFReader

    reader = GGUFReader(path)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = reader.fields["tokenizer.ggml.merges"].contents()
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    t = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)},
                             [tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([token for token, kind in zip(tokens, types) if kind == 3])
    return t


def peer(command: list[str], lines: list[str]) -> list[dict]:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=False)
    results = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    if len(results) != len(lines):
        raise SystemExit(f"{command}: {len(results)} results for {len(lines)} texts: {results[-1:]}")
    return results


def expected_of(tokenizer: Tokenizer, line: str) -> dict:
    ids = tokenizer.encode(line).ids
    return {"ids": ids, "plain": tokenizer.encode(line, add_special_tokens=False).ids,
            "text": tokenizer.decode(ids, skip_special_tokens=False), "short": tokenizer.decode(ids)}


def compare(name: str, tokenizer: Tokenizer, command: list[str], lines: list[str], frame: bool) -> int:
    differences = 0
    for line, ours in zip(lines, peer(command, lines)):
        expected = expected_of(tokenizer, line)
        if not frame:
            ours["ids"] = ours["plain"]
        wrong = [key for key, value in expected.items() if ours.get(key) != value]
        if ours.get("stream") != ours.get("text"):
            wrong.append("stream")
        if wrong:
            differences += 1
            if differences <= 3:
                print(f"{name}: {line!r}: {wrong}")
                for key in wrong:
                    print(f"  ours   {ours.get(key)!r}\n  theirs {expected.get(key)!r} {ours.get('error', '')}")
    print(f"{name}: {len(lines)} texts, {differences} differ", flush=True)
    return differences


def record(folder: Path) -> None:
    global CORPUS
    SIZE.update(bpe=330, unigram=1000, piece=300, level=100)
    CORPUS = 60
    for name, make in cases().items():
        tokenizer = make()
        lines = list(texts(3, 25))
        state = {"tokenizer": json.loads(tokenizer.to_str()),
                 "cases": [{"input": line, **expected_of(tokenizer, line)} for line in lines]}
        (folder / f"{name}.json").write_text(json.dumps(state, ensure_ascii=False) + "\n")


def main() -> int:
    if sys.argv[1:2] == ["--record"]:
        record(Path(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gguf")
    parser.add_argument("--only")
    options = parser.parse_args()
    lines = list(texts(options.seed, options.count))
    differences = 0
    for name, make in cases().items():
        if options.only and options.only != name:
            continue
        tokenizer = make()
        file = options.folder / f"{name}.json"
        tokenizer.save(str(file))
        differences += compare(name, tokenizer, [options.peer, "tokenizer", str(file)], lines, True)
    if options.gguf:
        differences += compare("gguf", from_gguf(options.gguf), [options.peer, "gguf", options.gguf], lines, False)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
