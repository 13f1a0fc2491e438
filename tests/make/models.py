"""Models small enough to count by hand, and prose for them."""

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
    "tokenize": "unicode61", "title_weight": 2.0, "chunk_characters": 1200,
    "queries": ["text", "phrase", "strongest", "any"], "tokens": "first", "combine": "union",
    "rrf_k": 60, "candidates": 50, "enough": 24, "snippet_tokens": 40, "snippet_characters": 400,
    "rerank": True, "top": 12, "embedder": "all-MiniLM-L6-v2", "max_tokens": 128,
    "cache_entries": 256, "cache_bytes": 4_000_000,
}  # fmt: skip


@cache
def notes() -> tuple[Document, ...]:
    """Return a note a function of numpy that has prose."""
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
    from onnx import TensorProto, helper

    ids, mask, kind = inputs
    as_float = {"to": TensorProto.FLOAT}
    nodes: tuple[tuple[str, list[str], str, dict[str, int]], ...] = (
        ("Unsqueeze", [ids, "two"], "down", {}),
        ("Unsqueeze", [ids, "one"], "across", {}),
        ("Equal", ["down", "across"], "same", {}),
        ("Cast", ["same"], "same_f", as_float),
        ("Cast", [mask], "mask_f", as_float),
        ("Cast", [kind], "kind_f", as_float),
        ("Mul", ["kind_f", "mask_f"], "in_text", {}),
        ("Sub", ["mask_f", "in_text"], "in_query", {}),
        ("Unsqueeze", ["in_text", "two"], "text_column", {}),
        ("Unsqueeze", ["in_query", "two"], "query_column", {}),
        ("MatMul", ["same_f", "text_column"], "often", {}),
        ("Min", ["often", "unit"], "has", {}),
        ("Mul", ["has", "query_column"], "shared", {}),
        ("ReduceSum", ["shared", "one"], "count", {"keepdims": 0}),
        ("Mul", ["count", "weight"], "weighed", {}),
        ("Sub", ["weighed", "bias"], "logits", {}),
    )
    integers, floats = TensorProto.INT64, TensorProto.FLOAT
    held = [helper.make_tensor(name, integers, [1], [at]) for name, at in (("one", 1), ("two", 2))]
    for name, size, value in (("unit", 1, 1.0), ("weight", outputs, 2.0), ("bias", 1, 5.0)):
        held.append(helper.make_tensor(name, floats, [size], [value] * size))
    graph = helper.make_graph(
        [helper.make_node(op, given, [to], **more) for op, given, to, more in nodes],
        "shared words",
        [helper.make_tensor_value_info(name, integers, ["pairs", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info("logits", floats, ["pairs", outputs])],
        held,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(made.SerializeToString())
