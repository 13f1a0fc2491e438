"""Import, export, query sets and logs."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.mail import logged
from harness.core.errors import EvidenceError
from harness.core.records import Drawn, Query
from harness.core.run import Status
from harness.corpus import beir, card, prepared, trec
from harness.corpus.exchange import RATED
from harness.pipeline.evidence import traffic
from harness.pipeline.receipts import read_manifest
from harness.shadow.evidence import path_of, taken_in
from harness.shadow.log import LogWriter
from harness.shadow.record import Observation
from harness_engines.stacks.agent_mail.contract import Event, to_log
from tests.cli.conftest import Harness
from tests.make.shadow_records import SEEN, observation
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "quepid"


FILES = {
    "quepid": "ratings.csv",
    "rank-eval": "rank_eval.json",
    "opensearch": "judgments.json",
    "ltr": "judgements.txt",
}


@pytest.mark.parametrize("kind", RATED)
def test_a_data_set_comes_back_from_its_ratings(project: Toy, harness: Harness, kind: str) -> None:
    said = harness("convert", "toy", "--format", kind, "--out", "theirs")
    assert said.code == 0, said
    file = f"theirs/{FILES[kind]}"
    assert said.out.splitlines() == [file, "theirs/harness-convert.txt"] or file in said.out
    words = ("import", "ratings", file, "beir/corpus.jsonl", "--format", kind, "--name", "back")
    said = harness(*words)
    assert "imported back (test): 60 documents, 41 queries, 2401 judgements" in said.out
    own, first = (card.read(project.root / "datasets" / name) for name in ("back", "toy"))
    assert own.sha256.corpus == first.sha256.corpus
    assert (own.sha256.qrels == first.sha256.qrels) == (kind in {"rank-eval", "ltr"})


def test_a_folder_is_converted_to_beir_and_imported(project: Toy, harness: Harness) -> None:
    assert harness("convert", "beir", "--format", "trec", "--out", "theirs").code == 0
    files = [f"theirs/{name}" for name in ("topics.tsv", "qrels.trec", "corpus.jsonl")]
    assert harness("import", "trec", *files, "--name", "back").code == 0
    own, first = (card.read(project.root / "datasets" / name) for name in ("back", "toy"))
    assert own.sha256.corpus == first.sha256.corpus
    assert own.sha256.qrels == first.sha256.qrels


def test_a_case_of_quepid_is_judged_to_a_verdict(project: Toy, harness: Harness) -> None:
    """From the CSV and the documents to a decision, by the commands alone."""
    case, corpus = (EXAMPLE / name for name in ("case.csv", "corpus.jsonl"))
    words = ("import", "ratings", case, corpus, "--format", "quepid", "--name", "shop")
    said = harness(*words)
    assert "imported shop (test): 12 documents, 6 queries, 24 judgements" in said.out
    assert "Without a judgement, and so left out: 1 of 7 queries." in said.out
    ran = ("run", "--dataset", "shop", "--arms", "fts5,tantivy", "--control", "fts5")
    said = harness(*ran, "--out", "out")
    assert said.code == 0, said
    (about,) = json.loads((project.root / "out" / "decision.json").read_text())["datasets"]
    (step,) = about["steps"]
    assert {found["verdict"] for found in step["findings"]} >= {"inconclusive"}
    assert harness("convert", "shop", "--format", "quepid", "--out", "theirs").code == 0
    back = ("import", "ratings", "theirs/ratings.csv", corpus, "--format", "quepid")
    assert "6 queries, 24 judgements" in harness(*back, "--name", "back").out
    own, first = (card.read(project.root / "datasets" / name) for name in ("back", "shop"))
    assert (own.sha256.qrels, own.sha256.queries) == (first.sha256.qrels, first.sha256.queries)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("convert", "toy", "--format", "csv", "--out", "o"),
            "no format named 'csv'; there is beir",
        ),
        (("convert", "nope", "--format", "beir", "--out", "o"), "no dataset named 'nope'"),
        (("convert", "beir", "--format", "beir", "--out", "beir/x"), "which is read"),
        (("convert", "toy", "--format", "beir", "--out", "build"), "did not write"),
        (
            ("import", "ratings", "r.csv", "c", "--format", "csv", "--name", "n"),
            "no format of ratings named 'csv'; there is quepid",
        ),
        (
            ("import", "ratings", "r.csv", "beir/corpus.jsonl", "--format", "ltr", "--name", "n"),
            "r.csv:1: the line is not: grade qid:ID # document",
        ),
        (
            ("import", "ratings", "r.csv", "none", "--format", "quepid", "--name", "n"),
            "none: missing file",
        ),
    ],
)
def test_what_is_wrong_is_named(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    (project.root / "r.csv").write_text("query,docid,rating\na,d00,1\n")
    assert says in harness(*words).error
    assert not Path(project.root / "datasets" / "n").exists()


@pytest.fixture
def kinds(project: Toy) -> dict[str, tuple[str | Path, ...]]:
    """Write the collection of the toy in every kind, and give the words to import each."""
    folder = project.root / "beir"
    read = beir.Beir(folder, "test")
    trec.write_qrels(folder / "test.qrels", read.qrels())
    topics = "".join(f"{query.query_id}\t{query.text}\n" for query in read.queries())
    (folder / "topics.tsv").write_text(topics)
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    return {
        "beir": (folder,),
        "trec": (folder / "topics.tsv", folder / "test.qrels", corpus),
        "jsonl": (corpus, queries, folder / "test.qrels"),
    }


@pytest.mark.parametrize("kind", ["beir", "trec", "jsonl"])
def test_a_collection_is_imported_and_prepared(
    project: Toy, harness: Harness, kinds: dict[str, tuple[str | Path, ...]], kind: str
) -> None:
    words = ("import", kind, *kinds[kind], "--name", "other", "--licence", "CC0-1.0")
    said = harness(*words, "--source", "a test")
    assert said.code == 0, said.err
    assert "imported other (test): 60 documents, 41 queries, 2401 judgements" in said.out
    assert "harness run --dataset other" in said.out
    assert harness("stage", "prepare", "--dataset", "other").code == 0
    own, first = (card.read(project.root / "datasets" / name) for name in ("other", "toy"))
    assert (own.licence, own.source) == ("CC0-1.0", "a test")
    assert own.sha256.corpus == first.sha256.corpus
    assert own.sha256.qrels == first.sha256.qrels


def test_an_import_of_the_text_alone_says_so(project: Toy, harness: Harness) -> None:
    words = ("import", "beir", "beir", "--name", "bare", "--fields", "text", "--forms")
    assert harness(*words).code == 0
    about = card.read(project.root / "datasets" / "bare")
    assert about.fields == ["text"]
    assert about.slices["form-natural-language"] > 30
    assert harness("stage", "prepare", "--dataset", "bare").code == 0
    data = prepared.Prepared.open(project.root / "build" / "bare" / "data")
    assert data.manifest.fields == ("text",)
    assert {document.title for document in data.documents()} == {""}
    assert card.read(project.root / "datasets" / "toy").fields is None


def test_a_name_that_is_taken_is_kept(project: Toy, harness: Harness) -> None:
    words = ("import", "beir", "beir", "--name", "toy")
    assert "toy exists; choose another name" in harness(*words).error
    assert harness(*words, "--force", "--title", "Again").code == 0
    assert card.read(project.root / "datasets" / "toy").title == "Again"


RUN = ("run", "--dataset", "beir", "--arms", "fts5,tantivy", "--control", "fts5", "--out", "out")


def a_log(folder: Path, name: str = "log.jsonl") -> Path:
    rows = [{"query": f"word{at % 40} of a {at % 7}"} for at in range(400)]
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"query": "cut')
    return path


def test_a_sample_is_written_with_what_was_left_out(project: Toy, harness: Harness) -> None:
    a_log(project.root)
    words = ("queries", "from-log", "log.jsonl", "--size", "60", "--out")
    said = harness(*words, "q.jsonl")
    assert said.code == 0, said
    assert "400 of 401 lines are requests that count" in said.out
    assert "1 left out: the line is cut off or malformed" in said.out
    assert "limit of masking: names of people" in said.out
    assert "wrote 60 queries to q.jsonl" in said.out
    assert all(query.drawn for query in beir.queries(project.root / "q.jsonl"))
    assert "already exists" in harness(*words, "q.jsonl").error
    assert "which is read" in harness(*words, "datasets/toy/q.jsonl").error
    found = harness("queries", "drift", "q.jsonl", a_log(project.root, "later.jsonl"))
    assert "0.0% of 400 requests are of another kind than then" in found.out
    assert harness("queries", "drift", "log.jsonl", "log.jsonl").code == 2


def test_the_page_shows_the_mean_over_the_traffic_beside_the_plain_one(
    project: Toy, harness: Harness
) -> None:
    path = project.root / "beir" / "queries.jsonl"
    assert harness(*RUN).code == 0
    page = (project.root / "out" / "index.html").read_text()
    assert "over the requests of the log" not in page
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for at, line in enumerate(lines):
        line["drawn"] = {"stratum": f"s{at % 2}", "inclusion": 0.5 + at % 2 / 2, "requests": at + 1}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert harness(*RUN).code == 0
    for name in ("index.html", "report.md"):
        page = (project.root / "out" / name).read_text()
        assert "nDCG@10 over the requests of the log, and over the sampled queries" in page
        assert "plain mean, as the gates judge it" in page
    lines[0]["drawn"]["inclusion"] = 1.5
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = harness(*RUN).error
    assert "queries.jsonl:1: 'drawn' is" in said
    assert "inclusion (above 0, at most 1)" in said


def test_a_sample_with_queries_of_elsewhere_has_no_traffic() -> None:
    both = [Query("a", "x", drawn=Drawn("s", 1.0, 1)), Query("b", "y")]
    with pytest.raises(EvidenceError, match=r"1 of 2 queries have a place in a sample"):
        traffic(both, {}, {}, "nDCG@10", None)  # type: ignore[arg-type]


def test_a_log_without_judgements_is_taken_to_a_verdict(project: Toy, harness: Harness) -> None:
    """From queries that nobody has judged, by a pool that is judged in part, to a decision."""
    queries = [*beir.queries(project.root / "beir" / "queries.jsonl")]
    (project.root / "q.jsonl").write_text(
        beir.queries_text(Query(q.query_id, q.text) for q in queries)
    )
    words = ("queries", "pool", "q.jsonl", "beir/corpus.jsonl", "--arms", "fts5,tantivy")
    said = harness(*words, "--depth", "3", "--out", "first.qrels")
    assert said.code == 0, said
    assert "judge them: harness judge first.qrels" in said.out
    assert "already exists" in harness(*words, "--depth", "3", "--out", "first.qrels").error
    assert "no arm named 'x'" in harness(
        "queries", "pool", "q.jsonl", "beir/corpus.jsonl", "--arms", "x", "--depth", "3",
        "--out", "other",
    ).error  # fmt: skip
    pool = project.root / "first.qrels"
    lines = pool.read_text().splitlines()
    pool.write_text("".join(f"{one[:-1]}{at % 2 if at else '?'}\n" for at, one in enumerate(lines)))
    taken = ("import", "jsonl", "beir/corpus.jsonl", "q.jsonl", "first.qrels", "--name", "mine")
    assert f"{len(lines) - 1} judgements" in harness(*taken).out
    assert "The pool leaves 1 pair open." in (
        (project.root / "datasets" / "mine" / "card.toml").read_text()
    )
    ran = ("run", "--dataset", "mine", "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*ran, "--out", "out").code == 0
    assert (project.root / "out" / "decision.json").is_file()


EVENT = {"requested": "hybrid", "actual": "lexical", "reason": "no\nmodel"}


OTHER = logging.getLogger("engines.mail.surface")


def test_events_are_lines_of_json_where_programs_read_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logged("engines.mail", as_json=True):
        to_log(Event.MODE_DOWNGRADE, EVENT)
        OTHER.warning("no view of %s", "x")
        OTHER.debug("not this")
    to_log(Event.MODE_DOWNGRADE, EVENT)
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.pop("time") <= second.pop("time")
    own = {"level": "INFO", "logger": "engines.mail", "event": "search.mode.downgrade"}
    assert first == {**own, **EVENT}
    about = {"level": "WARNING", "logger": "engines.mail.surface"}
    assert second == {**about, "message": "no view of x"}


def test_for_people_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with logged("engines.mail", as_json=False):
        to_log(Event.MODE_DOWNGRADE, EVENT)
        OTHER.error("search failed", exc_info=ZeroDivisionError())
    first, second = capsys.readouterr().err.splitlines()
    assert " INFO search.mode.downgrade requested=hybrid actual=lexical reason=no" in first
    assert second.endswith(" ERROR search failed error=ZeroDivisionError")


WORDS = ("--dataset", NAME, "--control", "fts5", "--candidate", "tantivy")


EACH_S = 720


LIVE = """
[[step.gate]]
name = "Alike"
rule = "anytime_overlap"
k = 10
floor = 0.8
period = "day"
block_s = 1440
max_query_share = 0.1
max_client_share = 0.1

[[step.gate]]
name = "Live answers"
rule = "anytime_failures"
max_share = 0.05
period = "day"
block_s = 1440
max_query_share = 0.1
max_client_share = 0.1

[[step.gate]]
name = "Live speed"
rule = "anytime_slow"
max_ratio = 2.0
max_share = 0.05
period = "day"
block_s = 1440
max_query_share = 0.1
max_client_share = 0.1
"""


def pairs(project: Toy, count: int, *, failing: int = 0, at_s: float = 0) -> list[Observation]:
    old, new = (
        replace(SEEN, served_by=read_manifest(project.layout, arm).fingerprint)
        for arm in ("fts5", "tantivy")
    )
    failed = replace(new, status=Status.FAILED, served_by="")
    start = int(((at_s or time.time() - 60) - count * EACH_S) * 1e9)
    return [
        observation(
            number,
            at=start + number * EACH_S * 1_000_000_000,
            client=f"{number % 50:032x}",
            query=f"{number:032x}",
            control=old,
            candidate=failed if number <= failing else new,
            jaccard=None if number <= failing else 1.0,
        )
        for number in range(1, count + 1)
    ]


def written(folder: Path, observations: list[Observation]) -> Path:
    with LogWriter(folder, rotate_bytes=1_000_000, sync_ns=0) as out:
        out.append(observations, [], [])
    return folder


def policy(project: Toy) -> Path:
    path = project.root / "policy" / "live.toml"
    path.write_text(HEAD + STEP + GATES + LIVE)
    return path


def test_a_log_that_was_taken_in_is_judged(project: Toy, harness: Harness, tmp_path: Path) -> None:
    decide = ("gate", "--policy", policy(project))
    before = harness(*decide)
    assert before.code == 3
    assert "no live traffic of tantivy beside fts5" in before.out
    said = harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 300)), *WORDS)
    assert said.code == 0, said
    assert "300 attempts" in said.out
    assert "300 count, 0 of them unanswered" in said.out
    assert harness(*decide).code == 0


def test_a_candidate_that_fails_live_is_held_though_it_is_good_offline(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    log = written(tmp_path / "log", pairs(project, 300, failing=90))
    assert "90 of them unanswered" in harness("shadow", "traffic", log, *WORDS).out
    said = harness("gate", "--policy", policy(project))
    assert said.code == 1
    assert "FAIL: Live answers" in said.out


def test_old_traffic_is_stale(project: Toy, harness: Harness, tmp_path: Path) -> None:
    log = written(tmp_path / "log", pairs(project, 300, at_s=time.time() - 3 * 86_400))
    assert harness("shadow", "traffic", log, *WORDS).code == 0
    assert "is 3 days old" in harness("gate", "--policy", policy(project)).error


def test_a_decision_rests_on_the_traffic_that_was_taken_in(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    project.policy(policy(project).read_text())
    assert (
        harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 300)), *WORDS).code
        == 0
    )
    assert harness("gate").code == 0
    (path,) = taken_in(project.layout)
    path.write_text(path.read_text().replace("1.0", "0.9", 1))
    said = harness("report")
    assert said.code == 2
    assert path.name in said.err


def test_traffic_of_another_index_is_not_of_these_arms(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    assert (
        harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 300)), *WORDS).code
        == 0
    )
    path = path_of(project.layout, "fts5", "tantivy")
    own = read_manifest(project.layout, "tantivy").fingerprint
    path.write_text(path.read_text().replace(own, "0" * 64))
    said = harness("gate", "--policy", policy(project))
    assert "no live traffic of tantivy beside fts5" in said.out


@pytest.mark.parametrize("spoilt", ["{", "[]", '{"format": 2}', '{"format": 1, "by": []}'])
def test_a_file_that_is_none_is_refused(
    project: Toy, harness: Harness, tmp_path: Path, spoilt: str
) -> None:
    assert (
        harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 60)), *WORDS).code
        == 0
    )
    path_of(project.layout, "fts5", "tantivy").write_text(spoilt)
    error = harness("gate", "--policy", policy(project)).error
    assert "fts5~tantivy.json" in error
    assert "harness shadow traffic" in error


def test_bad_input_is_two(project: Toy, harness: Harness, tmp_path: Path) -> None:
    log = written(tmp_path / "log", pairs(project, 60))
    assert "its log is missing" in harness("shadow", "traffic", tmp_path, *WORDS).error
    assert "give each log once" in harness("shadow", "traffic", log, log, *WORDS).error
    assert "dense has no index" in harness("shadow", "traffic", log, *WORDS[:-1], "dense").error


def test_the_pipeline_is_exported(project: Toy, harness: Harness) -> None:
    said = harness(
        "export", "--dataset", "toy", "--control", "fts5", "--out", "paper", "--figures", "pdf, png"
    )
    assert said.code == 0
    files = said.out.split()
    assert {"paper/table.tex", "paper/runs/tantivy.trec", "paper/forest.pdf"} <= set(files)
    assert all((project.root / file).stat().st_size for file in files)
    tex = (project.root / "paper" / "table.tex").read_text()
    assert "nDCG@10 & RR@10 & R@50 & Judged@10" in tex


def test_a_run_is_exported(project: Toy, harness: Harness) -> None:
    harness(
        "run", "--dataset", "toy", "--arms", "fts5,tantivy", "--control", "fts5", "--out", "out"
    )
    said = harness(
        "export", "--from", "out", "--control", "fts5", "--measures", "RR@10", "--out", "paper"
    )
    assert said.code == 0
    lines = (project.root / "paper" / "table.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in lines] == ["measure", "RR@10", "RR@10"]


def test_bad_input_is_one_line(harness: Harness) -> None:
    words = ("export", "--control", "fts5", "--out", "paper")
    assert "evidence of none" in harness(*words, "--from", "absent").error
    assert "'gif'" in harness(*words, "--dataset", "toy", "--figures", "gif").error
