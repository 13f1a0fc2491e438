"""``harness tune``: an arm tuned on one split, and decisions that know what it has seen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.core.engine import Searcher
from harness.core.errors import BadFile
from harness.core.records import Query
from harness.corpus.tuning import read
from harness.replay.drive import TimedOutcome, observe
from tests.cli.conftest import Harness, Said
from tests.make.toy import GATES, HEAD, STEP, Toy

pytestmark = pytest.mark.slow
SPACE = """\
[search]
measure = "nDCG@10"
folds = 4
seed = 7
confidence = 0.95
resamples = 1000

[space]
title_weight = [1.0, 2.0, 5.0]
joined = ["both", "words"]
"""
TUNE = ("tune", "tantivy", "--dataset", "beir", "--search", "space.toml", "--out", "mine.toml")
RUN = ("run", "--arms", "fts5,mine.toml", "--control", "fts5", "--dataset", "beir", "--out", "out")


@pytest.fixture
def split(project: Toy) -> Toy:
    """Give the collection of the project a split to tune on, and one for the decision."""
    qrels = project.root / "beir" / "qrels"
    head, *judged = (qrels / "test.tsv").read_text().splitlines(keepends=True)
    for name, odd in (("train", 1), ("test", 0)):
        mine = [line for line in judged if int(line[1:3]) % 2 == odd]
        (qrels / f"{name}.tsv").write_text(head + "".join(mine))
    (project.root / "space.toml").write_text(SPACE)
    relaxed = HEAD + STEP + GATES
    for strict, loose in (
        ("min_queries = 20", "min_queries = 5"),
        ("margin = 0.15", "margin = 0.3"),
        ("max_share = 0.15", "max_share = 0.5"),
        ("floor = 0.5", "floor = 0.4"),
    ):
        relaxed = relaxed.replace(strict, loose)
    (project.root / "policy" / "pairwise.toml").write_text(relaxed)
    return project


def refused(said: Said) -> str:
    """Give the last line, which says what is wrong; before it are notes on the data."""
    assert said.code == 2
    *notes, last = said.err.splitlines()
    assert all(line.startswith("note: ") or line.endswith("...") for line in notes)
    return last


def decided(project: Toy) -> tuple[str, str]:
    """Outcome of the step, and the page."""
    (about,) = json.loads((project.root / "out" / "decision.json").read_text())["datasets"]
    return about["steps"][0]["outcome"], (project.root / "out" / "index.html").read_text()


def test_planted_leakage_is_found_and_a_split_that_was_not_seen_decides(
    split: Toy, harness: Harness
) -> None:
    said = harness(*TUNE)
    assert said.code == 0
    assert "tantivy: 6 settings on 21 queries of beir/train" in said.out
    assert "best, expected on other queries" in said.out
    assert harness(*RUN, "--exit-code").code == 0
    assert decided(split)[0] == "promote"
    assert "mine was tuned on beir/train, and on none of these queries." in decided(split)[1]

    tuned_on = "mine was tuned on 21 of the 21 judged queries (beir/train)"
    assert harness(*RUN, "--split", "train", "--exit-code").code == 3
    outcome, page = decided(split)
    assert outcome == "hold"
    assert f"INVALID: {tuned_on}" in page
    again = harness(
        "gate", "--from", "out", "--control", "fts5", "--policy", "policy/pairwise.toml"
    )
    assert again.code == 3

    policy = split.root / "policy" / "pairwise.toml"
    allowed = 'evidence_days = 2\ntuned_reason = "a smoke test"'
    policy.write_text(policy.read_text().replace("evidence_days = 2", allowed))
    assert harness(*RUN, "--split", "train", "--exit-code").code == 0
    outcome, page = decided(split)
    assert outcome == "promote"
    assert f"Allowed by the policy: {tuned_on}. Its reason: a smoke test." in page
    assert harness("verify", "--from", "out").code == 0


def test_another_id_and_one_query_of_many_hide_nothing(split: Toy, harness: Harness) -> None:
    harness(*TUNE)
    beir = split.root / "beir"
    queries = (beir / "queries.jsonl").read_text()
    (seen,) = [line for line in queries.splitlines() if '"q01"' in line]
    moved = json.dumps(json.loads(seen) | {"_id": "new", "text": json.loads(seen)["text"].upper()})
    (beir / "queries.jsonl").write_text(queries + moved + "\n")
    test = beir / "qrels" / "test.tsv"
    test.write_text(test.read_text() + "new\td01\t1\n")
    assert harness(*RUN, "--exit-code").code == 3
    assert "mine was tuned on 1 of the 21 judged queries" in decided(split)[1]


def test_the_record_says_what_was_searched_and_the_arm_keeps_its_comments(
    split: Toy, harness: Harness
) -> None:
    (split.root / "given.toml").write_text(
        'summary = "mine"\nstack = "tantivy"\n[settings]\nlanguage = "none"  # no "stems" #\n'
        'bm25_over = "document"\ntitle_weight = 2.0# titles\ntext_weight = 1.0\njoined = "both"\n'
    )
    space = SPACE.replace('joined = ["both", "words"]', 'language = ["english", "none"]')
    (split.root / "space.toml").write_text(space)
    words = ("tune", "given.toml", *TUNE[2:])
    assert harness(*words).code == 0
    record = read(split.root / "mine.tuning.json")
    assert (record.arm, record.candidates, record.folds, record.seed) == ("given", 6, 4, 7)
    assert record.space == {"title_weight": (1.0, 2.0, 5.0), "language": ("english", "none")}
    assert record.expected <= record.apparent
    assert [one.dataset for one in record.collections] == ["beir"]
    text = (split.root / "mine.toml").read_text()
    assert '# no "stems" #' in text
    assert "# titles" in text
    assert 'tuning = "mine.tuning.json"' in text
    for key, value in record.settings.items():
        assert f"{key} = {json.dumps(value)}" in text
    assert harness(*words).code == 0
    assert (split.root / "mine.toml").read_text() == text


def test_a_killed_search_asks_no_query_twice(
    split: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def counted(searcher: Searcher, query: Query, k: int, limit: int) -> TimedOutcome:
        asked.append((searcher.manifest.fingerprint, query.query_id))
        if len(asked) == stop:
            raise KeyboardInterrupt
        return observe(searcher, query, k, limit)

    monkeypatch.setattr("harness.tune.stage.observe", counted)
    stop = 71
    assert harness(*TUNE).code == 130
    assert not (split.root / "mine.toml").exists()
    before, stop = set(asked[:63]), 0
    del asked[:]
    assert harness(*TUNE).code == 0
    assert not before & set(asked)
    assert len(before) + len(asked) == len(set(asked) | before) == 6 * 21
    killed = (split.root / "mine.tuning.json").read_bytes()
    shutil.rmtree(split.root / ".cache" / "tune")
    assert harness(*TUNE).code == 0
    assert (split.root / "mine.tuning.json").read_bytes() == killed


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("folds = 4", "folds = 40", "21 independent queries make no 40 folds"),
        ("folds = 4", "", "search.folds: Field required"),
        ("title_weight", "title", "space.toml: no setting of the arm named 'title'"),
        (
            "5.0]",
            '"much"]',
            "space.toml: title_weight = much, joined = both: settings.title_weight",
        ),
        ("[space]", "[space]\nb = []", "values.b"),
        ('"nDCG@10"', '"nDGC@10"', "nDGC@10"),
        ('"nDCG@10"', '"P(rel=99)@5"', "beir: has no judged query with a value of P(rel=99)@5"),
        ("confidence = 0.95", "confidence = 0.9999999999999999", "less than or equal to 0.999999"),
        ("[search]", "[search", "space.toml:1: not the file of a search"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(
    split: Toy, harness: Harness, old: str, new: str, told: str
) -> None:
    (split.root / "space.toml").write_text(SPACE.replace(old, new, 1))
    assert told in refused(harness(*TUNE))
    assert not (split.root / "mine.toml").exists()


@pytest.mark.parametrize(
    ("to", "told"),
    [("space.toml", "would change space.toml"), ("params.yaml", "is there already"),
     ("mine.txt", "name a .toml file"), ("policy/x.toml", "would change")],
)  # fmt: skip
def test_what_is_not_its_own_is_not_replaced(
    split: Toy, harness: Harness, to: str, told: str
) -> None:
    before = {path: path.read_bytes() for path in split.root.rglob("*") if path.is_file()}
    assert told in harness(*TUNE[:-1], to).error
    assert all(path.read_bytes() == data for path, data in before.items())


def test_a_file_that_is_called_like_the_record_is_not_replaced(
    split: Toy, harness: Harness
) -> None:
    (split.root / "mine.tuning.json").write_text("{}")
    assert "mine.tuning.json: is there already" in harness(*TUNE).error
    assert (split.root / "mine.tuning.json").read_text() == "{}"


def test_an_arm_whose_record_is_gone_is_not_indexed(split: Toy, harness: Harness) -> None:
    harness(*TUNE)
    (split.root / "mine.tuning.json").unlink()
    assert "mine.tuning.json: no such file" in refused(harness(*RUN))
    with pytest.raises(BadFile):
        read(Path(split.root / "mine.tuning.json"))
