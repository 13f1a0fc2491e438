"""Ask, decompose, load and tune."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.engine import Answer, Searcher, Stage
from harness.core.errors import BadFile
from harness.core.records import Query
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run, read_scores
from harness.corpus.trec import write_run
from harness.corpus.tuning import read
from harness.gates.base.rules import Rules
from harness.load.files import TRIALS
from harness.load.paths import history_of, page_of
from harness.measures.decompose import DifferenceParts
from harness.pipeline.decompose import DecomposeRequest, decompose, kept
from harness.replay.drive import TimedOutcome, observe
from harness.report.explorer_stages import blamed, losers, means, to_json
from harness_engines.stacks.text.blend import BlendSearcher
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.cli.conftest import Harness, Said
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow

WORDS = ("ask", "--dataset", NAME)


def told(harness: Harness, *words: str) -> list[dict[str, Any]]:
    said = harness(*WORDS, *words, "--json")
    assert said.code == 0, said
    found: list[dict[str, Any]] = json.loads(said.out)
    return found


def test_a_query_is_answered_as_in_the_run_with_its_grades(project: Toy, harness: Harness) -> None:
    data = Prepared.open(project.layout.data)
    query = next(q for q in data.queries() if q.query_id in data.qrels().answerable)
    (found,) = told(harness, "--arm", "hash-hybrid", "--query", query.query_id)
    row = next(
        row
        for row in read_run(project.layout.run("hash-hybrid")).rows()
        if row.query_id == query.query_id
    )
    shown = [hit.doc_id for hit in row.hits][:10]
    assert [hit["doc_id"] for hit in found["hits"]] == shown
    assert found["served_by"] == row.served_by
    assert (found["by_itself"], found["status"]) == (True, "answered")
    judged = data.qrels().grades[query.query_id]
    assert [hit["grade"] for hit in found["hits"]] == [judged.get(one) for one in shown]
    assert any(hit["grade"] for hit in found["hits"])
    assert [hit["ranks"]["fused"] for hit in found["hits"]] == [*range(1, len(shown) + 1)]


def test_two_arms_stand_below_each_other_on_the_screen(harness: Harness) -> None:
    said = harness(*WORDS, "balo", "--arm", "tantivy", "--arm", "hash-hybrid", "--explain")
    assert said.code == 0
    assert said.out.index("tantivy: balo") < said.out.index("hash-hybrid: balo")
    assert "by the arm itself" in said.out
    assert "fused" in said.out
    assert "grade" not in said.out
    assert "offers no explanation" in said.out


def test_a_fallback_is_not_the_arm(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = TantivySearcher.search

    def other(self: TantivySearcher, text: str, k: int) -> Answer:
        return replace(plain(self, text, k), served_by="f" * 64, note="fell back")

    monkeypatch.setattr(TantivySearcher, "search", other)
    said = harness(*WORDS, "balo", "--arm", "tantivy")
    assert "by not the arm itself" in said.out
    assert "fell back" in said.out


def test_an_arm_that_fails_is_no_verdict(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Answer:
        raise OSError("the disk is [gone]")

    monkeypatch.setattr(TantivySearcher, "search", breaks)
    said = harness(*WORDS, "balo", "--arm", "tantivy", "--arm", "fts5")
    assert said.error == "tantivy: OSError: the disk is [gone]"
    assert "ms; OSError: the disk is [gone]" in said.out
    assert "failed in" in said.out
    assert "not the arm itself" not in said.out
    assert "fts5: balo" in said.out


def test_reasons_that_fail_are_named(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise ValueError("no stages today")

    monkeypatch.setattr(BlendSearcher, "stages", breaks)
    error = harness(*WORDS, "balo", "--arm", "hash-hybrid").error
    assert error == "hash-hybrid: answers, and cannot say why (no stages today)"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*WORDS, "--arm", "fts5"), "one of the two"),
        ((*WORDS, "x", "--query", "1", "--arm", "fts5"), "one of the two"),
        ((*WORDS, "--query", "nobody's", "--arm", "fts5"), "nobody's"),
        ((*WORDS, "x", "--arm", "elastic"), "elastic"),
    ],
)
def test_what_cannot_be_asked(harness: Harness, words: tuple[str, ...], says: str) -> None:
    assert says in harness(*words).error


def test_json_has_the_very_ids_and_nothing_that_a_terminal_obeys(
    project: Toy, harness: Harness
) -> None:
    """An id with a change of direction came out as another id."""
    corpus = project.root / "beir" / "corpus.jsonl"
    strange = "\u202e\u2028\x9bd\u00e9\U000e0001"
    corpus.write_text(corpus.read_text().replace('"d00"', json.dumps(strange)))
    harness("run", "--dataset", "beir", "--arms", "fts5", "--out", "out")
    title = json.loads(corpus.read_text().splitlines()[0])["title"]
    said = harness("ask", title, "--from", "out", "--arm", "fts5", "--json")
    (one,) = json.loads(said.out)
    assert strange in {hit["doc_id"] for hit in one["hits"]}
    assert said.out.replace("\n", "").isprintable()
    assert "d\u00e9" in said.out


def test_the_one_data_set_of_a_project_need_not_be_named(project: Toy, harness: Harness) -> None:
    """As the README prints it."""
    asked = ("ask", "balo", "--arm", "fts5")
    assert harness(*asked).code == 0
    params = project.root / "params.yaml"
    params.write_text(params.read_text().replace("[toy]", "[toy, other]"))
    said = harness(*asked).error
    assert said.startswith(
        "the project has several data sets (toy, other): name one with --dataset"
    )


WORDS_DECOMPOSE = ("decompose", "--control", "fts5", "--candidate", "hash-hybrid")


RULES = Rules(confidence=0.95, resamples=1_000, seed=5, power=0.8)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_every_query_is_in_the_file_and_its_parts_sum_to_its_difference(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    said = harness(
        *WORDS_DECOMPOSE, "--dataset", NAME, "--out", tmp_path / "parts.csv", "--top", "3"
    )
    assert said.code == 0, said
    scores = read_scores(project.layout.per_query, ["arm"])
    old, new = (scores[(arm,)]["nDCG@10"].by_query for arm in ("fts5", "hash-hybrid"))
    found = rows(tmp_path / "parts.csv")
    assert [row["query_id"] for row in found] == [q for q in old if q in new]
    parts = ("lexical_shown", "lexical_order", "fused_shown", "fused_order")
    for row in found:
        total = sum(float(row[part]) for part in parts)
        assert total == pytest.approx(new[row["query_id"]] - old[row["query_id"]], abs=1e-9)
        assert float(row["difference"]) == pytest.approx(total, abs=1e-9)
    assert any(float(row["fused_shown"]) or float(row["fused_order"]) for row in found)
    assert any(row["semantic_alone"] != row["candidate"] for row in found)
    (for_the_explorer,) = kept(project.layout)
    assert list(for_the_explorer.steps) == [row["query_id"] for row in found]


def test_the_screen_names_the_largest_losses_and_their_step(project: Toy, harness: Harness) -> None:
    assert project
    said = harness(*WORDS_DECOMPOSE, "--dataset", NAME, "--measure", "nDCG@5", "--top", "2").out
    found = decompose(
        project.layout, DecomposeRequest("fts5", "hash-hybrid", "nDCG@5", 50), RULES, project.cache
    )
    worst = losers(found, 2)
    assert worst
    assert f"The {len(worst)} largest losses" in said
    for at in worst:
        by = blamed(found, at)
        assert f"{found.queries[at].query_id}: {by.step}, {by.part}" in said
    assert found.difference[worst[0]] == found.difference.min()
    assert "nDCG@5, hash-hybrid - fts5" in said


def test_json_has_means_that_sum_to_the_mean_and_slices_that_are_adjusted(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    assert project
    assert harness(*WORDS_DECOMPOSE, "--dataset", NAME, "--out", tmp_path / "parts.json").code == 0
    found = json.loads((tmp_path / "parts.json").read_text(encoding="utf-8"))
    total = sum(step["shown"] + step["order"] for step in found["steps"])
    differences = [query["difference"] for query in found["queries"]]
    assert total == pytest.approx(np.mean(differences), abs=1e-9)
    assert [step["stage"] for step in found["steps"]] == ["lexical", "fused"]
    assert {one["slice"] for one in found["slices"]} > {"all"}
    assert [one["p_adjusted"] for one in found["slices"]] == sorted(
        one["p_adjusted"] for one in found["slices"]
    )


def test_an_arm_without_stages_and_an_imported_run_have_one_step(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    words = ("decompose", "--dataset", NAME, "--control", "fts5", "--candidate", "tantivy")
    assert harness(*words, "--out", tmp_path / "one.csv").code == 0
    assert {"answer_shown", "answer_order"} < set(rows(tmp_path / "one.csv")[0])
    from harness.corpus.runs import read_run

    write_run(tmp_path / "other.trec", read_run(project.layout.run("tantivy")))
    left = tmp_path / "left"
    run = ("run", "--dataset", NAME, "--arms", "fts5", "--control", "fts5", "--out", left)
    imported = ("--trec-run", f"other={tmp_path / 'other.trec'}", "--missing", "empty")
    assert harness(*run, *imported).code == 0
    said = harness(*WORDS_DECOMPOSE[:-1], "other", "--from", left, "--out", tmp_path / "two.csv")
    assert said.code == 0, said
    assert rows(tmp_path / "two.csv") == rows(tmp_path / "one.csv")


def test_an_engine_of_ones_own_is_taken_apart_by_its_file(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    """A path was refused, so no run of such an engine could be taken apart."""
    own = project.root / "mine" / "own.toml"
    shutil.copytree(ROOT / "examples" / "own_engine", own.parent)
    run = ("run", "--dataset", NAME, "--arms", f"fts5,{own}", "--control", "fts5")
    assert harness(*run, "--out", tmp_path / "ran").code == 0
    words = ("decompose", "--control", "fts5", "--candidate", own, "--from", tmp_path / "ran")
    said = harness(*words, "--out", tmp_path / "own.csv")
    assert said.code == 0, said
    assert "own - fts5" in said.out
    difference = [float(row["difference"]) for row in rows(tmp_path / "own.csv")]
    assert f"mean of {len(difference)} queries" in said.out
    own.with_name("own.py").write_text("# changed\n" + own.with_name("own.py").read_text())
    assert "own" in harness(*words).error


def test_stages_that_are_not_of_this_answer_are_refused(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project
    monkeypatch.setattr(BlendSearcher, "stages", lambda *_: (Stage("fused", ()),))
    assert "is not what it showed" in harness(*WORDS_DECOMPOSE, "--dataset", NAME).error


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--dataset", NAME, "--measure", "nDGC@10"), "no measure named 'nDGC@10'"),
        (("--dataset", NAME, "--out", "parts.xlsx"), "ends in .csv or .json"),
        (("--dataset", NAME, "--control", "dense"), "dense"),
    ],
)
def test_bad_input_is_two_and_says_what_to_do(
    project: Toy, harness: Harness, words: tuple[str, ...], why: str
) -> None:
    assert project
    assert why in harness(*WORDS_DECOMPOSE, *words).error


def test_a_run_that_was_changed_is_refused(project: Toy, harness: Harness) -> None:
    path = project.layout.run("hash-hybrid")
    path.write_bytes(project.layout.run("fts5").read_bytes())
    assert "was changed since" in harness(*WORDS_DECOMPOSE, "--dataset", NAME).error


def test_blame_falls_on_the_part_that_took_most(project: Toy) -> None:
    wanted = DecomposeRequest("fts5", "hash-hybrid", "nDCG@10", 50)
    found = decompose(project.layout, wanted, RULES, project.cache)
    for at in range(len(found.queries)):
        values = [
            (float(column[at]), name, part)
            for name, one in found.steps.items()
            for part, column in (("shown", one.shown), ("order", one.order))
        ]
        by = blamed(found, at)
        assert by.value == pytest.approx(min(values)[0], abs=1e-11)
    assert losers(found, 0) == ()
    assert means(found)[-1].both == pytest.approx(found.difference.mean(), abs=1e-12)
    assert isinstance(found.steps["fused"], DifferenceParts)
    assert to_json(found)["lost"] == {}


LOAD = ("load", "--dataset", "toy", "--arm", "tantivy")


def test_a_load_is_run_by_processes_and_shown(project: Toy, harness: Harness) -> None:
    said = harness(*LOAD, "--rate", "30", "--seconds", "0.3")
    assert said.code in {0, 3}
    assert "Response time from the intended start" in said.out
    assert "tantivy (A/A)" in said.out
    assert "load.html" in said.out
    assert page_of(project.layout).is_file()
    records = TRIALS.read(history_of(project.layout))
    assert [record.rate for record in records].count(30.0) == 2
    assert all(record.trial.seconds > 0 for record in records)
    assert {record.about["processes"] for record in records} == {1}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--find",), "--find needs --budget-ms above 0"),
        (("--budget-ms", "5"), "--budget-ms needs --find"),
        (("--rate", "5", "--arrivals", "x.jsonl"), "leave --rate or --arrivals out"),
        (("--arrivals", "absent.jsonl"), "absent.jsonl: missing file"),
        (("--mix", "identifier"), "'identifier' is not NAME=WEIGHT"),
        (("--mix", "identifier=1,identifier=2"), "names identifier twice"),
        (("--mix", "nothing=1"), "no slice named 'nothing'"),
        (("--rate", "-1"), "must be above 0"),
        (("--processes", "-1"), "--processes -1"),
        (("--processes", "9" * 40), "less than or equal to 256"),
        (("--threads", "257"), "less than or equal to 256"),
        (("--arm", "tantivy"), "none twice"),
        (("--arm", "dense"), "dense"),
    ],
)
def test_what_cannot_be_run_is_refused(
    harness: Harness, words: tuple[str, ...], problem: str
) -> None:
    assert problem in harness(*LOAD, "--seconds", "0.2", *words).error


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
    [("space.toml", "would change space.toml"), ("params.yaml", "already exists"),
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
    assert "mine.tuning.json: already exists" in harness(*TUNE).error
    assert (split.root / "mine.tuning.json").read_text() == "{}"


def test_an_arm_whose_record_is_gone_is_not_indexed(split: Toy, harness: Harness) -> None:
    harness(*TUNE)
    (split.root / "mine.tuning.json").unlink()
    assert "mine.tuning.json: no such file" in refused(harness(*RUN))
    with pytest.raises(BadFile):
        read(Path(split.root / "mine.tuning.json"))
