"""Tables of runs: means, tests against independent formulas, marks, files and the command."""

import sys
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, nDCG
from numpy.typing import NDArray
from scipy import stats

from harness.api.comparison import compare, score
from harness.api.paper_table import USUAL, Table, correct, effect_size, p_values, table, tukey
from harness.cli import main
from harness.core.errors import EvidenceError, UnknownName
from tests.api.conftest import SURE, Small

Floats = NDArray[np.float64]
QRELS = {f"q{n}": {"a": 2, "b": 1, "c": 0} for n in range(12)}


def run(*orders: str) -> dict[str, dict[str, float]]:
    """Rank the letters of an order for each query, the last order for the rest."""
    each = [orders[min(n, len(orders) - 1)] for n in range(12)]
    return {f"q{n}": {doc: float(-at) for at, doc in enumerate(of)} for n, of in enumerate(each)}


GOOD, BAD, MIXED = run("abc"), run("xyzcba"), run("abc", "cab", "bac", "xab", "abc", "cba")


@pytest.fixture
def values() -> Floats:
    """Values of four systems on 40 queries, the last better than the others."""
    rng = np.random.default_rng(3)
    return rng.normal(0.5, 0.1, (40, 1)) + rng.normal(0, 0.1, (40, 4)) + [0, 0.01, 0.02, 0.1]


def test_t_and_wilcoxon_are_those_of_scipy(values: Floats) -> None:
    pairs = [(0, 1), (3, 0)]
    by_t = p_values(values, pairs, "t", USUAL)
    by_w = p_values(values, pairs, "wilcoxon", USUAL)
    for at, (one, other) in enumerate(pairs):
        left, right = values[:, one], values[:, other]
        assert by_t[at] == pytest.approx(stats.ttest_rel(left, right).pvalue, rel=1e-9)
        assert by_w[at] == pytest.approx(stats.wilcoxon(left, right).pvalue, rel=1e-9)


def test_tukey_of_two_systems_is_the_paired_t_test(values: Floats) -> None:
    two = values[:, [0, 3]]
    assert tukey(two, [(0, 1)])[0] == pytest.approx(stats.ttest_rel(*two.T).pvalue, rel=1e-4)


@pytest.mark.parametrize("test", ["bootstrap", "permutation"])
def test_tests_that_draw_are_near_t_for_normal_values(test: str, values: Floats) -> None:
    pairs = [(0, 1), (1, 2), (0, 2)]
    drawn = p_values(values, pairs, test, USUAL)  # type: ignore[arg-type]
    assert drawn == pytest.approx(p_values(values, pairs, "t", USUAL), abs=0.03)


def test_a_correction_is_none_holm_or_by_false_discoveries() -> None:
    p = np.array([0.01, 0.04, 0.03])
    assert correct(p, "none") == pytest.approx(p)
    assert correct(p, "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert correct(p, "bh") == pytest.approx([0.03, 0.04, 0.04])


def test_the_effect_size_is_in_standard_deviations() -> None:
    assert effect_size(np.array([1.0, 2.0, 3.0])) == pytest.approx(2)
    assert effect_size(np.zeros(3)) == 0
    assert effect_size(np.ones(3)) == np.inf


def test_means_are_those_of_ir_measures() -> None:
    found = table({"good": GOOD, "mixed": MIXED}, QRELS, [nDCG @ 10, RR @ 10], test="t")
    for name, of in (("good", GOOD), ("mixed", MIXED)):
        want = ir_measures.calc_aggregate([nDCG @ 10, RR @ 10], QRELS, of)
        assert found.mean(name, "nDCG@10") == pytest.approx(want[nDCG @ 10])
        assert found.mean(name, "RR@10") == pytest.approx(want[RR @ 10])
    assert found.systems == ("good", "mixed")


def test_marks_are_letters_of_all_pairs_or_daggers_against_a_baseline() -> None:
    of = {"good": GOOD, "mixed": MIXED, "bad": BAD}
    every = table(of, QRELS, ["nDCG@10"], test="t")
    assert every.mark("good", "nDCG@10") == "bc"
    assert every.mark("bad", "nDCG@10") == ""
    one = table(of, QRELS, ["nDCG@10"], baseline="mixed", test="t")
    assert one.mark("good", "nDCG@10") == "†"
    assert one.mark("bad", "nDCG@10") == "‡"
    assert one.mark("mixed", "nDCG@10") == ""
    assert len(one.pairs) == 2


def test_against_a_baseline_a_pair_is_what_compare_finds(small: Small) -> None:
    intents = {f"q{at:02}": f"i{at // 10}" for at in range(30)}
    runs = {run.arm: run for run in (small.control, small.better, small.worse)}
    scores = {arm: score(run, small.qrels, ["RR@10", "P@1"]).scores for arm, run in runs.items()}
    values = {arm: {m: one.by_query for m, one in of.items()} for arm, of in scores.items()}
    found = Table.of(
        values, {}, baseline="control", test="permutation", correction="holm", sure=SURE,
        clusters=intents,
    )  # fmt: skip
    assert found.systems == ("better", "control", "worse")
    for pair in found.pairs:
        one = compare(
            small.control, runs[pair.system], small.qrels, pair.measure, sure=SURE, intents=intents
        )
        ends = one.estimate.value, one.estimate.low, one.estimate.high
        assert (pair.difference, pair.low, pair.high) == pytest.approx(ends)
        assert pair.p == pytest.approx(one.p_value)
    p = np.array([pair.p for pair in found.pairs])
    assert [pair.p_corrected for pair in found.pairs] == pytest.approx(correct(p, "holm"))


def test_systems_with_the_same_values_are_bold_together() -> None:
    """Whatever the order in which a run has its queries."""
    values = {f"q{n}": 0.1 * (n % 3) for n in range(12)}
    other = dict(sorted(values.items(), key=lambda of: of[1]))
    found = Table.of(
        {"one": {"P@5": values}, "two": {"P@5": other}},
        {}, baseline="", test="t", correction="holm", sure=USUAL,
    )  # fmt: skip
    assert found.mean("one", "P@5") != found.mean("two", "P@5")
    assert found.to_markdown().count("**") == 4


def test_systems_that_share_no_queries_are_named() -> None:
    apart = {"good": GOOD, "bad": BAD, "short": {"q0": {"a": 1.0}}}
    with pytest.raises(EvidenceError, match=r"of good, short, bad: a test needs two queries"):
        table(apart, QRELS, ["nDCG@10"], test="t")


def test_seeds_are_averaged_and_folds_joined() -> None:
    halves = [
        {q: of for q, of in GOOD.items() if (int(q[1:]) < 6) is first} for first in (True, False)
    ]
    of = {"folds": halves, "seeds": [GOOD, BAD], "bad": BAD}
    joined = table(of, QRELS, ["nDCG@10"], test="t")
    assert joined.mean("folds", "nDCG@10") == pytest.approx(1)
    seeds = (joined.mean("folds", "nDCG@10") or 0) + (joined.mean("bad", "nDCG@10") or 0)
    assert joined.mean("seeds", "nDCG@10") == pytest.approx(seeds / 2)
    assert joined.lost == {"folds": 0, "seeds": 0, "bad": 0}


def test_a_query_that_is_missing_is_left_out_or_scores_as_empty() -> None:
    short = {q: of for q, of in GOOD.items() if q != "q0"}
    out = table({"good": GOOD, "short": short}, QRELS, ["nDCG@10"], test="t")
    assert out.lost == {"good": 0, "short": 1}
    assert "Queries without a value: short 1." in out.note
    assert out.pairs[0].queries == 11
    three = {"good": GOOD, "bad": BAD, "short": short}
    for test, counts in (("t", {12, 11}), ("tukey", {11})):
        pairs = table(three, QRELS, ["nDCG@10"], test=test).pairs  # type: ignore[arg-type]
        assert {pair.queries for pair in pairs} == counts
    zero = table({"good": GOOD, "short": short}, QRELS, ["nDCG@10"], test="t", missing="empty")
    assert zero.mean("short", "nDCG@10") == pytest.approx(11 / 12)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"baseline": "none"}, UnknownName),
        ({"test": "sign"}, UnknownName),
        ({"measures": []}, EvidenceError),
        ({"runs": [GOOD, BAD]}, EvidenceError),
    ],
)
def test_what_cannot_be_made_is_refused(change: dict[str, object], error: type[Exception]) -> None:
    given = {"runs": {"good": GOOD, "bad": BAD}, "measures": ["nDCG@10"], **change}
    with pytest.raises(error):
        table(given.pop("runs"), QRELS, given.pop("measures"), **given)  # type: ignore[arg-type]


@pytest.fixture
def found() -> Table:
    """Two systems, one with a name that LaTeX and Markdown would take for marks."""
    return table({"a_b": GOOD, "c-d": BAD}, QRELS, ["nDCG@10"], baseline="c-d", test="t")


def test_latex_and_markdown_escape_names(found: Table) -> None:
    assert r"a\_b & \textbf{1.000}$^{\dagger}$ \\" in found.to_latex()
    assert r"| a\_b | **1.000**† |" in found.to_markdown()
    assert found.to_frame().to_latex()


def test_the_command_prints_and_writes_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def typed(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["harness", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0), capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    trec = {"good": GOOD, "bad": BAD}
    for name, of in trec.items():
        lines = (f"{q} Q0 {d} 1 {s} {name}\n" for q, docs in of.items() for d, s in docs.items())
        (tmp_path / f"{name}.trec").write_text("".join(lines))
    judged = (f"{q} 0 {d} {grade}\n" for q, docs in QRELS.items() for d, grade in docs.items())
    (tmp_path / "qrels.trec").write_text("".join(judged))
    files = [str(tmp_path / "good.trec"), f"other={tmp_path / 'bad.trec'}"]
    given = ["table", *files, "--qrels", str(tmp_path / "qrels.trec"), "--measures", "nDCG@10"]
    code, out = typed(*given, "--out", "t.tex")
    assert code == 0
    assert "1.000 b" in out
    assert r"\toprule" in (tmp_path / "t.tex").read_text()
    code, out = typed(*given[:-1], "nDCG(dcg='exp-log2',judged_only=True)@5, Judged@10")
    assert (code, out.count("nDCG"), out.count("Judged@10")) == (0, 2, 1), out
    assert typed(*given, "--out", "t.txt")[0] == 2
    assert typed(*given, files[0])[0] == 2
