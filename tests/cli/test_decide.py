"""Plan, policy, gate, regress and measure."""

import html
import json
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.core.errors import EvidenceError
from harness.corpus.runs import read_run
from harness.pipeline.layout import Layout
from harness.pipeline.report import report
from harness.policy.validity import read_pins
from tests.cli.conftest import Harness, seen
from tests.make.decisions import of_gate
from tests.make.toy import CONTROL, FAILS, GATES, GOOD, HEAD, NAME, RACED, STEP, UNSURE, Toy
from tests.pipeline.test_experiments import LOST, spoil

pytestmark = pytest.mark.slow


def unlogged(folder: Path) -> dict[str, bytes]:
    """Read every file but the log, which counts each look."""
    return {path: held for path, held in seen(folder).items() if "experiments" not in path}


@pytest.mark.parametrize(
    ("gates", "code", "says"),
    [
        (GATES, 0, "PROMOTE"),
        (GATES + RACED, 0, "PROMOTE"),
        (FAILS, 1, "FAIL: Overlap"),
        (UNSURE, 3, "HOLD (inconclusive)"),
    ],
)
def test_old_evidence_is_judged_without_an_index_and_nothing_is_written(
    project: Toy, harness: Harness, gates: str, code: int, says: str
) -> None:
    shutil.rmtree(project.cache)
    project.policy(HEAD + STEP + gates)
    before = unlogged(project.root)
    said = harness("gate", "--policy", "policy/toy.toml", "--dataset", NAME)
    assert (said.code, says in said.out) == (code, True), said
    assert unlogged(project.root) == before


def test_what_harness_run_left_is_decided_anew(project: Toy, harness: Harness) -> None:
    words = ("run", "--dataset", NAME, "--arms", "fts5,tantivy", "--control", CONTROL)
    assert harness(*words, "--out", "left").code == 0
    project.policy(HEAD + STEP + FAILS)
    anew = ("gate", "--policy", "policy/toy.toml", "--from", "left", "--control")
    said = harness(*anew, CONTROL)
    assert said.code == 1
    assert "tantivy    HOLD  fts5 -> tantivy" in said.out
    assert "only fts5, tantivy" in harness(*anew, "none").error
    assert harness("gate", "--from", "left", "--control", CONTROL).code == 0
    assert harness(*words, "--policy", "policy/toy.toml", "--out", "left").code == 0
    said = harness("gate", "--from", "left")
    assert (said.code, "FAIL: Overlap" in said.out) == (1, True), "by the run's own policy"


def test_a_data_set_is_pinned_beside_the_policy(project: Toy, harness: Harness) -> None:
    words = ("policy", "pin", "policy/toy.toml", "--dataset", NAME)
    said = harness(*words)
    assert said.code == 0, said
    pinned = "pinned in policy/toy.pins.json: 41 queries, 2401 judgements of 41 queries, "
    assert said.out.startswith(pinned)
    assert "settings of the race" in said.out
    pins = json.loads((project.root / "policy" / "toy.pins.json").read_text())
    assert pins["datasets"]["toy"]["race"]["processes"] == 3
    queries = project.layout.data / "queries.jsonl"
    rows = queries.read_text().splitlines(keepends=True)
    queries.write_text("".join(rows[1:]))
    assert "changed: 1 query removed (q00)\n" in harness(*words).out
    assert len(read_pins(project.root / "policy" / "toy.toml").datasets["toy"].made) == 2


@pytest.mark.parametrize("kept", ["", "kept/"])
def test_a_fresh_folder_resets_no_count(project: Toy, harness: Harness, kept: str) -> None:
    root, policy = project.root, project.root / "policy" / "pairwise.toml"
    policy.write_text(policy.read_text().replace("attempts = 10", "attempts = 1"))
    log = ("--log", kept) if kept else ()
    words = ("run", "--dataset", root / "beir", "--control", "fts5", *log)
    spent = []
    for name, candidate in (("a", "tantivy"), ("b", "tantivy"), ("c", "fts5-porter")):
        assert harness(*words, "--arms", f"fts5,{candidate}", "--out", name).code == 0
        page = (root / name / "report.md").read_text()
        spent.append("Attempts stay within the error budget" in page)
    assert spent == [False, False, True]
    assert "this is attempt 2 and 1 were planned" in page
    assert (root / (f"{kept}beir.jsonl" if kept else "beir.looks.jsonl")).is_file()
    (root / "c").rename(root / "moved")
    for name in ("a", "moved"):
        assert harness("verify", "--from", name).code == 0


SMALL = """
[[step.gate]]
name = "Quality"
rule = "non_inferior"
measure = "nDCG@10"
margin = 0.02
"""


def test_without_data_margin_and_level_alone_are_answered(project: Toy, harness: Harness) -> None:
    project.policy(HEAD + STEP + SMALL)
    words = ("plan", "--policy", "policy/toy.toml")
    said = harness(*words)
    assert said.code == 0, said
    assert "by margin and confidence alone" in said.out
    assert "(one query in 50 loses its whole first page)" in said.out
    equal = re.search(r"equal candidate needs about ([\d,]+) judged queries where 30% ", said.out)
    assert equal
    least = said.out.index("needs 188 independent queries at the very least")
    assert equal.start() < least, "what is needed comes before what is needed at the very least"
    assert "not planned further: no pilot" in said.out
    assert "lacks" not in said.out
    assumed = harness(*words, "--spread", "0.2").out
    assert re.search(r"needs [\d,]+ queries for power 0\.8 alone, [\d,]+ for all gates", assumed)
    said = harness(*words, "--dataset", NAME)
    match = re.search(r"alone, ([\d,]+) for all gates together, with no true difference", said.out)
    assert match
    lacks = int(match[1].replace(",", "")) - 41
    assert f"has 41: lacks {lacks:,}\n" in said.out
    assert re.search(r"so many pass from a measured \+0\.\d{3} on, and fail below -0\.", said.out)
    assert f"step tantivy lacks: {lacks:,} queries\n" in said.out
    before = harness(*words, "--dataset", project.root / "beir").out
    assert "has 41: lacks 147\n" in before
    assert "no pilot" in before


def test_worse_is_exit_code_one_and_the_queries_are_printed(
    harness: Harness, project: Toy, measured: Toy
) -> None:
    (project.root / "policy" / "regress.toml").write_text(HEAD + STEP + GOOD)
    spoil(project, "tantivy", LOST)
    said = harness("regress", "--baseline", measured.root, "--arms", "tantivy", "--top", "2")
    assert said.code == 1, said
    assert "WORSE     tantivy\n            FAIL: Quality" in said.out
    assert f"{LOST} answers got worse; the worst of them:" in said.out
    lines = [line for line in said.out.splitlines() if "-> 0.000  tantivy  q0" in line]
    assert len(lines) == 2
    assert "tantivy  nDCG@10" in said.out


OTHERWISE = (
    HEAD
    .replace("seed = 5", "seed = 6")
    .replace("confidence = 0.5", "confidence = 0.8")
    .replace("1000", "2000")
)
"""The inference of a policy that is not that of ``score`` in ``params.yaml``."""
WITH_INTERVAL = re.compile(r"([+-]?\d+\.\d+) \[([+-]?\d+\.\d+), ([+-]?\d+\.\d+)\]")


def intervals(text: str, value: str) -> set[tuple[float, float]]:
    """Return every interval that stands behind a value of a page, whatever signs are printed."""
    plain = html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<script.*?</script>", "", text)))
    words = re.sub(r"\s+", " ", plain.replace("\N{MINUS SIGN}", "-").replace("\\", ""))
    found = WITH_INTERVAL.findall(words)
    assert found, "no interval was found, so none is compared"
    return {
        (float(low), float(high))
        for shown, low, high in found
        if shown.removeprefix("+") == value.removeprefix("+")
    }


def test_a_difference_has_one_interval_on_each_page(project: Toy, harness: Harness) -> None:
    """The gate had the policy's, and all else on the page that of params.yaml."""
    project.untimed()
    project.policy(OTHERWISE + STEP + GATES)
    with pytest.raises(EvidenceError, match="not those of the policy as it is now"):
        project.decide()
    assert not project.layout.decision.exists()
    assert harness("stage", "compare", "--dataset", NAME).code == 0
    (gated,) = (one for one in project.decide().findings if one.gate == "Quality")
    assert gated.estimate
    value = f"{gated.estimate.value:+.4f}"
    ends = {(round(gated.estimate.low, 4), round(gated.estimate.high, 4))}
    to = project.root / "reports"
    subjects = {project.layout: project.project.subject(NAME)}
    written = report(subjects, to, to / "receipt.json")
    for page in (written.page, written.markdown):
        assert intervals(page.read_text(), value) == ends, page
    apart = json.loads(project.layout.differences.read_text())["fts5~tantivy"]["nDCG@10"]
    assert (round(apart["low"], 4), round(apart["high"], 4)) in ends


def test_a_run_draws_as_its_policy_does(project: Toy, harness: Harness) -> None:
    path = project.root / "policy" / "other.toml"
    path.write_text(OTHERWISE + STEP + GATES)
    words = ("run", "--dataset", NAME, "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*words, "--policy", path, "--out", "out").code == 0
    out: Path = project.root / "out"
    (step,) = json.loads((out / "decision.json").read_text())["datasets"][0]["steps"]
    (gated,) = (one["estimate"] for one in step["findings"] if one["gate"] == "Quality")
    for name in ("index.html", "report.md"):
        ends = intervals((out / name).read_text(), f"{gated['value']:+.4f}")
        assert ends == {(round(gated["low"], 4), round(gated["high"], 4))}, name
    assert harness("verify", "--from", "out").code == 0


@pytest.mark.parametrize("second", ["1.5", "1.4"])
def test_a_page_says_how_much_is_tied(project: Toy, harness: Harness, second: str) -> None:
    """The warning comes before the scores: float32 would have tied what differs in float64."""
    lines = f"q00 Q0 d00 1 1.5 x\nq00 Q0 d01 2 {second} x\nq01 Q0 d00 1 1.50000000001 x\n"
    (project.root / "x.trec").write_text(f"{lines}q01 Q0 d01 2 1.5 x\n")
    words = ("--dataset", "toy", "--arms", "fts5", "--trec-run", "x=x.trec", "--out", "out")
    said = harness("run", *words)
    tied = 2 if second == "1.5" else 0
    assert f"x: {tied} of 4 hits tie with another; in float32" in " ".join(said.err.split())
    assert "2 more would" in " ".join(said.err.split())
    assert json.loads((project.root / "out" / "ties.json").read_text())["x"]["tied"] == tied
    page = (project.root / "out" / "index.html").read_text()
    assert ("50.0 % of its hits tie with another" in page) is (tied == 2)


def by_file(project: Toy, control: str, *, without: int = 0, tied: bool = False) -> list[str]:
    """Make ``x`` show what fts5 shows, less its first queries; or tie all hits of a query."""
    rows = [*read_run(project.layout.run("fts5")).rows()]
    lines = [
        f"{row.query_id} Q0 {hit.doc_id} {rank} {1 if tied else -rank} x\n"
        for row in rows[without:]
        for rank, hit in enumerate(row.hits, start=1)
    ]
    (project.root / "x.trec").write_text("".join(lines))
    words = ("--dataset", "toy", "--arms", "fts5", "--trec-run", "x=x.trec", "--out", "out")
    return ["run", *words, "--control", control]


def quality(project: Toy) -> Any:  # noqa: ANN401  what json gives back
    return of_gate(project.root / "out" / "decision.json", "Quality")


def test_a_gate_holds_for_every_order_of_ties(project: Toy, harness: Harness) -> None:
    said = harness(*by_file(project, "fts5", tied=True))
    assert said.code == 0, said
    assert "x: " in said.err
    over = quality(project)
    assert over["verdict"] == "inconclusive"
    assert "at the ends of what ties leave open -" in over["reason"]
    spread = json.loads((project.root / "out" / "ties.json").read_text())["x"]["measures"]
    means = json.loads((project.root / "out" / "scores.json").read_text())["fts5"]
    low, high = (spread["nDCG@10"][end] - means["nDCG@10"]["mean"] for end in ("least", "most"))
    assert over["estimate"]["low"] < low < over["estimate"]["value"] < high
    left = ("--from", "out", "--policy", "policy/pairwise.toml", "--control", "fts5")
    assert "INCONCLUSIVE: Quality" in harness("gate", *left).out


def test_a_control_whose_scores_are_constant_is_not_beaten_by_the_order_of_its_ids(
    project: Toy, harness: Harness
) -> None:
    """Its rank column is right, so that it is as good as fts5; the order of the ids is not."""
    assert harness(*by_file(project, "x", tied=True)).code == 0
    found = quality(project)
    assert found["estimate"]["value"] > 0
    assert found["estimate"]["low"] < 0, found["reason"]


def test_what_the_control_leaves_out_is_no_gain(project: Toy, harness: Harness) -> None:
    """For one more it has no line, for fts5 finds nothing for it."""
    words = by_file(project, "x", without=4)
    said = harness(*words)
    assert said.code == 0, said
    assert "x: 5 of 41 queries have no line: they are lost" in " ".join(said.err.split())
    lost = quality(project)
    assert lost["estimate"]["value"] == 0
    assert "x has no value for 5 queries that the other has one for" in lost["reason"]
    assert lost["verdict"] != "pass"
    assert "x left 5 unanswered" in (project.root / "out" / "index.html").read_text()
    assert harness(*words, "--missing", "empty").code == 0
    empty = quality(project)
    assert empty["estimate"]["value"] > 0
    assert "has no value" not in empty["reason"]


READ_BY = {
    "runs/fts5.parquet": ("verify", "stage compare", "stage score"),
    "scores/per_query.parquet": ("verify", "report", "gate"),
    "compare/agreement.parquet": ("verify", "report", "gate"),
    "compare/classes.parquet": ("verify", "report", "gate"),
    "times.parquet": ("report", "gate"),
}
"""Tables of a data set, and commands that read them; the last one takes the decision away."""
Damage = Callable[[pa.Table], pa.Table]


def damages(schema: pa.Schema) -> Iterator[tuple[str, Damage]]:
    """Return what may be wrong with a table that is whole as a file."""
    for at, name in enumerate(schema.names):
        yield f"without {name}", partial(_without, at)
        yield f"numbers as {name}", partial(_numbered, at)
    yield "no column", partial(pa.Table.select, columns=[])


def _numbered(at: int, table: pa.Table) -> pa.Table:
    numbers = pa.array([1] * table.num_rows, pa.int8())
    return table.set_column(at, table.schema.names[at], numbers)


def _without(at: int, table: pa.Table) -> pa.Table:
    return table.remove_column(at)


def typed(command: str) -> tuple[str, ...]:
    return (command,) if command == "report" else (*command.split(), "--dataset", NAME)


def files(layout: Layout, root: Path) -> dict[str, Path]:
    """Return each table by the end of its path."""
    places = [*layout.root.rglob("*.parquet"), *root.rglob("times.parquet")]
    found = {}
    for end in READ_BY:
        (found[end],) = {path for path in places if path.as_posix().endswith(f"/{end}")}
    return found


@pytest.mark.whole("test_a_table_that_is_cut_or_flipped_is_named")
def test_a_table_of_other_columns_is_named_by_every_command(project: Toy, harness: Harness) -> None:
    project.decide()
    for end, path in files(project.layout, project.root).items():
        whole = path.read_bytes()
        table = pq.read_table(path)
        for command, (what, damage) in product(READ_BY[end], [*damages(table.schema)]):
            pq.write_table(damage(table).replace_schema_metadata(table.schema.metadata), path)
            said = harness(*typed(command))
            assert said.code == 2, (end, what, command, said)
            assert end in said.err, (what, command, said.err)
            assert "Traceback" not in said.err
        path.write_bytes(whole)
        project.decide()


@pytest.mark.parametrize("end", READ_BY)
def test_a_table_that_is_cut_or_flipped_is_named(project: Toy, harness: Harness, end: str) -> None:
    project.decide()
    path = files(project.layout, project.root)[end]
    whole = path.read_bytes()
    for raw in (b"", whole[: len(whole) // 2], whole[:-4] + b"PAR2", bytes(len(whole))):
        path.write_bytes(raw)
        said = harness(*typed(READ_BY[end][0]))
        assert (said.code, end in said.err) == (2, True), said
