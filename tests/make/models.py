"""Models small enough to count by hand, and prose for them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import BertProcessing

from harness.core.records import Document
from harness_engines.stacks.writing.arm import Writing
from harness_engines.stacks.writing.arm import engine as make
from harness_engines.vector.embedder import unit

NOTES_SETTINGS: dict[str, Any] = {
    "tokenize": "unicode61",
    "title_weight": 2.0,
    "chunk_characters": 1200,
    "queries": ["text", "phrase", "strongest", "any"],
    "tokens": "first",
    "combine": "union",
    "rrf_k": 60,
    "candidates": 50,
    "enough": 24,
    "snippet_tokens": 40,
    "snippet_characters": 400,
    "rerank": True,
    "top": 12,
    "embedder": "all-MiniLM-L6-v2",
    "max_tokens": 128,
    "cache_entries": 256,
    "cache_bytes": 4_000_000,
}


@cache
def notes() -> tuple[Document, ...]:
    """Give a note a function of numpy that has prose."""
    found = []
    for name in sorted(vars(np)):
        text = inspect.getdoc(getattr(np, name)) if callable(getattr(np, name)) else None
        if text and len(text) > 200:
            found.append(Document(f"notes/{name}.md", f"numpy.{name}", text))
    return tuple(found)


def writing(**changed: Any) -> Writing:  # noqa: ANN401  settings as a TOML file has them
    """Make the stack with some settings changed."""
    engine = make({**NOTES_SETTINGS, **changed}, Path())
    assert isinstance(engine, Writing)
    return engine


class Letters:
    """An embedder of letters: vectors that a person can count."""

    def __init__(self, identity: str = "letters") -> None:
        self.identity = identity
        self.dimension = 26
        self.read: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += texts
        counts: NDArray[np.float32] = np.array(
            [[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts],
            dtype=np.float32,
        )
        return unit(counts)


WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *["salt", "water", "moon", "sea", "bread", "bees", "honey", "the", "a"],
)
FLOAT, INT64 = 1, 7
NAMES = ("input_ids", "attention_mask", "token_type_ids")
OWN = 1.0
"""Every pair shares the [SEP] that ends both."""


def logit(query: str, text: str) -> float:
    """Compute what the model says: twice the query's words that the text has too, less 5."""
    known = set(text.split())
    return 2.0 * (OWN + sum(word in known for word in query.split())) - 5.0


def write(folder: Path, *, outputs: int = 1, inputs: Sequence[str] = NAMES) -> Path:
    """Write the folder of a cross-encoder that gives ``outputs`` numbers a pair."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(_model(outputs, inputs))
    tokenizer = Tokenizer(
        WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")  # noqa: S106  a word
    )
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _model(outputs: int, inputs: Sequence[str]) -> bytes:
    """Shared = sum over the query's tokens of min(1, how often the text has it)."""
    ids, mask, kind = inputs
    nodes = [
        _node("Unsqueeze", [ids, "two"], "down"),
        _node("Unsqueeze", [ids, "one"], "across"),
        _node("Equal", ["down", "across"], "same"),
        _node("Cast", ["same"], "same_f", to=FLOAT),
        _node("Cast", [mask], "mask_f", to=FLOAT),
        _node("Cast", [kind], "kind_f", to=FLOAT),
        _node("Mul", ["kind_f", "mask_f"], "in_text"),
        _node("Sub", ["mask_f", "in_text"], "in_query"),
        _node("Unsqueeze", ["in_text", "two"], "text_column"),
        _node("Unsqueeze", ["in_query", "two"], "query_column"),
        _node("MatMul", ["same_f", "text_column"], "often"),
        _node("Min", ["often", "unit"], "has"),
        _node("Mul", ["has", "query_column"], "shared"),
        _node("ReduceSum", ["shared", "one"], "count", keepdims=0),
        _node("Mul", ["count", "weight"], "weighed"),
        _node("Sub", ["weighed", "bias"], "logits"),
    ]
    held = [
        _tensor("one", INT64, [1], 1),
        _tensor("two", INT64, [1], 2),
        _tensor("unit", FLOAT, [1], 1.0),
        _tensor("weight", FLOAT, [outputs], 2.0),
        _tensor("bias", FLOAT, [1], 5.0),
    ]
    graph = b"".join([
        *(_field(1, node) for node in nodes),
        _field(2, b"shared words"),
        *(_field(5, tensor) for tensor in held),
        *(_field(11, _value(name, INT64, ["pairs", "tokens"])) for name in inputs),
        _field(12, _value("logits", FLOAT, ["pairs", outputs])),
    ])
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 13))


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    given = (
        _field(5, _field(1, name.encode()) + _number(3, value) + _number(20, 2))
        for name, value in attributes.items()
    )
    names = b"".join(_field(1, name.encode()) for name in inputs)
    return names + _field(2, output.encode()) + _field(4, kind.encode()) + b"".join(given)


def _tensor(name: str, kind: int, shape: Sequence[int], value: float) -> bytes:
    data = np.full(shape, value, dtype="<f4" if kind == FLOAT else "<i8").tobytes()
    sizes = b"".join(_number(1, size) for size in shape)
    return sizes + _number(2, kind) + _field(8, name.encode()) + _field(9, data)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = b"".join(
        _field(1, _number(1, size) if isinstance(size, int) else _field(2, size.encode()))
        for size in shape
    )
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, sizes)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
