"""Texts of every script for comparisons of tokenizers, made from a seed."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator

# First and last characters of blocks, and of what is special about text.
BLOCKS = [
    (0x20, 0x7E), (0x20, 0x7E), (0x00, 0x1F), (0x80, 0xFF), (0x100, 0x24F), (0x250, 0x2FF),
    (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F), (0x590, 0x5FF),
    (0x600, 0x6FF), (0x700, 0x74F), (0x780, 0x7BF), (0x900, 0x97F), (0x980, 0x9FF),
    (0xA00, 0xAFF), (0xB00, 0xBFF), (0xC00, 0xCFF), (0xD00, 0xDFF), (0xE00, 0xEFF),
    (0xF00, 0xFFF), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x139F),
    (0x13A0, 0x13FF), (0x1400, 0x16FF), (0x1780, 0x17FF), (0x1800, 0x18AF), (0x1E00, 0x1FFF),
    (0x2000, 0x206F), (0x2070, 0x20CF), (0x2100, 0x214F), (0x2150, 0x218F), (0x2190, 0x22FF),
    (0x2460, 0x24FF), (0x2500, 0x27BF), (0x2C00, 0x2DFF), (0x2E80, 0x2FDF), (0x3000, 0x30FF),
    (0x3100, 0x33FF), (0x4E00, 0x9FFF), (0x4E00, 0x9FFF), (0xA000, 0xA4CF), (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFE2F), (0xFE50, 0xFEFF), (0xFF00, 0xFFEF),
    (0x10000, 0x100FF), (0x10300, 0x103FF), (0x10400, 0x1044F), (0x12000, 0x1203F),
    (0x1D400, 0x1D7FF), (0x1F100, 0x1F2FF), (0x1F300, 0x1FAFF), (0x20000, 0x200FF),
    (0xE0020, 0xE007F),
]
SPACES = [" ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "        ",
          "\u200b", "\u200d", "\ufe0f", "\u180e", "\x85"]
WORDS = ["the", "The", "don't", "I'LL", "we've", "it's", "Hello", "world", "naïve", "Straße", "İstanbul",
         "ΣΊΣΥΦΟΣ", "e\u0301", "ﬁne", "2024", "3.14159", "1,000,000", "https://example.org/?q=1&x=%20",
         "def f(x):\n    return x", "日本語", "한국어", "ไทย", "مرحبا", "👩‍👩‍👧‍👦", "🇫🇷", "👍🏽", "①②③", "½",
         "ﷺ", "▁", "##", "<s>", "[MASK]", "<|im_end|>", "<0x41>", "\ufffd", "a" * 40, "_under_score_"]


def assigned(code: int) -> bool:
    return unicodedata.category(chr(code)) not in ("Cn", "Cs")


CHARS = [[c for c in range(first, last + 1) if assigned(c)] for first, last in BLOCKS]


def piece(random_: random.Random) -> str:
    kind = random_.random()
    if kind < 0.25:
        return random_.choice(WORDS)
    if kind < 0.5:
        return random_.choice(SPACES)
    block = random_.choice(CHARS)
    return "".join(chr(random_.choice(block)) for _ in range(random_.randint(1, 8)))


def texts(seed: int, count: int) -> Iterator[str]:
    random_ = random.Random(seed)
    for _ in range(count):
        yield "".join(piece(random_) for _ in range(random_.randint(0, 12)))


def corpus(seed: int, count: int) -> Iterator[str]:
    """Texts to train with: words that repeat, so that there is something to merge."""
    random_ = random.Random(seed)
    words = ["".join(piece(random_) for _ in range(2)).strip() for _ in range(400)] + WORDS
    weights = [1 / (i + 1) for i in range(len(words))]
    random_.shuffle(words)
    for _ in range(count):
        yield " ".join(random_.choices(words, weights, k=random_.randint(3, 20)))
