"""Exports: tables, figures, runs, and the folder they lie in."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from harness.api.comparison import Inference, score
from harness.api.data import load_qrels, load_run
from harness.api.export import LIST, ExportRequest, export, exported
from harness.core.errors import EvidenceError, HarnessError
from harness.core.folders import EXPORT, mark
from harness.corpus.runs import read_run
from tests.make.toy import ARMS, Toy

SURE = Inference(confidence=0.95, resamples=1_000, seed=5)
WANTED = ExportRequest("fts5", (), ("nDCG@10", "RR@10"), ("svg",))


@pytest.fixture(scope="module")
def written(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("export")
    files = export(measured.layout, WANTED, SURE, to)
    assert sorted(files) == sorted(path for path in to.rglob("*") if path.is_file())
    return to


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.slow
def test_the_runs_and_judgements_give_the_same_values_again(measured: Toy, written: Path) -> None:
    qrels = load_qrels(written / "qrels.trec")
    means = json.loads(measured.layout.scores.read_text())
    asked = read_run(measured.layout.run("fts5")).query_ids
    for arm in ARMS:
        run = load_run(written / "runs" / f"{arm}.trec", empty=asked)
        found = score(run, qrels, ["nDCG@10"], queries=asked).scores["nDCG@10"].mean
        assert found == pytest.approx(means[arm]["nDCG@10"]["mean"], abs=1e-12)


def test_the_table_has_the_means_and_differences_of_the_pipeline(
    measured: Toy, written: Path
) -> None:
    means = json.loads(measured.layout.scores.read_text())
    apart = json.loads(measured.layout.differences.read_text())["fts5~tantivy"]
    found = {(row["arm"], row["measure"]): row for row in rows(written / "table.csv")}
    assert len(found) == len(ARMS) * 2
    for measure in WANTED.measures:
        row = found["tantivy", measure]
        assert float(row["mean"]) == means["tantivy"][measure]["mean"]
        assert float(row["difference"]) == apart[measure]["mean"]
        assert float(row["low"]) == apart[measure]["low"]
        assert float(row["p_holm"]) >= float(row["p"])


def test_a_run_that_was_changed_since_is_refused(project: Toy, tmp_path: Path) -> None:
    run = project.layout.run("tantivy")
    run.write_bytes(project.layout.run("fts5").read_bytes())
    with pytest.raises(EvidenceError):
        export(project.layout, WANTED, SURE, tmp_path / "paper")


MARK = mark(Path(), EXPORT).name


def export_exported(to: Path, *names: str, text: str = "x") -> None:
    with exported(to, {"arms": ("a", "b")}) as beside:
        for name in names:
            (beside / name).parent.mkdir(exist_ok=True)
            (beside / name).write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_an_earlier_export_goes_whole(tmp_path: Path) -> None:
    to = tmp_path / "paper"
    export_exported(to, "runs/old.trec", "table.md")
    (to / "table.md").unlink()
    export_exported(to, "runs/new.trec")
    assert names(to) == [LIST, MARK, "runs/new.trec"]
    assert [path.name for path in tmp_path.iterdir()] == ["paper"]


@pytest.mark.parametrize("list_there", [True, False])
@pytest.mark.parametrize("name", ["mine.tex", "runs/mine.trec", ".hidden"])
def test_a_file_of_ones_own_is_never_lost(tmp_path: Path, name: str, *, list_there: bool) -> None:
    to = tmp_path / "paper"
    export_exported(to, "runs/a.trec")
    if not list_there:
        (to / LIST).unlink()
    (to / name).write_text("my own")
    with pytest.raises(HarnessError, match=r"is not of an earlier export\. Move it away"):
        export_exported(to, "runs/b.trec")
    assert (to / name).read_text() == "my own"
    assert "runs/a.trec" in names(to)


def test_what_was_edited_is_never_lost(tmp_path: Path) -> None:
    export_exported(tmp_path / "paper", "table.tex")
    (tmp_path / "paper" / "table.tex").write_text("edited")
    with pytest.raises(HarnessError, match=r"table\.tex: was changed since it was exported"):
        export_exported(tmp_path / "paper", "table.tex")
    assert (tmp_path / "paper" / "table.tex").read_text() == "edited"
