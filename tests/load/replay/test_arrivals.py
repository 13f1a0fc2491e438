"""Arrivals are drawn beforehand, the same for the same seed, and mixed as was asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import BadFile, HarnessError, UnknownName
from harness.core.records import Query
from harness.load.workers import NS_PER_S, Mix, poisson, recorded
from tests.make.virtual import questions

QUERIES = questions(30)


def test_gaps_are_those_of_a_poisson_process() -> None:
    arrivals = poisson(Mix(QUERIES, {}), 1000.0, 60.0, (1,))
    gaps = np.diff(arrivals.offsets_ns) / NS_PER_S
    assert len(arrivals) == pytest.approx(60_000, rel=0.02)
    assert gaps.mean() == pytest.approx(1e-3, rel=0.02)
    assert gaps.std() == pytest.approx(1e-3, rel=0.03)
    assert (gaps > 1e-3).mean() == pytest.approx(np.exp(-1), rel=0.03)
    assert (np.diff(arrivals.offsets_ns) >= 0).all()
    assert arrivals.offsets_ns[-1] < 60 * NS_PER_S


def test_the_schedule_is_seeded() -> None:
    mix = Mix(QUERIES, {"short": 1, "long": 2})
    one, same, other = (poisson(mix, 50.0, 5.0, seed) for seed in ((1, 2), (1, 2), (1, 3)))
    assert one.offsets_ns.tolist() == same.offsets_ns.tolist()
    assert one.picks.tolist() == same.picks.tolist()
    assert one.offsets_ns.tolist() != other.offsets_ns.tolist()


def test_classes_are_drawn_by_their_weight_and_queries_within_alike() -> None:
    arrivals = poisson(Mix(QUERIES, {"short": 3, "long": 1}), 500.0, 60.0, (1,))
    counts = Counter(arrivals.classes)
    assert set(counts) == {"short", "long"}
    assert counts["short"] / len(arrivals) == pytest.approx(0.75, abs=0.02)
    for row, name in zip(arrivals.picks.tolist(), arrivals.classes, strict=True):
        assert name in QUERIES[row].slices
    of_short = Counter(row for row in arrivals.picks.tolist() if "short" in QUERIES[row].slices)
    assert len(of_short) == 10
    assert min(of_short.values()) > 0.8 * max(of_short.values())


def test_without_weights_every_query_is_alike() -> None:
    arrivals = poisson(Mix(QUERIES, {}), 500.0, 60.0, (1,))
    assert set(arrivals.picks.tolist()) == set(range(30))
    shares = Counter(arrivals.classes)
    assert set(shares) == {"short", "long", "all"}
    assert all(share / len(arrivals) == pytest.approx(1 / 3, abs=0.02) for share in shares.values())


def test_a_query_of_two_classes_is_asked_for_either() -> None:
    both = [Query("a", "a", ("one", "two")), Query("b", "b", ("two",))]
    arrivals = poisson(Mix(both, {"two": 1}), 100.0, 10.0, (1,))
    assert set(arrivals.picks.tolist()) == {0, 1}
    assert set(arrivals.classes) == {"two"}


@pytest.mark.parametrize(("rate", "seconds"), [(0.0, 1.0), (1.0, 0.0), (float("inf"), 1.0)])
def test_a_rate_is_above_0(rate: float, seconds: float) -> None:
    with pytest.raises(HarnessError, match="above 0"):
        poisson(Mix(QUERIES, {}), rate, seconds, (1,))


def test_a_trial_in_which_nothing_arrives_is_refused() -> None:
    with pytest.raises(HarnessError, match="nothing arrives"):
        poisson(Mix(QUERIES, {}), 1e-6, 1.0, (1,))


def test_a_mix_names_what_there_is() -> None:
    with pytest.raises(UnknownName, match="no slice named 'shrot'; there is long, short"):
        Mix(QUERIES, {"shrot": 1})
    with pytest.raises(HarnessError, match="weight of short is 0"):
        Mix(QUERIES, {"short": 0})
    with pytest.raises(HarnessError, match="the data set is empty"):
        Mix([], {})


def test_recorded_arrivals_begin_at_0(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    path.write_text(
        '{"at_s": 100.5, "query_id": "q003"}\n'
        '{"at_s": 100.5, "query_id": "q004", "who": 3}\n'
        '{"at_s": 102.5, "query_id": "q003"}\n'
    )
    arrivals = recorded(path, QUERIES)
    assert arrivals.offsets_ns.tolist() == [0, 0, 2 * NS_PER_S]
    assert arrivals.picks.tolist() == [3, 4, 3]
    assert arrivals.classes == ("short", "long", "short")
    assert arrivals.rate == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"at_s": 1, "query_id": "q001"}\nnonsense\n', r"day.jsonl:2: no arrival"),
        ('{"at_s": 1}\n', r"day.jsonl:1: no arrival \('query_id'\)"),
        ("[1]\n", r"day.jsonl:1: no arrival"),
        ('{"at_s": 2, "query_id": "q001"}\n{"at_s": 1, "query_id": "q001"}\n', ":2: 1 s comes"),
        ('{"at_s": NaN, "query_id": "q001"}\n', "NaN is not JSON"),
        ('{"at_s": 1, "query_id": "q999"}\n', "'q999' is not a query"),
        ('{"at_s": 1, "query_id": ["q001"]}\n', r"\['q001'\] is not a query"),
        ('{"at_s": 1, "query_id": "q001"}\n', "have no rate"),
        ("", "have no rate"),
    ],
)
def test_a_recording_that_is_none_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "day.jsonl"
    path.write_text(text)
    with pytest.raises(BadFile, match=problem):
        recorded(path, QUERIES)
    with pytest.raises(BadFile, match="missing file"):
        recorded(tmp_path / "absent.jsonl", QUERIES)
