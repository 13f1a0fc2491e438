"""Judging by people, panels and machines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from zlib import crc32

import pytest

from harness.core.errors import BadFile, DatasetError, EvidenceError
from harness.core.files import write_text
from harness.core.formats import json_file
from harness.corpus import card, judgements, trec
from harness.corpus.judgements import Pool
from harness.corpus.runs import read_run
from harness.judge import pool
from harness.judge.judge import Judging, difference, judge, merge
from harness.judge.panel import own_file
from harness.judge.pool import SNIPPET, Compared
from harness.measures.missing_judgements import missing
from harness.serve import pages
from harness.stats.inference import Inference
from tests.cli.conftest import Harness, Said
from tests.make.desk import ENDPOINT, OVERLAP, desk, write_pool
from tests.make.judge_server import completion, graded
from tests.make.toy import CANDIDATE, CONTROL, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow

ARMS = ("--control", CONTROL, "--candidate", CANDIDATE)


@pytest.fixture
def sparse(project: Toy, harness: Harness) -> Toy:
    """Take most judgements away: only the best document of each query stays judged."""
    judged = project.root / "qrels" / "toy" / "test.qrels"
    lines = judged.read_text().splitlines(keepends=True)
    judged.write_text("".join(line for line in lines if line.split()[3] == "2" or "q99" in line))
    assert harness("stage", "prepare", "--dataset", "toy", "--update").code == 0
    return project


@pytest.fixture
def pooled(sparse: Toy, harness: Harness) -> Path:
    """Write a pool of five."""
    path = sparse.root / "pool.qrels"
    words = ("--measure", "nDCG@10", "--size", "5", "--out", path)
    said = harness("pool", "--dataset", "toy", *ARMS, *words)
    assert said.code == 0, said
    assert "wrote the first 5" in said.out
    return path


def piped(harness: Harness, monkeypatch: pytest.MonkeyPatch, keys: str, *words: str | Path) -> Said:
    monkeypatch.setattr("sys.stdin", io.StringIO(keys))
    return harness("judge", *words)


def test_a_pool_names_the_most_decisive_pairs_first(pooled: Path, sparse: Toy) -> None:
    found = judgements.read_pool(pooled)
    gains = [pair.narrows for pair in found.pairs]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 0
    assert found.grades == (None,) * 5
    judged = trec.qrels(sparse.root / "qrels" / "toy" / "test.qrels").grades
    for pair in found.pairs:
        assert pair.doc_id not in judged[pair.query_id]
        assert pair.query
        assert pair.title
        assert 0 < len(pair.snippet) <= SNIPPET
        assert pair.scale == (0, 1, 2)


def test_all_of_the_question_and_of_the_document_is_shown(
    pooled: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However narrow the terminal is, words are wrapped and not cut off; brackets are no markup."""
    made = judgements.read_pool(pooled)
    long = " ".join(f"[red]word{at}" for at in range(60))
    changed = made.pairs[0].model_copy(update={"query": long, "snippet": long, "title": long})
    write_text(
        judgements.texts_path(pooled),
        judgements.texts_of(Pool((changed, *made.pairs[1:]), made.grades)),
    )
    said = piped(harness, monkeypatch, "q", pooled)
    for at in range(60):
        assert said.err.count(f"[red]word{at}") >= 3


def test_arms_that_were_compared_in_one_go_have_their_pool_too(
    sparse: Toy, harness: Harness
) -> None:
    ran, path = sparse.root / "out", sparse.root / "p.qrels"
    run = ("--dataset", "toy", "--arms", f"{CONTROL},{CANDIDATE}", "--control", CONTROL)
    assert harness("run", *run, "--out", ran).code == 0
    words = ("--from", ran, "--measure", "nDCG@10", "--size", "3", "--out", path)
    said = harness("pool", "--dataset", "toy", *ARMS, *words)
    assert said.code == 0, said
    assert "over 41 queries" in said.out
    assert len(judgements.read_pool(path).pairs) == 3


def test_a_pool_is_not_written_over(pooled: Path, harness: Harness) -> None:
    words = ("--measure", "nDCG@10", "--size", "5", "--out", pooled)
    assert "already exists" in harness("pool", "--dataset", "toy", *ARMS, *words).error


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--dataset", "nope"), "no dataset named 'nope'; there is toy"),
        (("--dataset", "beir"), "beir is a folder and no data set of the project. Name"),
        (("--from", "out/ran", "--dataset", "toy"),
         "no data set in out/ran named 'toy'; there is beir"),
        (("--from", "out/none"), "out/none/work/build: holds the evidence of none"),
        (("--from", "out"), "out/work/build: holds the evidence of none"),
        (("--from", "out/ran", "--candidate", "dense"),
         "no arm that beir was run with named 'dense'; there is fts5, tantivy"),
        (("--dataset", "toy", "--candidate", "dense"),
         "no arm that toy was run with named 'dense'; there is fts5, hash-hybrid, tantivy"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_not_what_follows(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    """Each of these said that an arm had no index, which no command could mend."""
    run = ("run", "--dataset", "beir", "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*run, "--out", "out/ran").code == 0
    size = ("--measure", "nDCG@10", "--size", "5", "--out", "x.pool")
    assert says in harness("pool", *ARMS, *size, *words).error
    assert project


def test_the_data_set_of_a_run_need_not_be_named(sparse: Toy, harness: Harness) -> None:
    run = ("run", "--dataset", "toy", "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*run, "--out", "out/ran").code == 0
    size = ("--measure", "nDCG@10", "--size", "5", "--out")
    for name, words in (("a", ("--from", "out/ran")), ("b", ())):
        assert harness("pool", *ARMS, *size, name, *words).code == 0
    assert (sparse.root / "a").read_bytes() == (sparse.root / "b").read_bytes()


def test_where_all_is_judged_there_is_nothing_to_pool(project: Toy, harness: Harness) -> None:
    words = ("--measure", "nDCG@10", "--size", "5", "--out", project.root / "p")
    said = harness("pool", "--dataset", "toy", *ARMS, *words)
    assert "no judgement is missing" in said.error
    unknown = ("--measure", "Judged@10", "--size", "5", "--out", project.root / "p")
    assert "measure with bounds" in harness("pool", "--dataset", "toy", *ARMS, *unknown).error


def test_keys_give_grades_and_may_be_taken_back(
    pooled: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = piped(harness, monkeypatch, "1 s 9 2 u 0\n", pooled)
    assert said.code == 0, said
    assert judgements.read_pool(pooled).grades == (1, None, 0, None, None)
    assert "'9' is not a key" in said.err
    assert "2 of 5 pairs are judged" in said.out


def test_it_goes_on_where_it_was_left(
    pooled: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(harness, monkeypatch, "12q00", pooled)
    assert judgements.read_pool(pooled).grades == (1, 2, None, None, None)
    piped(harness, monkeypatch, "000", pooled)
    assert judgements.read_pool(pooled).grades == (1, 2, 0, 0, 0)
    assert "5 of 5" in piped(harness, monkeypatch, "", pooled).out


def test_each_key_is_in_the_file_before_the_next(pooled: Path) -> None:
    """Whoever pulls the plug loses one key at most."""
    seen: list[tuple[int | None, ...]] = []

    def show(_: Pool, __: int, ___: str) -> None:
        seen.append(judgements.read_pool(pooled).grades)

    judge(pooled, "01u", show)
    assert seen == [
        (None, None, None, None, None),
        (0, None, None, None, None),
        (0, 1, None, None, None),
        (0, None, None, None, None),
    ]


def test_what_somebody_else_judges_meanwhile_stays_and_is_told(pooled: Path) -> None:
    said: list[str] = []
    shown = judgements.read_pool(pooled).pairs

    def show(_: Pool, __: int, told: str) -> None:
        said.append(told)
        if len(said) == 1:
            judgements.regrade(pooled, shown[0], None, 2)
            judgements.regrade(pooled, shown[3], None, 1)

    judge(pooled, "1s00s", show)
    assert judgements.read_pool(pooled).grades == (2, 0, 0, 1, None)
    assert said == [
        "", "somebody else judged it 2 meanwhile; nothing was changed", "", "",
        "judged 1 already", "",
    ]  # fmt: skip


def test_judgements_come_back_into_the_data_set_with_who_made_them(
    pooled: Path, sparse: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(harness, monkeypatch, "0120q", pooled)
    said = harness("judge", pooled, "--merge", "toy", "--by", "two editors")
    assert "added 4 judgements to toy; 0 were known, 1 are open" in said.out
    judged = sparse.root / "qrels" / "toy" / "test.qrels"
    grades = trec.qrels(judged).grades
    for query_id, doc_id, grade in judgements.read_pool(pooled).judgements:
        assert grades[query_id][doc_id] == grade
    assert "4 judgements were added on" in card.read(sparse.root / "datasets" / "toy").warnings[-1]
    (line,) = judged.with_name("test.judged.jsonl").read_text().splitlines()
    assert json.loads(line)["by"] == "two editors"
    assert len(json.loads(line)["judgements"]) == 4
    assert harness("stage", "prepare", "--dataset", "toy").code == 0
    again = harness("judge", pooled, "--merge", "toy", "--by", "two editors")
    assert "added 0 judgements to toy; 4 were known" in again.out


def test_a_judgement_narrows_what_is_open(
    pooled: Path, sparse: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.corpus.prepared import Prepared
    from harness.corpus.runs import read_run

    control, candidate = (read_run(sparse.layout.run(arm)) for arm in (CONTROL, CANDIDATE))

    def width() -> float:
        qrels = Prepared.open(sparse.layout.data).qrels()
        found = missing(control, candidate, qrels, "nDCG@10")
        return float((found.best - found.worst).mean())

    before = width()
    piped(harness, monkeypatch, "00000", pooled)
    harness("judge", pooled, "--merge", "toy", "--by", "me")
    assert 0 < width() < before


def test_a_contradiction_is_not_settled_in_silence(pooled: Path, sparse: Toy) -> None:
    judge(pooled, "1", lambda *_: None)
    query_id, doc_id, _ = judgements.read_pool(pooled).judgements[0]
    folders = sparse.root / "datasets" / "toy", sparse.root / "qrels" / "toy"
    judged = folders[1] / "test.qrels"
    judged.write_text(judged.read_text() + f"{query_id} 0 {doc_id} 2\n")
    with pytest.raises(DatasetError, match=r"has grade 2 .* and grade 1"):
        merge(pooled, *folders, by="me", at="2026-01-31")


def test_who_judged_must_be_said(pooled: Path, harness: Harness) -> None:
    assert "say who judged" in harness("judge", pooled, "--merge", "toy").error


def test_a_pool_that_is_none(sparse: Toy, harness: Harness) -> None:
    assert "missing file" in harness("judge", sparse.root / "nothing.qrels").error
    with pytest.raises(BadFile):
        judge(sparse.root / "nothing.qrels", "", lambda *_: None)


CANDIDATE_ASSISTED = "hash-hybrid"


RULES = Inference(confidence=0.95, resamples=300, seed=5)


def write(toy: Toy, *, opposite: bool = False) -> tuple[Path, Path]:
    """Let a machine judge all that is shown, and people three of four queries of the toy."""
    runs = [read_run(toy.layout.run(arm)) for arm in (CONTROL, CANDIDATE_ASSISTED)]
    human, machine = [], []
    for at, query_id in enumerate(runs[0].query_ids):
        for doc_id in sorted({d for run in runs for d in run.ranking(query_id, 10)}):
            grade = crc32(f"{query_id} {doc_id}".encode()) % 3 // 2
            machine.append(f"{query_id} 0 {doc_id} {1 - grade if opposite else grade}\n")
            if at % 4:
                human.append(f"{query_id} 0 {doc_id} {grade}\n")
    paths = toy.root / "human.qrels", toy.root / "machine.qrels"
    for path, lines in zip(paths, (human, machine), strict=True):
        path.write_text("".join(lines))
    return paths


def typed(harness: Harness, *more: str, measure: str = "P@10") -> Said:
    arms = ("--control", CONTROL, "--candidate", CANDIDATE_ASSISTED, "--measure", measure)
    files = ("human.qrels", "--machine", "machine.qrels")
    return harness("labels", *files, "--dataset", "toy", *arms, "--margin", "0.5", *more)


@pytest.mark.parametrize("opposite", [False, True])
def test_people_decide_and_the_machine_describes(
    project: Toy, harness: Harness, *, opposite: bool
) -> None:
    write(project, opposite=opposite)
    said = typed(harness)
    assert said.code == 0, said
    assert f"kappa of people and machine {'-' if opposite else ''}" in said.out
    assert f"grade {1 - opposite:d} of the machine: 100% relevant to people" in said.out
    assert "it describes and decides nothing" in said.out
    alone, used = (line.split(": ")[1] for line in said.out.splitlines()[-2:])
    assert used.split(", allowed")[0] == alone.split(", n")[0]
    assert typed(harness, "--margin", "0.15").code == 3, "the machine alone would pass"


def test_what_is_refused_is_named(project: Toy, harness: Harness) -> None:
    human, _ = write(project)
    error = typed(harness, measure="nDCG@10").error
    assert "no measure to which each document adds by itself named 'nDCG@10'; there is P@5" in error
    lines = human.read_text().splitlines(keepends=True)
    judging = Judging(
        CONTROL, CANDIDATE_ASSISTED, "P@10", human, project.root / "machine.qrels", 0.5
    )
    found = difference(project.layout, judging, RULES)
    assert found.queries > found.judged > 0
    human.write_text("".join(line for line in lines if hash(line) is None or line != lines[0]))
    apart = [line for line in lines if line.split()[0] == "q01"]
    human.write_text("".join(line for line in lines if line not in apart[1:]))
    assert "human.qrels: 1 query is judged in part, for example q01; judge" in (
        typed(harness).error
    )
    human.write_text("".join(apart))
    assert "people judged" in typed(harness).error
    (project.root / "machine.qrels").write_text("q01 0 elsewhere 1\n")
    human.write_text("".join(lines))
    assert "no document was judged by people and by the machine" in typed(harness).error


WORDS = ("judge", "pool.qrels", "--machine", "judge.toml")


def test_a_rule_labels_a_pool(project: Toy, harness: Harness) -> None:
    write_pool(project.root)
    said = harness(
        *WORDS[:2], "--machine", ROOT / "examples/judge/overlap.toml", "--out", "m.jsonl"
    )
    assert said.code == 0, said
    assert "overlap: 4 labels in m.jsonl, 4 pairs judged now for 0.0000 with 0 retries" in said.out
    assert "  grade 0: 2\n  grade 1: 2\n" in said.out
    assert len(judgements.read_labels(project.root / "m.jsonl")) == 4
    assert (project.root / ".cache" / "judges" / "overlap").is_dir()


def test_a_dry_run_says_the_cost(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(project.root, monkeypatch, completion("prose")) as at:
        at.file.write_text((ROOT / "examples/judge/endpoint.toml").read_text())
        said = harness(*WORDS, "--dry-run")
        assert at.server is not None
        assert not at.server.seen
    assert said.code == 0, said
    assert "4 pairs, 0 answered before. The others send about" in said.out
    assert "without retries. Nothing was sent." in said.out
    assert not (project.root / ".cache" / "judges").exists()


def test_pairs_without_a_label_are_listed(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    prose = [completion("prose")] * 5
    with desk(project.root, monkeypatch, *prose, graded(1, 0, 0)) as at:
        at.file.write_text(ENDPOINT.replace("retries = 2", "retries = 4"))
        said = harness(*WORDS, "--out", "m.jsonl")
    assert "grader: 3 labels in m.jsonl" in said.out
    assert "no label: d0 for query q0: the judge grader: the answer is not JSON: prose" in said.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--out", "m.jsonl"), "--out and --dry-run belong to --machine FILE"),
        (("--machine", "judge.toml"), "name the file of labels: --out FILE"),
        (("--machine", "judge.toml", "--merge", "toy"), "--merge and --by are for judgements of"),
        (("--machine", "none.toml", "--out", "m.jsonl"), "none.toml: no such file"),
        (("--machine", "judge.toml", "--out", "pool.qrels"), "which is read"),
    ],
)
def test_what_does_not_fit_is_named(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    before = write_pool(project.root).read_bytes()
    (project.root / "judge.toml").write_text(OVERLAP)
    assert says in harness("judge", "pool.qrels", *words).error
    assert Path(project.root / "pool.qrels").read_bytes() == before


ADA, BEN = "pool.ada.qrels", "pool.ben.qrels"


@pytest.fixture
def begun(project: Toy) -> Path:
    """Begin the files of two people who judge twelve pairs."""
    pool = write_pool(project.root, 12)
    for name in ("ada", "ben"):
        own_file(pool, name)
    return project.root


def judge_panel(path: Path, *, odd: int) -> None:
    for pair in judgements.read_pool(path).pairs:
        judgements.regrade(path, pair, None, odd if int(pair.query_id[1:]) % 4 else 0)


def test_a_name_has_a_file_of_its_own(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = write_pool(project.root, 2)
    before = pool.read_bytes()
    monkeypatch.setattr("sys.stdin", io.StringIO("1q"))
    said = harness("judge", "pool.qrels", "--by", "ada")
    assert said.code == 0, said
    assert "1 of 2 pairs are judged in pool.ada.qrels" in said.out
    assert judgements.read_pool(project.root / ADA).grades == (1, None)
    assert pool.read_bytes() == before


def test_two_people_judge_and_disagreements_are_settled(begun: Path, harness: Harness) -> None:
    judge_panel(begun / ADA, odd=1)
    early = harness("panel", "report", ADA, BEN)
    assert "ben: 0 of 12 judged\n" in early.out
    assert "Krippendorff's alpha, ordinal: too few queries were judged twice to say" in early.out
    judge_panel(begun / BEN, odd=2)
    said = harness("panel", "report", ADA, BEN)
    assert said.code == 0, said
    assert "ada: 12 of 12 judged\n" in said.out
    assert "12 pairs were judged twice; 9 differ, 0 of them by two grades or more" in said.out
    assert "weighted kappa of ada and ben: 0." in said.out
    settle = ("panel", "settle", ADA, BEN, "--out", "settled.qrels")
    open_ = harness(*settle)
    assert open_.code == 3
    assert "9 disagreements are open.\nJudge them: harness judge settled.disag" in open_.out
    path = begun / "settled.disagreements.qrels"
    for pair in judgements.read_pool(path).pairs:
        judgements.regrade(path, pair, None, 2)
    done = harness(*settle)
    assert done.code == 0, done
    assert "12 pairs are settled in settled.qrels" in done.out
    grades = trec.qrels(begun / "settled.qrels").grades
    assert sorted(grade for docs in grades.values() for grade in docs.values()) == [0] * 3 + [2] * 9


def test_one_file_is_too_few(begun: Path, harness: Harness) -> None:
    assert begun.is_dir()
    for words in (("report",), ("settle", "--out", "x")):
        said = harness("panel", words[0], ADA, *words[1:])
        assert said.code == 2
        assert "takes the files of two people" in said.error


PAIR = ("--control", CONTROL, "--candidate", CANDIDATE, "--measure", "nDCG@10")


Judgements = dict[tuple[str, str], int]


@pytest.fixture
def judged(project: Toy, harness: Harness) -> Judgements:
    """Withhold most judgements, and give them all."""
    path = project.root / "qrels" / "toy" / "test.qrels"
    lines = path.read_text().splitlines(keepends=True)
    grades = {(line.split()[0], line.split()[2]): int(line.split()[3]) for line in lines}
    path.write_text("".join(line for line in lines if line.split()[3] == "2" or "q99" in line))
    assert harness("stage", "prepare", "--dataset", "toy", "--update").code == 0
    return grades


def sample(harness: Harness, to: Path, size: str = "40", *more: str) -> Said:
    words = (*PAIR, "--order", "sample", "--size", size, "--out", to, *more)
    return harness("pool", "--dataset", "toy", *words)


@pytest.fixture
def begun_sampling(project: Toy, harness: Harness, judged: Judgements) -> Path:
    path = project.root / "pool.qrels"
    said = sample(harness, path)
    assert said.code == 0, said
    assert "unjudged hits of" in said.out
    assert judged
    return path


def page(path: Path) -> str:
    return bytes(pages.judging(pages.sit("pool", path, {}), "harness").body).decode()


def press_all(path: Path, judged: Judgements) -> Pool:
    """Judge in a browser until no pair comes."""
    seen = pages.sit("pool", path, {})
    while seen.pair is not None:
        grade = judged.get((seen.pair.query_id, seen.pair.doc_id), 0)
        seen = pages.press("pool", path, f"key={grade}&pair={seen.word}&was=&done=".encode())
    return judgements.read_pool(path)


def test_the_others_of_a_query_come_where_a_drawn_hit_is_relevant(
    begun_sampling: Path, judged: Judgements
) -> None:
    first = judgements.read_pool(begun_sampling).pairs
    whole = press_all(begun_sampling, judged)
    assert whole.pairs[: len(first)] == first
    more = whole.pairs[len(first) :]
    good = {one.query_id for one in first if judged.get((one.query_id, one.doc_id), 0)}
    assert more
    assert {one.query_id for one in more} <= good
    assert not whole.open
    assert "The sample is judged: of " in page(begun_sampling)
    found = pool.standing(begun_sampling)
    assert found is not None
    assert not found.judged.left


def test_a_terminal_gets_the_next_pairs_too(
    harness: Harness, begun_sampling: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(judgements.read_pool(begun_sampling).pairs)
    monkeypatch.setattr("sys.stdin", io.StringIO("1" * count + "q"))
    said = harness("judge", begun_sampling)
    assert said.code == 0
    assert len(judgements.read_pool(begun_sampling).pairs) > count


def test_a_gate_decides_by_the_sample_and_the_decision_is_derived_again(
    project: Toy, harness: Harness, judged: Judgements
) -> None:
    """The judged sample is evidence: without it the gate is open, and to change it is noticed."""
    begun, policy = project.root / "pool.qrels", project.root / "policy" / "toy.toml"
    policy.write_text(policy.read_text().replace('control = "fts5"', 'control = "hash-hybrid"'))
    assert sample(harness, begun, "60", "--control", "hash-hybrid").code == 0
    for stage in (("stage", "score"), ("stage", "compare"), ("gate",)):
        harness(*stage, "--dataset", "toy")
    before = quality(project)
    assert before["cause"] == "unjudged"
    assert "--order sample --size" in before["settle"]
    words = ("labels", begun, "--dataset", "toy")
    assert "are not judged" in harness(*words, "--by", "ada").error
    press_all(begun, judged)
    said = harness(*words, "--by", "ada and a machine")
    assert said.code == 0, said
    assert "by ada and a machine" in said.out
    harness("gate", "--dataset", "toy")
    after = quality(project)
    assert "judged by ada and a machine" in after["reason"]
    assert harness("verify", "--dataset", "toy").code == 0
    (file,) = (project.layout.root / "labels").glob("*.sample.json")
    text = file.read_text()
    file.write_text(text.replace(": 1", ": 0"))
    assert harness("verify", "--dataset", "toy").code != 0
    file.write_text(text.replace('"rate"', '"rates"'))
    assert "Take the sample in again" in harness("gate", "--dataset", "toy").error


def quality(project: Toy) -> dict[str, str]:
    (step,) = json_file(project.layout.findings)["steps"]
    (found,) = (one for one in step["findings"] if one["gate"] == "Quality")
    assert isinstance(found, dict)
    return found


def test_a_pair_that_was_skipped_is_judged_before_more_come(begun_sampling: Path) -> None:
    skipped, *others = judgements.read_pool(begun_sampling).pairs
    for pair in others:
        judgements.regrade(begun_sampling, pair, None, 1)
    found = pool.following(begun_sampling)
    assert found is not None
    assert found.pool.pairs == (skipped, *others) == judgements.read_pool(begun_sampling).pairs


def test_runs_that_changed_add_nothing_and_the_page_says_so(
    project: Toy, begun_sampling: Path
) -> None:
    made = judgements.read_pool(begun_sampling)
    file = pool.beside(begun_sampling)
    now = pool.runs_of(project.layout, Compared(CONTROL, CANDIDATE, "nDCG@10"))
    file.write_text(file.read_text().replace(now[0], "0" * 64))
    for pair in made.pairs:
        judgements.regrade(begun_sampling, pair, None, 0)
    assert "was run anew, and other hits would be drawn" in page(begun_sampling)
    with pytest.raises(EvidenceError, match="Make a new pool"):
        pool.following(begun_sampling)
    file.write_text("{}")
    with pytest.raises(BadFile, match="control: Field required"):
        pool.standing(begun_sampling)


def test_a_first_pool_becomes_a_data_set_by_the_command_of_its_page(
    project: Toy, harness: Harness
) -> None:
    queries, corpus = (project.root / "beir" / f"{name}.jsonl" for name in ("queries", "corpus"))
    path = project.root / "first.qrels"
    words = (queries, corpus, "--arms", "fts5", "--depth", "1", "--out", path)
    assert harness("queries", "pool", *words).code == 0
    for pair in judgements.read_pool(path).pairs:
        judgements.regrade(path, pair, None, 1)
    commands = [one.partition("<")[0].split() for one in page(path).split("<code>")[1:]]
    (made,) = (one for one in commands if one[:3] == ["harness", "import", "jsonl"])
    places = {"corpus.jsonl": corpus, "queries.jsonl": queries, "NAME": "first"}
    assert harness(*(places.get(one, one) for one in made[1:])).code == 0
    lines = (project.root / "qrels" / "first" / "test.qrels").read_text().splitlines()
    assert len(lines) == len(judgements.read_pool(path).pairs)


def test_what_cannot_be_drawn_says_why(project: Toy, harness: Harness, judged: Judgements) -> None:
    to = project.root / "p.qrels"
    words = ("pool", "--dataset", "toy", *PAIR, "--size", "5", "--out", to)
    assert "no order of a pool named 'best'; there is" in harness(*words, "--order", "best").error
    other = ("--control", CONTROL, "--candidate", CANDIDATE, "--measure", "ERR@10")
    said = harness("pool", "--dataset", "toy", *other, "--order", "sample", *words[-4:])
    assert "what one hit adds to ERR@10 is not known" in said.error
    assert not to.exists()
    assert judged
