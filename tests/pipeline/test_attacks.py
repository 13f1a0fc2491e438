"""Attacks on a decision, and forged files: each is found."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, IndexNotReady
from harness.core.files import write_json
from harness.core.gate import Cause, Outcome
from harness.core.run import Run
from harness.corpus import card, trec
from harness.corpus.clusters import CLUSTERS
from harness.corpus.runs import ARM_SCORES, read_run, write_run
from harness.pipeline import experiments
from harness.pipeline import verify as stage
from harness.pipeline.evidence import pin
from harness.pipeline.gate import check_decision
from harness.pipeline.receipts import note_replayed, note_run, read_manifest
from harness.pipeline.report import report
from harness.pipeline.verify import verify, verify_exports, verify_pages
from tests.make.forging import Edit, chain, forge, promoted, replace_in, restamp
from tests.make.toy import ARMS, CANDIDATE, GATES, HEAD, NAME, RACED, STEP, Toy

pytestmark = pytest.mark.slow
HARD = HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.995") + RACED
OVERLAP_PASSES = r"tantivy\.findings\.Overlap\.verdict: stored \"pass\", derived"
Attack = Callable[[Toy], object]
PAGES = ("index.html", "explore.html", "report.md", "decision.json", "junit.xml")


@pytest.fixture(scope="module")
def decided(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Hold a candidate that misses one bound, and write the pages."""
    made = measured.copied(tmp_path_factory.mktemp("attacked") / "project")
    made.policy(HARD)
    assert made.decide().outcome is Outcome.HOLD
    out = made.root / "reports"
    report({made.layout: made.project.subject(NAME)}, out, out / "receipt.json")
    return made


@pytest.fixture
def held(decided: Toy, tmp_path: Path) -> Toy:
    return decided.copied(tmp_path / "held")


def swapped(run: Run) -> Run:
    """Swap the first two hits of every query that has two."""
    docs = run.docs.copy()
    for at in run.offsets[:-1][run.lengths > 1]:
        docs[at], docs[at + 1] = docs[at + 1], docs[at]
    return replace(run, docs=docs)


def edited_run(project: Toy) -> None:
    path = project.layout.run(CANDIDATE)
    write_run(swapped(read_run(path)), path)
    raced_again(project)
    restamp(project.layout)


def raced_again(project: Toy) -> None:
    """Write into the receipt of the race, and into its times, the runs that are there now."""
    layout = project.layout
    receipt = json.loads(layout.race_receipt.read_text())
    receipt["runs"] = {arm: digest.of_file(layout.run(arm)) for arm in receipt["runs"]}
    write_json(layout.race_receipt, receipt)
    times(project, receipt_sha256=digest.of_json(receipt))
    for arm in ARMS:
        amend(layout.replayed(arm), run=digest.of_file(layout.run(arm)))


def amend(path: Path, **changed: object) -> None:
    """Change fields of a JSON file."""
    write_json(path, {**json.loads(path.read_text()), **changed})


def stale_score(project: Toy) -> None:
    """Replay the candidate, and keep scores and decision of the earlier run."""
    layout = project.layout
    run = swapped(read_run(layout.run(CANDIDATE)))
    write_run(run, layout.run(CANDIDATE))
    write_run(run, layout.again(CANDIDATE))
    note_run(layout, CANDIDATE)
    note_replayed(layout, CANDIDATE, datetime.now(UTC))
    raced_again(project)
    restamp(layout)


def swapped_policy(project: Toy) -> None:
    """Loosen a bound after the decision, and name the new file in the decision."""
    project.policy(HARD.replace("margin = 0.1", "margin = 0.2"))
    sha256 = digest.of_file(project.root / "policy" / "toy.toml")
    forge(project.layout, lambda about: about["policy"].update(sha256=sha256))


def without_last(path: Path, lines: int) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-lines]))


def trimmed_queries(project: Toy) -> None:
    without_last(project.layout.data / "queries.jsonl", 5)
    restamp(project.layout)


def trimmed_judgements(project: Toy) -> None:
    without_last(project.layout.data / "qrels.trec", 99)
    restamp(project.layout)


def trim(project: Toy) -> str:
    """Trim the judgements, write their digest wherever the data name it, and give it."""
    trimmed_judgements(project)
    data = project.layout.data
    sha256 = card.of_qrels(trec.qrels(data / "qrels.trec"))
    for path in (data / "manifest.json", data / CLUSTERS):
        amend(path, qrels_sha256=sha256)
    restamp(project.layout)
    return sha256


def trimmed_with_their_digests(project: Toy) -> None:
    """Write the trimmed judgements into the manifest of the data and into the decision too."""
    sha256 = trim(project)
    forge(project.layout, lambda of: of["provenance"]["sha256"].update(qrels=sha256))


def truncated_log(project: Toy) -> None:
    without_last(project.layout.log, 1)


def chained(lines: list[str]) -> str:
    """Write the lines of a log anew, with numbers, and the digest of the one before."""
    head, kept = experiments.FIRST, ""
    for number, line in enumerate(lines, start=1):
        anew = json.dumps({**json.loads(line), "number": number, "previous": head})
        head = digest.of_bytes(anew.encode())
        kept += f"{anew}\n"
    return kept


def shortened_log(project: Toy) -> None:
    """Take an earlier look out, and number the decision and all lines anew."""
    path = project.layout.log
    path.write_text(chained(path.read_text().splitlines()[1:]))


def older_decision(project: Toy) -> None:
    """Put back what was decided on another run, with its receipt and its line."""
    layout = project.layout
    files = (layout.decision, layout.findings, layout.junit, layout.decision_receipt)
    older = [path.read_bytes() for path in files]
    stale_score(project)
    project.judge_again()
    project.decide(later_s=1)
    for path, content in zip(files, older, strict=True):
        path.write_bytes(content)
    restamp(layout)


def older_decision_as_new(about: dict[str, Any]) -> None:
    """Move when it was decided, so that it expires later."""
    of = about["provenance"]
    for name in ("decided_at", "expires_at"):
        later = datetime.fromisoformat(of[name]) + timedelta(minutes=-30)
        of[name] = later.isoformat(timespec="seconds")


def other_arm(project: Toy) -> None:
    """Return the answers of one arm as those of another."""
    layout = project.layout
    for path in (layout.run, layout.again):
        write_run(replace(read_run(path("hash-hybrid")), arm=CANDIDATE), path(CANDIDATE))
    raced_again(project)
    restamp(layout)


def times(project: Toy, **facts: str) -> None:
    """Write facts beside the times of the race."""
    table = pq.read_table(project.layout.times)
    about = {**(table.schema.metadata or {}), **{k.encode(): v.encode() for k, v in facts.items()}}
    pq.write_table(table.replace_schema_metadata(about), project.layout.times)


def other_machine(project: Toy) -> None:
    times(project, machine="another one, 64 cores")
    restamp(project.layout)


def halved_times(project: Toy) -> None:
    """Make the candidate be twice as fast."""
    path = project.layout.times
    table = pq.read_table(path)
    at = table.schema.get_field_index("elapsed_ns")
    mine = np.array(table["arm"].to_pylist()) == CANDIDATE
    ns = table["elapsed_ns"].to_numpy() // np.where(mine, 2, 1)
    pq.write_table(table.set_column(at, table.schema.field(at), [ns]), path)
    restamp(project.layout)


def scores(project: Toy) -> None:
    """Raise what the candidate scored for one query, and decide by that."""
    found = {key: dict(of) for key, of in ARM_SCORES.read(project.layout.per_query).items()}
    old = found["tantivy",]["nDCG@10"]
    found["tantivy",]["nDCG@10"] = replace(old, values=np.minimum(old.values + 0.01, 1.0))
    ARM_SCORES.write(project.layout.per_query, found)
    restamp(project.layout)
    project.compare_again()
    project.decide()


def classes(project: Toy) -> None:
    path = project.layout.classes
    table = pq.read_table(path)
    names = ["exact" for _ in table["class"].to_pylist()]
    pq.write_table(table.set_column(3, "class", [names]), path)
    restamp(project.layout)
    project.decide()


def lost(project: Toy) -> None:
    """Mark a query with a value as one without; its value stays."""
    path = project.layout.per_query
    table = pq.read_table(path)
    why = ["failed", *table["undefined"].to_pylist()[1:]]
    column = table.schema.get_field_index("undefined")
    pq.write_table(table.set_column(column, table.field(column), [why]), path)
    restamp(project.layout)


def deeper(project: Toy) -> None:
    """Say of the classes that they looked further down."""
    path = project.layout.classes
    pq.write_table(pq.read_table(path).replace_schema_metadata({"depth": "999"}), path)
    restamp(project.layout)


def means(project: Toy) -> None:
    found = json.loads(project.layout.scores.read_text())
    found["tantivy"]["RR@10"]["mean"] = 0.99
    write_json(project.layout.scores, found)
    restamp(project.layout)
    project.decide()


def judgements(project: Toy) -> None:
    """Change a grade, and everything that names the judgements by digest."""
    data = project.layout.data
    replace_in(data / "qrels.trec", " d00 0", " d00 1")
    restamp(project.layout)


def documents(project: Toy) -> None:
    """Change a document that no number rests on."""
    replace_in(project.layout.data / "corpus.jsonl", '"title": "', '"title": "x')
    restamp(project.layout)


def hidden(project: Toy) -> None:
    """Say of a near duplicate that an intent parts it, as if it were not so; and decide by that."""
    path = project.layout.data / CLUSTERS
    amend(path, parted=[*json.loads(path.read_text())["parted"], "q01"])
    restamp(project.layout)
    project.decide()


def independent(project: Toy) -> None:
    """Say that no query is like another, so that intervals are narrower, and decide by that."""
    first, second, *_ = read_run(project.layout.run("fts5")).query_ids
    amend(project.layout.data / CLUSTERS, near_duplicates=[[first, second]])
    project.judge_again(timed=True)
    project.decide()


def reported_otherwise(project: Toy) -> None:
    """Change what the report of tests says."""
    replace_in(project.layout.junit, "<failure", "<skipped")
    restamp(project.layout)


VERIFIED: dict[Attack, str] = {
    edited_run: r"per_query\.parquet: tantivy\.\S+\.q\d+: stored .*, derived",
    stale_score: r"per_query\.parquet: tantivy\.\S+\.q\d+: stored .*, derived",
    swapped_policy: r"decision\.json: .*findings\.Quality\.bound: stored .*, derived",
    trimmed_queries: r"queries\.jsonl: ",
    trimmed_judgements: r"qrels\.trec: is not what .*manifest\.json says",
    trimmed_with_their_digests: r"(clusters\.json: is not what|per_query\.parquet: .*stored)",
    truncated_log: r"log\.jsonl: ends with line 2, and .*decision\.json is line 3",
    shortened_log: r"log\.jsonl: ends with line 2, and .*decision\.json is line 3",
    older_decision: r"is from the future|decision\.json: .*stored .*, derived",
    other_arm: r"tantivy\.parquet: holds answers of another engine than tantivy",
    other_machine: r"findings\.Speed\.reason: .*derived .* on another one, 64 cores",
    halved_times: r"decision\.json: .*stored .*, derived",
    hidden: r"clusters\.json: is not what the queries give",
    independent: r"clusters\.json: is not what the queries give",
    scores: r"per_query\.parquet: tantivy\.nDCG@10\.q\d+: stored 0\.\d+, derived",
    classes: r"classes\.parquet: fts5\.\w+\.q\d+: stored \"exact\", derived \"",
    lost: r"per_query\.parquet: \S+\.q\d+: stored \[\S+, \"failed\"\], derived \d",
    deeper: r"classes\.parquet: depth: stored \"999\", derived",
    means: r"scores\.json: tantivy\.RR@10\.mean: stored 0\.99, derived 0\.\d+",
    judgements: r"qrels\.trec: is not what .*manifest\.json says",
    documents: r"corpus\.jsonl: is not what .*manifest\.json says",
    reported_otherwise: r"junit\.xml: is not what the decision beside it",
}


@pytest.mark.parametrize("attack", VERIFIED, ids=lambda one: one.__name__)
def test_what_was_changed_is_named(held: Toy, attack: Attack) -> None:
    attack(held)
    with pytest.raises((EvidenceError, BadFile), match=VERIFIED[attack]):
        verify(held.layout)


def test_an_index_of_other_documents_is_named_by_its_place(held: Toy) -> None:
    layout, arm = held.layout, "hash-hybrid"
    path = layout.manifest(arm)
    amend(path, corpus_sha256="0" * 64)
    own = read_manifest(layout, arm).fingerprint
    for file in (layout.run(arm), layout.again(arm)):
        run = read_run(file)
        write_run(replace(run, served_by=tuple(own if one else "" for one in run.served_by)), file)
    raced_again(held)
    restamp(layout)
    with pytest.raises(IndexNotReady) as refused:
        verify(layout)
    assert str(refused.value).startswith(f"{path}: the index was built of other documents")


def test_a_query_set_trimmed_before_the_decision_is_not_as_pinned(held: Toy) -> None:
    pin(held.layout, held.project.policy_file, at=datetime.now(UTC), by="me")
    trim(held)
    held.judge_again()
    causes = {one.cause for one in held.decide(later_s=1).findings}
    assert Cause.PINNED in causes


def test_an_older_run_that_was_put_back_is_of_no_known_age(held: Toy) -> None:
    path = held.layout.run(CANDIDATE)
    older = path.read_bytes()
    write_run(swapped(read_run(path)), path)
    note_replayed(held.layout, CANDIDATE, datetime.now(UTC))
    path.write_bytes(older)
    restamp(held.layout)
    with pytest.raises(EvidenceError, match="may be of any age"):
        held.decide(later_s=1)


@pytest.mark.parametrize("name", PAGES)
def test_an_edited_page_is_named(held: Toy, name: str) -> None:
    path = held.root / "reports" / name
    path.write_text(path.read_text().replace("HOLD", "PROMOTE") + "\n")
    with pytest.raises(EvidenceError, match=f"{name}: is not what its evidence gives"):
        verify_pages(held.root / "reports", held.layout)


@pytest.mark.parametrize("name", ["scores.json", "queries.jsonl", "runs/tantivy.trec"])
def test_an_edited_copy_for_other_tools_is_named(held: Toy, name: str) -> None:
    layout, out = held.layout, held.root / "reports"
    (out / "runs").mkdir()
    for arm in ARMS:
        (out / "runs" / f"{arm}.parquet").write_bytes(layout.run(arm).read_bytes())
        (out / "runs" / f"{arm}.trec").write_text(trec.run_text(read_run(layout.run(arm))))
    for of in (layout.scores, layout.per_query, layout.data / "queries.jsonl"):
        (out / of.name).write_bytes(of.read_bytes())
    verify_exports(out, layout)
    replace_in(out / name, "0", "1")
    with pytest.raises(EvidenceError, match=f"{name}: is not what"):
        verify_exports(out, layout)


def test_a_killed_writer_leaves_nothing_that_is_verified(
    held: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each of its renames; what it leaves at the end is whole."""
    left, rename = 0, Path.replace

    def replacing(self: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return rename(self, target)

    refused = 0
    for writes in range(9):
        left = writes
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(Path, "replace", replacing)
            held.decide(later_s=writes + 1)
        with suppress(EvidenceError, BadFile):
            verify(held.layout, deep=False)
            break
        refused += 1
    assert 3 <= refused < 9


def test_two_writers_at_once_both_stand_in_the_log(held: Toy) -> None:
    before = len(experiments.read(held.layout).lines)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda later: held.decide(later_s=later), (1, 2)))
    assert len(experiments.read(held.layout).lines) == before + 2
    verify(held.layout, deep=False)


def test_a_log_written_anew_with_its_chain_is_named_by_the_decision(held: Toy) -> None:
    """The digest of the line before stands in the decision too."""
    first, *rest = held.layout.log.read_text().splitlines()
    edited = json.dumps({**json.loads(first), "policy": "another"})
    held.layout.log.write_text(chained([edited, *rest]))
    chain(held.layout, 1 + len(rest))
    with pytest.raises(EvidenceError, match=r"record\.(earlier|previous)\S*: stored .*, derived"):
        verify(held.layout)


def test_no_page_is_made_of_an_edited_decision(held: Toy) -> None:
    forge(held.layout, promoted)
    with pytest.raises(EvidenceError, match=OVERLAP_PASSES):
        check_decision(held.layout, held.project.subject(NAME), now=datetime.now(UTC))


def ratio(about: dict[str, Any]) -> None:
    about["latency"]["ratios"]["tantivy"]["p50"]["value"] *= 0.5


def fast(about: dict[str, Any]) -> None:
    (speed,) = (one for one in about["steps"][0]["findings"] if one["gate"] == "Speed")
    speed["estimate"]["value"] *= 0.5


def surer(about: dict[str, Any]) -> None:
    about["provenance"]["settings"]["score"]["confidence"] = 0.9


def dropped(about: dict[str, Any]) -> None:
    (step,) = about["steps"]
    step["findings"] = [one for one in step["findings"] if one["gate"] != "Overlap"]
    step.update(verdict="pass", untimed_verdict="pass", outcome="promote", blocking=[])


def budget(about: dict[str, Any]) -> None:
    about["trust"]["alpha"]["allowed"] = 0.0001


def other_data(kind: str) -> Edit:
    return lambda about: about["provenance"]["sha256"].update({kind: "0" * 64})


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        pytest.param(promoted, OVERLAP_PASSES, id="edited_verdict"),
        (older_decision_as_new, r"decision\.json: was decided at .*, and line 3 of"),
        (ratio, r"latency\.ratios\.tantivy\.p50\.value: stored .*, derived"),
        (fast, r"findings\.Speed\.estimate\.value: stored .*, derived"),
        (surer, r"scores\.json: .*: stored .*, derived"),
        (dropped, r"findings\.Order\.gate: stored \"Order\", derived \"Overlap\""),
        (budget, r"trust\.alpha\.allowed: stored 0\.0001, derived 0\.25"),
        (lambda about: about["provenance"]["settings"].pop("score"), "does not state its settings"),
        (other_data("corpus"), r"provenance\.sha256\.corpus: stored"),
        (other_data("queries"), r"provenance\.sha256\.queries: stored"),
        (other_data("qrels"), r"provenance\.sha256\.qrels: stored"),
    ],
)
def test_any_value_of_the_decision_is_derived_again(held: Toy, edit: Edit, says: str) -> None:
    forge(held.layout, edit)
    with pytest.raises((EvidenceError, BadFile), match=says):
        verify(held.layout)


def test_it_is_said_where_the_code_changed_since(
    held: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "code_sha256", lambda: digest.of_bytes(b"other code"))
    said = {one.what: one.said for one in verify(held.layout, deep=False)}
    assert said["code"] == "changed since; every value is still the same"
    forge(held.layout, promoted)
    with pytest.raises(EvidenceError, match="The code changed since it was decided"):
        verify(held.layout)
