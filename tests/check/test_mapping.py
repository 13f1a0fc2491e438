"""``contract.mapping``: each check says in words what is wrong with a file over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.check import checks
from harness.check.checks import Sample, check
from harness.check.subject import Finding, Outcome
from tests.make.search_server import DOCUMENTS, Served, serving

pytestmark = pytest.mark.slow

SAMPLE = Sample(DOCUMENTS, ("red cone", "blue cone", "green ball"), own=False)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


def findings(
    served: Served, folder: Path, sample: Sample | None = SAMPLE, **changed: str | None
) -> dict[str, Finding]:
    path = folder / "mine.toml"
    path.write_text(served.toml(**changed), encoding="utf-8")
    found = check(str(path), folder / "cache", sample).findings
    assert [one.check for one in found] == list(checks.MAPPING_CHECKS)
    return {one.check.name: one for one in found}


def test_a_file_that_fits_keeps_all_promises(served: Served, tmp_path: Path) -> None:
    found = findings(served, tmp_path)
    assert {one.outcome for one in found.values()} == {Outcome.HOLDS}, found


def ascending(answer: dict[str, Any]) -> None:
    for at, hit in enumerate(answer["hits"]):
        hit["score"] = float(at)


def alternating() -> Callable[[dict[str, Any]], None]:
    """Turn equal scores around in every second answer."""
    turn = count()

    def change(answer: dict[str, Any]) -> None:
        if next(turn) % 2:
            hits = answer["hits"]
            hits.sort(key=lambda hit: (-hit["score"], [-ord(c) for c in hit["id"]]))

    return change


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("answers", lambda a: a.pop("hits"), "hits: nothing matches 'hits' | Correct the key"),
        ("answers", lambda a: [hit.pop("id") for hit in a["hits"]], "hit 1 has no id"),
        ("finds", lambda a: a["hits"].clear(), "none of 3 queries of the data set | --dataset"),
        ("once", lambda a: a.update(hits=a["hits"][:1] * 2), "is shown 2 times | collapse"),
        ("descending scores", ascending, "hit 2 scores 1, the one above 0 | no distance"),
        ("order of ties", alternating(), "instead of | sort by score and then by id"),
        ("total", lambda a: a.update(total=1), "total is 1, and 4 hits are shown | of a page"),
    ],
)
def test_what_is_wrong_is_said_in_words(
    served: Served, tmp_path: Path, name: str, change: Callable[..., object], words: str
) -> None:
    served.change = change
    broken = findings(served, tmp_path)[name]
    assert broken.outcome is Outcome.BROKEN
    for said in words.split(" | "):
        assert said in str(broken)


def test_ids_that_the_data_set_lacks_are_named(served: Served, tmp_path: Path) -> None:
    served.change = lambda answer: [hit.update(id=f"x{hit['id']}") for hit in answer["hits"]]
    kept = findings(served, tmp_path, unknown_ids='"keep"')["ids"]
    assert "no hit is a document of the data set, the first has the id 'xd0'" in kept.violations[0]
    refused = findings(served, tmp_path)["answers"]
    assert "is the id of no document of the data set. Correct id" in refused.violations[0]


def test_a_number_of_hits_that_is_ignored_is_named(served: Served, tmp_path: Path) -> None:
    sent = """'{"text": "${text}", "limit": "${k}"}'"""
    broken = findings(served, tmp_path, body=sent)["k"]
    assert "4 hits were shown, 1 were requested" in broken.violations[0]
    assert "such as size, limit or rows" in broken.check.hint


def test_without_a_data_set_ids_are_not_checked(served: Served, tmp_path: Path) -> None:
    found = findings(served, tmp_path, None)
    assert found["ids"].outcome is Outcome.NOT_CHECKED
    assert "--dataset" in found["ids"].reason
    assert found["processes"].outcome is Outcome.NOT_CHECKED
    assert "queries of the harness has a hit" in str(found["finds"])


def test_what_the_file_does_not_read_is_not_checked(served: Served, tmp_path: Path) -> None:
    found = findings(served, tmp_path, score=None, total=None)
    assert found["total"].reason == "the file reads no total"
    assert found["descending scores"].reason == "the file reads no score"
