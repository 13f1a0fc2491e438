"""The scripts behind docs/findings.md: they see an effect that is there, and none that is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import adaptive, choices, token_vectors
from benchmarks.legs import Collection, Leg, Near
from harness.core.qrels import Qrels

DOCUMENTS, QUERIES, DIMENSION = 40, 12, 16


class Small(Collection):
    """A collection whose legs are given: vectors find what is relevant, and words half of it."""

    def __init__(self, name: str) -> None:
        super().__init__(Path(name), "test", Path())
        rng = np.random.default_rng(5)
        vectors = rng.normal(size=(DOCUMENTS, DIMENSION)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        ids = [f"d{row:02}" for row in range(DOCUMENTS)]
        asked = {f"q{row:02}": vectors[row] for row in range(QUERIES)}
        legs = {q: {ids[(at + at % 2) % DOCUMENTS]: 2.0} for at, q in enumerate(asked)}
        near = Near(ids, vectors, asked)
        given = {
            "near": near,
            "words": legs,
            "queries": dict.fromkeys(asked, "x y"),
            "qrels": Qrels({q: {ids[at]: 1} for at, q in enumerate(asked)}),
            "vectors": {q: near.cosines(q, legs[q]) for q in asked},
        }
        self.__dict__.update(given)


@pytest.fixture(scope="module")
def small() -> Small:
    return Small("small")


def test_a_row_points_the_way_of_the_second_side_and_its_mean_holds_all(small: Small) -> None:
    choice = choices.Choice("vectors", choices.words, lambda of: of.vectors)
    found = choices.row(choice, [small, Small("other")])
    assert found.each["small"].value == pytest.approx(0.5)
    assert found.mean[0] == pytest.approx(0.5)
    same = choices.row(
        choices.Choice("same", choices.words, choices.words), [small, Small("other")]
    )
    assert same.each["small"].value == same.mean[0] == 0
    assert "| vectors | +0.5000 [" in "\n".join(choices.table([found]))


def test_fewer_bits_move_cosines_more_and_rescoring_takes_it_back(small: Small) -> None:
    near = small.near

    def apart(leg: Leg) -> float:
        return max(
            abs(score - float(near.documents[near.row[d]] @ near.queries[q]))
            for q, of in leg.items()
            for d, score in of.items()
        )

    assert apart(choices.quantised(small, 127)) < 0.02 < apart(choices.quantised(small, 3))
    assert apart(choices.rescored(small, 20)) < 1e-6
    assert max(len(of) for of in choices.rescored(small, 20).values()) == 20


def test_a_share_is_learnt_where_a_feature_tells_it_and_kept_where_none_does() -> None:
    rng = np.random.default_rng(8)

    def table(name: str, *, told: bool) -> adaptive.Table:
        features = rng.normal(size=(200, 3))
        wanted = np.where((features[:, 0] if told else rng.normal(size=200)) > 0, 1.0, 0.2)
        values = 1 - np.abs(adaptive.SHARES[None, :] - wanted[:, None])
        return adaptive.Table(name, [f"q{at}" for at in range(200)], features, values)

    for told in (True, False):
        tables = [table(name, told=told) for name in "abc"]
        model, _ = adaptive.chosen(tables[:2])
        held = tables[2]
        gain = held.at(model.shares(held.features))[0].mean() - held.values.mean(axis=0).max()
        assert bool(gain > 0.2) is told
        assert gain > -0.02


@pytest.mark.parametrize("form", token_vectors.FORMS, ids=lambda form: form.name)
def test_a_form_of_token_vectors_gives_back_what_it_kept(form: token_vectors.Form) -> None:
    rng = np.random.default_rng(2)
    spread = np.linspace(2, 0.02, 384)
    tokens = (rng.normal(size=(2_000, 384)) * spread).astype(np.float32)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    restored = form.restored(tokens)(tokens[:50])
    cosines = np.sum(restored * tokens[:50], axis=1) / np.linalg.norm(restored, axis=1)
    assert restored.shape == (50, 384)
    assert cosines.min() > 0.5
    assert cosines.mean() < 1 - 1e-7


def test_a_plot_says_what_lies_beyond_its_edge(tmp_path: Path, small: Small) -> None:
    choice = choices.Choice("vectors", choices.words, lambda of: of.vectors)
    choices.plot([choices.row(choice, [small, Small("other")])], tmp_path / "p.svg")
    first = (tmp_path / "p.svg").read_bytes()
    choices.plot([choices.row(choice, [small, Small("other")])], tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_bytes() == first
