"""Reranking: files of token vectors, late interaction, the window, and a cross-encoder."""

from __future__ import annotations

import hashlib
import math
import struct
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness_engines.contract import EngineError, FeatureUnavailable, IndexUnavailable
from harness_engines.rerank import tokens
from harness_engines.rerank.cross_encoder import (
    BATCH,
    LEAST,
    CrossEncoder,
    CrossEncoding,
    Reranked,
    UnavailableReranker,
    joined,
    sigmoid,
)
from harness_engines.rerank.tokens import (
    Ids,
    LateInteraction,
    TokenStore,
    as_signs,
    maxsim,
    packed,
    spread,
    write_tokens,
)
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import ModelPass, OnnxEmbedder, model, unit
from harness_engines.vector.scan import Half
from tests.make import tiny_model
from tests.make.damage import overwrite
from tests.make.tiny_model import NAMES, WORDS

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


def refused(path: Path, why: str, by: str = BY, dimension: int = WIDE) -> None:
    with pytest.raises(IndexUnavailable, match=why):
        TokenStore.open(path, by, dimension)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    by_id=st.dictionaries(st.integers(-(2**40), 2**40), st.integers(0, 9), max_size=8),
    by=st.text("abc é", max_size=9),
)
def test_what_was_written_is_read(tmp_path: Path, by_id: dict[int, int], by: str) -> None:
    ids = sorted(by_id)
    held = [vectors(by_id[one], seed) for seed, one in enumerate(ids)]
    write(tmp_path / "tokens", by, ids, held)
    store = TokenStore.open(tmp_path / "tokens", by, WIDE)
    assert store.ids.tolist() == ids
    for one, expected in zip(ids, held, strict=True):
        assert np.array_equal(store.of(one), expected)


def test_the_layout_is_the_one_that_is_described(path: Path, tmp_path: Path) -> None:
    raw = path.read_bytes()
    assert raw[:4] == b"TOKS"
    assert struct.unpack_from("<HHIQQ", raw, 4) == (1, len(BY), WIDE, 3, 8)
    assert raw[40:47] == BY.encode()
    assert struct.unpack_from("<7q", raw, 48) == (4, 7, 90, 0, 3, 3, 8)
    assert raw[128:] == np.concatenate([vectors(3, 1), vectors(5, 3)]).tobytes()
    refused(path, "'another'", by="another")
    refused(path, "dimension", dimension=WIDE + 1)
    refused(tmp_path / "nowhere", "nowhere")
    raw = path.read_bytes()
    padding = {*range(28, 32), *range(36, 40)}  # of the header, beside what the digest covers
    for at in sorted(set(range(len(raw))) - padding):
        broken = bytearray(raw)
        broken[at] ^= 1
        overwrite(path, broken)
        refused(path, "Build the token vectors anew")


@pytest.mark.parametrize("unknown", [3, 5, 91])
def test_a_text_that_is_not_there_is_an_engine_error(path: Path, unknown: int) -> None:
    with pytest.raises(EngineError, match=f"text {unknown} "):
        TokenStore.open(path, BY, WIDE).of(unknown)


@pytest.mark.parametrize("length", [0, 3, 39, 40, 100, -1])
def test_a_file_that_was_cut_is_noticed(path: Path, length: int) -> None:
    overwrite(path, path.read_bytes()[:length])
    refused(path, "invalid file of token vectors|bytes, its header says")


def test_what_is_open_stays_whole_when_the_file_is_replaced(path: Path) -> None:
    store = TokenStore.open(path, BY, WIDE)
    write(path, BY, [4], [vectors(2, 9)])
    assert np.array_equal(store.of(90), vectors(5, 3))
    assert np.array_equal(TokenStore.open(path, BY, WIDE).of(4), vectors(2, 9))


def test_a_writing_that_fails_leaves_the_old_file(path: Path) -> None:
    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    before = path.read_bytes()
    one = np.array([1], dtype=np.int64)
    with pytest.raises(KeyboardInterrupt):
        tokens.write(path, BY, WIDE, one, one, fill=fails)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("ids", "lengths"), [([2, 1], [1, 1]), ([1, 1], [1, 1]), ([1], [1, 1]), ([1], [-1])]
)
def test_a_mismatch_is_refused(tmp_path: Path, ids: list[int], lengths: list[int]) -> None:
    given = np.array(ids), np.array(lengths)
    with pytest.raises(ValueError, match="ascend"):
        tokens.write(tmp_path / "tokens", BY, WIDE, *given, fill=lambda *_: None)


SIGNED, TOKENS = 32, 7


@pytest.fixture
def vectors_of_signs() -> Half:
    return np.random.default_rng(4).normal(size=(TOKENS, SIGNED)).astype(np.float16)


@pytest.fixture
def file(tmp_path: Path, vectors_of_signs: Half) -> Path:
    def fill(slab: Half, offsets: Ids) -> None:
        slab[offsets[0] : offsets[-1]] = packed(vectors_of_signs)

    lengths = np.array([2, TOKENS - 2])
    path, (name, width) = tmp_path / "file", as_signs("e", SIGNED)
    tokens.write(path, name, width, np.array([3, 9]), lengths, fill=fill)
    return path


def test_signs_come_back_from_the_file_as_unit_vectors(file: Path, vectors_of_signs: Half) -> None:
    store = TokenStore.open(file, "e", SIGNED, one_bit=True)
    found = np.concatenate([store.of(3), store.of(9)]).astype(np.float32)
    assert len(store) == 2
    assert (np.sign(found) == np.where(vectors_of_signs >= 0, 1, -1)).all()
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(TOKENS), abs=1e-3)
    with pytest.raises(IndexUnavailable, match="dimension 2"):
        TokenStore.open(file, "e", SIGNED)
    with pytest.raises(IndexUnavailable, match="embedder"):
        TokenStore.open(file, "other", SIGNED, one_bit=True)
    with pytest.raises(ValueError, match="40 components"):
        as_signs("e", 40)


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


def test_what_is_known_of_tokens_costs_nothing(tmp_path: Path) -> None:
    written(tmp_path, TEXTS, Words())
    again = Words()
    half = embed_all(TEXTS, again, tmp_path / "cache")
    assert again.seen == []
    assert np.array_equal(half, Words().embed(TEXTS).astype(np.float16))
    written(tmp_path, TEXTS, Words())
    again = Words()
    check(written(tmp_path, TEXTS[::-1], again), TEXTS[::-1])
    assert again.seen == []
    check(written(tmp_path, [*TEXTS, "new"], again), [*TEXTS, "new"])
    assert again.seen == ["new"]


@pytest.mark.parametrize("damage", [b"", b"no archive", None, "lengths"])
def test_a_broken_part_is_read_again(tmp_path: Path, damage: bytes | str | None) -> None:
    texts = ["one", "two words"]
    written(tmp_path, texts, Words())
    (part,) = (tmp_path / "cache" / "tokens").rglob("*.npz")
    if damage == "lengths":
        with np.load(part) as whole:
            held = {name: whole[name] for name in whole.files}
        np.savez(part, allow_pickle=False, **{**held, "lengths": held["lengths"] + 1})
    elif isinstance(damage, bytes):
        part.write_bytes(damage)
    else:
        part.write_bytes(part.read_bytes()[:-30])
    again = Words()
    check(written(tmp_path, texts, again), texts)
    assert sorted(again.seen) == texts


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


def test_a_text_or_a_query_without_tokens_is_like_nothing() -> None:
    assert maxsim(halves(["a"]), halves([])) == 0.0
    assert maxsim(halves([]), halves(["a"])) == 0.0


@given(st.lists(st.floats(-1, 1), max_size=9))
def test_spread_scores_reach_from_0_to_1_in_the_same_order(scores: list[float]) -> None:
    given_scores: NDArray[np.float64] = np.array(scores)
    found = spread(given_scores)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[np.argsort(given_scores, kind="stable")] == np.sort(found)).all()
    if scores:
        assert found.max() == 1.0
        assert found.min() == (0.0 if min(scores) < max(scores) else 1.0)


@pytest.mark.parametrize("fused_weight", [0.0, 0.4, 1.0])
def test_the_blend_is_of_both_min_maxed_scores(store: TokenStore, fused_weight: float) -> None:
    found = LateInteraction(Words(), store, fused_weight).rerank("salt water", ALL, FALLING)
    raw = [maxsim(halves(["salt", "water"]), halves(text.split())) for text in SAID]
    assert [one.raw_score for one in found] == raw
    ours = (np.array(raw) - min(raw)) / (max(raw) - min(raw))
    theirs = (np.array(FALLING) - 0.2) / 0.8
    blend = fused_weight * theirs + (1 - fused_weight) * ours
    assert [one.score for one in found] == pytest.approx(blend.tolist(), abs=1e-6)


def test_equal_texts_keep_their_fused_order(store: TokenStore) -> None:
    found = LateInteraction(Words(), store, 0.4).rerank("salt water", ALL, FALLING)
    assert max(ALL, key=lambda at: found[at].score) == 1
    assert found[1].raw_score == found[5].raw_score == pytest.approx(1.0, abs=1e-3)
    assert found[1].score > found[5].score
    alone = LateInteraction(Words(), store, 0.0).rerank("salt water", [5, 1], [0.9, 0.8])
    assert alone[0] == alone[1]


def test_the_order_of_the_window_does_not_matter(store: TokenStore) -> None:
    reranker = LateInteraction(Words(), store, 0.4)
    found = reranker.rerank("bees of salt", ALL, FALLING)
    assert reranker.rerank("bees of salt", ALL[::-1], FALLING[::-1]) == found[::-1]
    reranker = LateInteraction(Words(), store, 0.4)
    assert [one.score for one in reranker.rerank("salt", [0], [0.3])] == [1.0]
    assert reranker.rerank("salt", [], []) == []
    with pytest.raises(EngineError, match="text 99 "):
        LateInteraction(Words(), store, 0.4).rerank("salt", [1, 99], [1.0, 0.5])


def test_reader_and_weight_make_the_identity(store: TokenStore) -> None:
    known = LateInteraction(Words(), store, 0.4).identity
    assert LateInteraction(Words("other"), store, 0.4).identity != known
    assert LateInteraction(Words(), store, 0.5).identity != known
    assert LateInteraction.identity_of(Words(), 0.4) == known


SHARES = st.floats(0, 1)
FUSED = st.lists(st.integers(1, 999).map(lambda n: n / 1_000), unique=True, max_size=8)


def window(*scores: float) -> list[Reranked]:
    return [Reranked(score, -score) for score in scores]


@given(st.lists(SHARES, min_size=1, max_size=8), FUSED)
def test_scores_are_shares_above_the_rest(scores: list[float], rest: list[float]) -> None:
    below = sorted(rest, reverse=True)
    found = joined(window(*scores), below)
    floor = min(one.score for one in found.window)
    assert all(0.0 <= one.score <= 1.0 for one in found.window)
    assert list(found.below) == sorted(set(found.below), reverse=True)
    assert all(0.0 < score < floor for score in found.below)
    ups = [a.score <= b.score for a in found.window for b in found.window]
    assert [a <= b for a in scores for b in scores] == ups or min(scores) < LEAST


def test_a_window_that_reaches_down_to_nothing_is_lifted_and_its_raw_scores_are_not() -> None:
    assert joined(window(0.9, 0.2), [0.5]) == (tuple(window(0.9, 0.2)), (0.1,))
    assert joined(window(0.9, 0.0), []).window == tuple(window(0.9, 0.0))
    assert joined([], [0.5]).below == (0.5,)
    found = joined(window(1.0, 0.5, 0.0), [0.5, 0.25])
    assert [one.score for one in found.window] == pytest.approx([1.0, 0.5, LEAST], abs=LEAST)
    assert [one.raw_score for one in found.window] == [-1.0, -0.5, 0.0]
    assert found.below == pytest.approx((LEAST / 2, LEAST / 4))


@pytest.mark.parametrize(
    "bad",
    [
        Reranked(math.nan, 0.0),
        Reranked(1.5, 0.0),
        Reranked(-0.1, 0.0),
        Reranked(0.5, math.inf),
        Reranked(0.5, math.nan),
    ],
)
def test_a_score_that_is_no_share_is_an_engine_error(bad: Reranked) -> None:
    with pytest.raises(EngineError, match="the reranker scored"):
        joined([Reranked(0.5, 0.0), bad], [])


@pytest.mark.parametrize("kind", [FeatureUnavailable, EngineError])
def test_an_absent_one_says_why(kind: type[FeatureUnavailable]) -> None:
    with pytest.raises(kind, match="no such folder"):
        UnavailableReranker(kind("no such folder")).rerank("text", [1], [0.5])


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


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", ""])
def test_an_absent_file_is_a_feature_unavailable(tmp_path: Path, name: str) -> None:
    folder = tiny_model.write(tmp_path / "model") if name else tmp_path / "nowhere"
    if name:
        (folder / name).unlink()
    with pytest.raises(FeatureUnavailable, match=name or "nowhere"):
        CrossEncoder.load(folder, 32)


def test_weights_and_words_and_length_make_the_identity(folder: Path, tmp_path: Path) -> None:
    found = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    assert CrossEncoder.load(folder, 32, found.upper()).sha256 == found
    with pytest.raises(FeatureUnavailable, match=found):
        CrossEncoder.load(folder, 32, "0" * 64)
    known = CrossEncoder.load(folder, 32).identity
    assert CrossEncoder.load(folder, 33).identity != known
    assert CrossEncoder.load(tiny_model.write(tmp_path, outputs=2), 32).identity != known
    tiny_model.write(tmp_path)
    assert CrossEncoder.load(tmp_path, 32).identity == known
    with (tmp_path / "tokenizer.json").open("a", encoding="utf-8") as words:
        words.write("\n")
    assert CrossEncoder.load(tmp_path, 32).identity != known


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_an_engine_error(tmp_path: Path, name: str) -> None:
    folder = tiny_model.write(tmp_path)
    raw = (folder / name).read_bytes()
    (folder / name).write_bytes(raw[: len(raw) // 2])
    with pytest.raises(EngineError, match="cannot be opened"):
        CrossEncoder.load(folder, 32)


def test_a_model_of_another_shape_is_an_engine_error(tmp_path: Path) -> None:
    tiny_model.write(tmp_path, inputs=("pixels", *NAMES[1:]))
    with pytest.raises(EngineError, match="reads pixels"):
        CrossEncoder.load(tmp_path, 32)
    model = CrossEncoder.load(tiny_model.write(tmp_path, outputs=2), 32)
    with pytest.raises(EngineError, match=r"\(6, 2\) for 6 pairs"):
        model.logits(QUERY, PASSAGES)
