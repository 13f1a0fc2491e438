"""Models, and reranking: token vectors, late interaction, the window, and a cross-encoder."""

import hashlib
import math
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import ModelNotReady
from harness_engines import rerank as tokens
from harness_engines.contract import FeatureUnavailable
from harness_engines.rerank import (
    BATCH,
    LEAST,
    CrossEncoder,
    CrossEncoding,
    Ids,
    LateInteraction,
    Reranked,
    TokenStore,
    joined,
    maxsim,
    sigmoid,
    write_tokens,
)
from harness_engines.vector import embedder
from harness_engines.vector import embedder as vector_embedder
from harness_engines.vector.embedder import (
    HashEmbedder,
    ModelFile,
    ModelPass,
    OnnxEmbedder,
    fnv1a_64,
    model,
    unit,
)
from harness_engines.vector.scan import Half
from tests.make import models as tiny_model
from tests.make.models import WORDS

DIMENSION = 16


class Words:
    """Gives each word a vector of its own, the same wherever it stands; remembers its texts."""

    dimension = DIMENSION

    def __init__(self, identity: str = "words", dies_at: str = "never said") -> None:
        self.identity = identity
        self.dies_at = dies_at
        self.seen: list[str] = []
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.read(texts).pooled

    def read(self, texts: Sequence[str]) -> ModelPass:
        if any(self.dies_at in text for text in texts):
            raise RuntimeError("killed")
        with self._lock:
            self.seen += texts
        tokens = tuple(
            np.array([word(one) for one in text.split()], dtype=np.float32).reshape(-1, DIMENSION)
            for text in texts
        )
        sums = np.array([one.sum(axis=0) for one in tokens]).reshape(-1, DIMENSION)
        return ModelPass(unit(sums), tokens)


def word(text: str) -> NDArray[np.float32]:
    """Draw a unit vector by the word's digest."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    drawn = np.random.default_rng(seed).normal(size=(1, DIMENSION)).astype(np.float32)
    (found,) = unit(drawn)
    return np.asarray(found, dtype=np.float32)


BY, WIDE = "a model", 8


def vectors(length: int, seed: int) -> Half:
    return np.random.default_rng(seed).normal(size=(length, WIDE)).astype(np.float16)


def write(path: Path, by: str, ids: Sequence[int], held: Sequence[Half]) -> None:
    def fill(slab: Half, offsets: Ids) -> None:
        for at, one in enumerate(held):
            slab[offsets[at] : offsets[at + 1]] = one

    lengths = np.array([len(one) for one in held], dtype=np.int64)
    tokens.write(path, by, WIDE, np.array(ids, dtype=np.int64), lengths, fill=fill)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    held = [vectors(3, 1), vectors(0, 2), vectors(5, 3)]
    write(tmp_path / "tokens", BY, [4, 7, 90], held)
    return tmp_path / "tokens"


TEXTS = ["a long one " * 40, "short", "", "short", "middle sized"]


def written(folder: Path, texts: Sequence[str], reader: Words) -> TokenStore:
    write_tokens(folder / "tokens", range(1, len(texts) + 1), texts, reader, folder / "cache")
    return TokenStore.open(folder / "tokens", reader.identity, DIMENSION)


def check(store: TokenStore, texts: Sequence[str]) -> None:
    assert len(store.ids) == len(texts)
    for number, text in enumerate(texts, start=1):
        expected = Words().read([text]).tokens[0].astype(np.float16)
        assert np.array_equal(store.of(number), expected)


def test_each_text_has_the_vectors_of_its_tokens(tmp_path: Path) -> None:
    reader = Words()
    check(written(tmp_path, TEXTS, reader), TEXTS)
    assert sorted(reader.seen) == sorted(set(TEXTS))
    check(written(tmp_path, [], Words()), [])
    written(tmp_path, ["text"], Words("one"))
    other = Words("two")
    written(tmp_path, ["text"], other)
    assert other.seen == ["text"]


def test_the_models_tokens_are_those_that_its_pooled_vector_is_the_mean_of(tmp_path: Path) -> None:
    embedder = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)
    texts = ["read_csv", "The soprano sings an aria while the orchestra plays.", ""]
    reading = embedder.read(texts)
    assert np.array_equal(reading.pooled, embedder.embed(texts))
    assert [len(one) for one in reading.tokens] == [6, 12, 2]
    for one, text in zip(reading.tokens, texts, strict=True):
        assert np.linalg.norm(one, axis=1) == pytest.approx(1, abs=1e-6)
        assert np.array_equal(one, embedder.read([text]).tokens[0])
    write_tokens(tmp_path / "file", [1, 2, 3], texts, embedder, tmp_path / "cache")
    store = TokenStore.open(tmp_path / "file", embedder.identity, embedder.dimension)
    assert np.array_equal(store.of(2), reading.tokens[1].astype(np.float16))


SAID = ["the moon", "salt water", "bread of salt and of water", "", "bees", "salt water"]
FALLING = [1.0, 0.8, 0.6, 0.4, 0.3, 0.2]
ALL = list(range(len(SAID)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    folder = tmp_path_factory.mktemp("tokens")
    write_tokens(folder / "file", ALL, SAID, Words(), folder / "cache")
    return TokenStore.open(folder / "file", Words().identity, DIMENSION)


def halves(words: Sequence[str]) -> Half:
    return np.array([word(one) for one in words]).reshape(-1, DIMENSION).astype(np.float16)


def plainly(query: Half, text: Half) -> float:
    """Compute the mean over the query's tokens of the best dot product, one by one."""
    asked, held = query.astype(np.float64), text.astype(np.float64)
    return sum(max(float(q @ t) for t in held) for q in asked) / len(asked)


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6),
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=9),
)
def test_maxsim_is_the_mean_of_the_best_cosines(query: list[str], text: list[str]) -> None:
    found = maxsim(halves(query), halves(text))
    assert found == pytest.approx(plainly(halves(query), halves(text)), abs=2e-6)
    assert maxsim(halves(query), halves(text[::-1])) == found
    if set(query) <= set(text):
        assert found == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("fused_weight", [0.0, 0.4, 1.0])
def test_the_blend_is_of_both_min_maxed_scores(store: TokenStore, fused_weight: float) -> None:
    found = LateInteraction(Words(), store, fused_weight).rerank("salt water", ALL, FALLING)
    raw = [maxsim(halves(["salt", "water"]), halves(text.split())) for text in SAID]
    assert [one.raw_score for one in found] == raw
    ours = (np.array(raw) - min(raw)) / (max(raw) - min(raw))
    theirs = (np.array(FALLING) - 0.2) / 0.8
    blend = fused_weight * theirs + (1 - fused_weight) * ours
    assert [one.score for one in found] == pytest.approx(blend.tolist(), abs=1e-6)


def window(*scores: float) -> list[Reranked]:
    return [Reranked(score, -score) for score in scores]


def test_a_window_that_reaches_down_to_nothing_is_lifted_and_its_raw_scores_are_not() -> None:
    assert joined(window(0.9, 0.2), [0.5]) == (tuple(window(0.9, 0.2)), (0.1,))
    assert joined(window(0.9, 0.0), []).window == tuple(window(0.9, 0.0))
    assert joined([], [0.5]).below == (0.5,)
    found = joined(window(1.0, 0.5, 0.0), [0.5, 0.25])
    assert [one.score for one in found.window] == pytest.approx([1.0, 0.5, LEAST], abs=LEAST)
    assert [one.raw_score for one in found.window] == [-1.0, -0.5, 0.0]
    assert found.below == pytest.approx((LEAST / 2, LEAST / 4))


PASSAGES = ["the moon", "salt water", "water salt bread", "bees", "", "a salt sea"]
QUERY = "salt water"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.write(tmp_path_factory.mktemp("model"))


def test_the_logit_is_the_models_own(folder: Path) -> None:
    found = CrossEncoder.load(folder, 32).logits(QUERY, PASSAGES)
    assert found.tolist() == [tiny_model.logit(QUERY, text) for text in PASSAGES]
    assert len(set(found.tolist())) == 3  # the model reads its texts
    short = CrossEncoder.load(folder, 12)
    assert len({*short.logits("salt", ["the " * 20, "the " * 20 + "salt"]).tolist()}) == 1
    assert len({*short.logits("salt", ["the", "the salt"]).tolist()}) == 2
    assert CrossEncoder.load(folder, 32).logits(QUERY, []).shape == (0,)


def test_the_score_is_the_sigmoid_and_the_fused_one_is_left_aside(folder: Path) -> None:
    said = dict(enumerate(PASSAGES))
    encoding = CrossEncoding(CrossEncoder.load(folder, 32), lambda ids: [said[i] for i in ids])
    for fused in ([0.9, 0.8, 0.7], [0.1, 0.1, 0.1]):
        found = encoding.rerank(QUERY, [1, 0, 5], fused)
        assert [one.raw_score for one in found] == [1.0, -3.0, -1.0]
        assert [one.score for one in found] == pytest.approx([
            1 / (1 + math.exp(-raw)) for raw in (1, -3, -1)
        ])
    at = np.array([-1e300, -745.0, -1.0, 0.0, 1.0, 745.0, 1e300])
    scores = sigmoid(at)
    assert np.isfinite(scores).all()
    assert (np.diff(scores) >= 0).all()
    assert (scores[0], scores[3], scores[-1]) == (0.0, 0.5, 1.0)


@given(st.lists(st.lists(st.sampled_from(WORDS[4:]), max_size=12), max_size=3 * BATCH))
def test_a_score_depends_on_the_pair_alone(folder: Path, written: list[list[str]]) -> None:
    texts = [" ".join(words) for words in written]
    model = CrossEncoder.load(folder, 64)
    found = model.logits(QUERY, texts)
    assert found.tolist() == [tiny_model.logit(QUERY, text) for text in texts]
    assert model.logits(QUERY, texts[::-1]).tolist() == found[::-1].tolist()


@pytest.mark.parametrize("name", ["model.onnx", ""])
def test_an_absent_file_is_a_feature_unavailable(tmp_path: Path, name: str) -> None:
    folder = tiny_model.write(tmp_path / "model") if name else tmp_path / "nowhere"
    if name:
        (folder / name).unlink()
    with pytest.raises(FeatureUnavailable, match=name or "nowhere"):
        CrossEncoder.load(folder, 32)


WEIGHTS = b"weights"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package that carries a file; importing it would fail."""
    folder = tmp_path / "site" / "carrier_of_a_model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('the code of a carrier was run')")
    (folder / "weights.bin").write_bytes(WEIGHTS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    embedder._verified.cache_clear()  # noqa: SLF001  one carrier a test
    return folder


def pinned(inside: str = "weights.bin", sha256: str = "") -> ModelFile:
    wanted = sha256 or hashlib.sha256(WEIGHTS).hexdigest()
    return ModelFile("carrier_of_a_model", inside, wanted)


def test_the_pinned_file_is_found_and_no_code_is_run(package: Path) -> None:
    absent = ModelFile("no_such_carrier", "weights.bin", "0" * 64)
    for wrong, why in (
        (pinned(sha256="0" * 64), "pinned is 0000"),
        (pinned("other.bin"), r"other\.bin"),
        (absent, "no_such_carrier"),
    ):
        with pytest.raises(ModelNotReady, match=why):
            wrong.path()
    (package / "weights.bin").write_bytes(b"cut")
    with pytest.raises(ModelNotReady):
        pinned().path()
    (package / "weights.bin").write_bytes(WEIGHTS)
    assert pinned().path() == package / "weights.bin", "a failure is not remembered"


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"foobar", 0x85944171F73967E8),
        (b"chongo was here!\n", 0x46810940EFF5F915),
    ],
)
def test_published_values_of_the_hash(data: bytes, hashed: int) -> None:
    assert fnv1a_64(data) == hashed


def test_a_word_lands_in_its_bucket_with_its_sign() -> None:
    (found,) = HashEmbedder(10).embed(["a"])
    expected = np.zeros(10)
    expected[0xAF63DC4C8601EC8C % 10] = 1.0  # the highest bit of af... is set
    assert found.tolist() == expected.tolist()
    (found,) = HashEmbedder(10).embed(["fo"])
    assert found[0x08985907B541D342 % 10] == -1.0  # that of 08... is not
    texts = ["salt", "", "a word with \ud800 half a pair", "東京"]
    embedder = HashEmbedder(64)
    together = embedder.embed(texts)
    assert together.shape == (4, 64)
    assert together.dtype == np.float32
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.array_equal(together, alone)


MIXED = [
    "water",
    "",
    "How do I read a comma-separated file into a data frame?",
    "Loading a CSV into pandas",
    "The soprano sings an aria while the orchestra plays softly in the pit. " * 6,
    "!?",
    "東京 😀",
]


@pytest.fixture(scope="module")
def onnx() -> OnnxEmbedder:
    return OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)


@pytest.mark.parametrize("order", [1, -1])
def test_a_batch_of_mixed_lengths_is_its_texts_bit_for_bit(onnx: OnnxEmbedder, order: int) -> None:
    texts = MIXED[::order]
    alone = np.concatenate([onnx.embed([text]) for text in texts])
    assert np.array_equal(onnx.embed(texts), alone)


def test_what_is_shipped_is_what_the_script_draws(tmp_path: Path) -> None:
    from benchmarks import eight_bits_graph

    eight_bits_graph.write(tmp_path)
    for shipped in (vector_embedder.GRAPH, vector_embedder.PLACES):
        assert (tmp_path / shipped.name).read_bytes() == shipped.read_bytes()
