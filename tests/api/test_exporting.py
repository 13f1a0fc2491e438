"""Exports: tables, figures, runs, and the folder they lie in."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from harness.api.comparison import Inference, score
from harness.api.data import load_qrels, load_run
from harness.api.export import LIST, ExportRequest, export, exported
from harness.core import digest
from harness.core.errors import EvidenceError, HarnessError, UnknownName
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


def test_every_value_is_there_by_query(measured: Toy, written: Path) -> None:
    found = rows(written / "per_query.csv")
    queries = read_run(measured.layout.run("fts5")).query_ids
    assert len(found) == len(ARMS) * 2 * len(queries)
    values = [float(r["value"]) for r in found if (r["arm"], r["measure"]) == ("fts5", "RR@10")]
    mean = json.loads(measured.layout.scores.read_text())["fts5"]["RR@10"]["mean"]
    assert sum(values) / len(values) == pytest.approx(mean)


def test_there_is_a_figure_of_each_comparison(written: Path) -> None:
    names = {path.name for path in written.glob("*.svg")}
    assert names == {"forest.svg", "differences-tantivy.svg", "differences-hash-hybrid.svg"}
    assert "nDCG@10: tantivy - fts5" in (written / "differences-tantivy.svg").read_text()


def test_it_is_the_same_twice(measured: Toy, written: Path, tmp_path: Path) -> None:
    for file in export(measured.layout, WANTED, SURE, tmp_path):
        assert file.read_bytes() == (written / file.relative_to(tmp_path)).read_bytes(), file.name


def test_only_the_named_arms_are_corrected_for(measured: Toy, tmp_path: Path) -> None:
    export(measured.layout, ExportRequest("fts5", ("tantivy",), ("RR@10",), ()), SURE, tmp_path)
    assert "(comparisons: 1)" in (tmp_path / "table.md").read_text()
    assert sorted(path.stem for path in (tmp_path / "runs").iterdir()) == ["fts5", "tantivy"]
    assert not list(tmp_path.glob("*.svg"))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (ExportRequest("x", (), ("RR@10",), ()), "no arm that was scored named 'x'"),
        (ExportRequest("fts5", ("x",), ("RR@10",), ()), "no arm that was scored named 'x'"),
        (ExportRequest("fts5", (), ("AP@7",), ()), "AP@7"),
        (ExportRequest("fts5", (), (), ()), "and a measure"),
        (ExportRequest("fts5", (), ("RR@10",), ("gif",)), "no format of figures named 'gif'"),
    ],
)
def test_what_there_is_not_is_named_and_nothing_is_written(
    measured: Toy, tmp_path: Path, wanted: ExportRequest, said: str
) -> None:
    with pytest.raises(HarnessError, match=said) as caught:
        export(measured.layout, wanted, SURE, tmp_path)
    assert isinstance(caught.value, (UnknownName, EvidenceError))
    assert not list(tmp_path.iterdir())


def test_other_arms_leave_nothing_of_the_earlier_ones(measured: Toy, tmp_path: Path) -> None:
    export(measured.layout, WANTED, SURE, tmp_path / "paper")
    less = ExportRequest("fts5", ("tantivy",), ("RR@10",), ())
    files = export(measured.layout, less, SURE, tmp_path / "paper")
    assert sorted(path.name for path in files) == [
        "export.json", "fts5.trec", "harness-export.txt", "per_query.csv", "qrels.trec",
        "table.csv", "table.md", "table.tex", "tantivy.trec",
    ]  # fmt: skip
    of = json.loads((tmp_path / "paper" / "export.json").read_text())["of"]
    assert (of["data"], sorted(of["arms"]), of["seed"]) == ("toy", ["fts5", "tantivy"], 5)


def test_a_folder_with_something_else_in_it_is_refused_first(measured: Toy, tmp_path: Path) -> None:
    (tmp_path / "mine.tex").write_text("my own")
    with pytest.raises(HarnessError, match=r"did not write, for example mine\.tex"):
        export(measured.layout, ExportRequest("no such arm", (), (), ()), SURE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.tex"]


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


def test_a_folder_lists_its_files(tmp_path: Path) -> None:
    to = tmp_path / "not" / "there" / "paper"
    export_exported(to, "runs/a.trec", "table.md")
    assert names(to) == [LIST, MARK, "runs/a.trec", "table.md"]
    said = json.loads((to / LIST).read_text())
    assert said["of"] == {"arms": ["a", "b"]}
    assert said["sha256"] == {name: digest.of_bytes(b"x") for name in ("runs/a.trec", "table.md")}


def test_an_earlier_export_goes_whole(tmp_path: Path) -> None:
    to = tmp_path / "paper"
    export_exported(to, "runs/old.trec", "table.md")
    (to / "table.md").unlink()
    export_exported(to, "runs/new.trec")
    assert names(to) == [LIST, MARK, "runs/new.trec"]
    assert [path.name for path in tmp_path.iterdir()] == ["paper"]


def test_an_empty_folder_is_filled_also_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "paper").symlink_to("real")
    for name in ("a", "b"):
        export_exported(tmp_path / "paper", name)
        assert names(tmp_path / "real") == sorted([name, LIST, MARK])
    assert (tmp_path / "paper").is_symlink()


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


def test_a_link_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    export_exported(tmp_path / "paper", "table.tex")
    (tmp_path / "paper" / "table.tex").rename(tmp_path / "mine.tex")
    (tmp_path / "paper" / "table.tex").symlink_to(tmp_path / "mine.tex")
    (tmp_path / "paper" / "folder").symlink_to(tmp_path)
    with pytest.raises(HarnessError, match="folder: is not of an earlier export"):
        export_exported(tmp_path / "paper", "table.tex")
    (tmp_path / "paper" / "folder").unlink()
    with pytest.raises(HarnessError, match=r"table\.tex: was changed"):
        export_exported(tmp_path / "paper", "table.tex")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2, "sha256": {"a": "b"}}', "\udcff"])
def test_a_list_that_cannot_be_read_is_of_no_export(tmp_path: Path, text: str) -> None:
    export_exported(tmp_path / "paper", "a")
    (tmp_path / "paper" / LIST).write_bytes(os.fsencode(text))
    with pytest.raises(HarnessError, match=f"paper/{LIST}: is not of an earlier export"):
        export_exported(tmp_path / "paper", "a")


def test_what_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    to = tmp_path / "paper"
    export_exported(to, "a")
    with pytest.raises(ZeroDivisionError), exported(to, {}) as beside:
        (beside / "b").write_text(str(1 / 0))
    assert names(to) == ["a", LIST, MARK]
    assert [path.name for path in tmp_path.iterdir()] == ["paper"]


def test_an_export_of_an_earlier_version_proves_itself_by_its_list(tmp_path: Path) -> None:
    export_exported(tmp_path / "paper", "a")
    (tmp_path / "paper" / MARK).unlink()
    export_exported(tmp_path / "paper", "b")
    assert names(tmp_path / "paper") == ["b", LIST, MARK]


def test_a_folder_that_is_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (
        pytest.raises(HarnessError, match="which is read"),
        exported(tmp_path / "run" / "paper", {}, reads=[tmp_path / "run"]),
    ):
        pass
    assert not list((tmp_path / "run").iterdir())


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "paper").write_text("my own")
    with pytest.raises(HarnessError, match="paper: is a file"):
        export_exported(tmp_path / "paper", "a")
    with pytest.raises(HarnessError, match=r"paper/deeper: cannot be written \("):
        export_exported(tmp_path / "paper" / "deeper", "a")
    assert (tmp_path / "paper").read_text() == "my own"


def test_somebodys_own_file_of_that_name_stays(tmp_path: Path) -> None:
    to = tmp_path / "paper"
    to.mkdir()
    (to / LIST).write_text('{"my": "precious"}')
    with pytest.raises(HarnessError, match=f"{LIST}: is not of an earlier export"):
        export_exported(to, "a")
    assert (to / LIST).read_text() == '{"my": "precious"}'
