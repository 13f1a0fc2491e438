"""Options that several commands share: one name, one meaning, one definition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import Options, said, tell
from harness.cli.project import Project, added_to_run, name_of
from harness.core.errors import HarnessError
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.cli.command import Result
    from harness.pipeline.imports import ImportReport, ImportTarget
    from harness.pipeline.layout import Layout
    from harness.policy.model import Policy

Dataset = Annotated[
    str,
    typer.Option("--dataset", help="A data set's name. [default, where optional: params.yaml's]"),
]
SetOrFolder = Annotated[
    str, typer.Option("--dataset", help="A data set's name, or a folder in BEIR layout.")
]
_FROM = typer.Option("--from", help="What a `harness run` wrote, instead of the project.")
From = Annotated[Path | None, _FROM]
Ran = Annotated[Path, _FROM]
Corpus = Annotated[Path, typer.Argument(help="Documents as JSON lines: doc_id (or _id), text.")]
ToFile = Annotated[Path, typer.Option("--out", help="File to write.")]
ToFolder = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
MayWrite = Annotated[Path | None, typer.Option("--out", help="File to write as well.")]
At = Annotated[
    Path | None, typer.Option("--at", help="Folder of what is kept. [migration, or history]")
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="File of a policy. [the policy of params.yaml]")
]
Control = Annotated[
    str, typer.Option(help="The arm that serves today: its name, or its TOML file.")
]
Candidate = Annotated[
    str, typer.Option(help="The arm that may replace it: its name, or its TOML file.")
]
ArmName = Annotated[str, typer.Option("--arm", help="An arm: its name, or its TOML file.")]
_SOME = typer.Option("--arm", help="An arm: its name, or its TOML file. May be repeated.")
SomeArms = Annotated[list[str], _SOME]
ShadowSettings = Annotated[
    Path | None,
    typer.Option("--shadow-settings", help="What a live comparison may cost. [policy/shadow.toml]"),
]
AnyArms = Annotated[list[str] | None, _SOME]
Arms = Annotated[
    str, typer.Option("--arms", help="Arms with commas between: names, or TOML files.")
]
Engine = Annotated[
    str,
    typer.Option(
        help="A function search(text, k) of yours, MODULE:FUNCTION or FILE.py:FUNCTION, that"
        " returns ids, or pairs of id and score, the best first."
    ),
]
Measure = Annotated[str, typer.Option(help="As ir-measures writes it, such as nDCG@10.")]
Measures = Annotated[
    str, typer.Option(help="With commas between, as ir-measures writes them. [params.yaml]")
]
Step = Annotated[str, typer.Option(help="A step of the policy.")]
Split = Annotated[str, typer.Option(help="Which judgements.")]
Fields = Annotated[
    str, typer.Option(help="What is searched of a document: title,text or one of them.")
]
Forms = Annotated[
    bool, typer.Option("--forms", help="Slice queries by form: identifier, keyword, language.")
]
AskedTwice = Annotated[
    str,
    typer.Option(
        "--aa", help="Queries of the A/A replay: `all`, or a `sample` of 50. [params.yaml]"
    ),
]
By = Annotated[str, typer.Option(help="Who judges or accepts; the name is kept.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept.")]
Top = Annotated[int, typer.Option(min=0, help="How many are shown, the worst first.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of what is drawn.")]
Record = Annotated[
    bool,
    typer.Option("--record", help="Write the record anew, to commit: dvc.lock, reports/record."),
]
Http = Annotated[
    int | None,
    typer.Option("--http", min=0, max=65535, help="Speak HTTP on this port, 0 for a free one."),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]
Host = Annotated[str, typer.Option(help="Address to listen on; data servers allow loopback.")]
Token = Annotated[bool, typer.Option("--token/--no-token", help="Ask for a token over HTTP.")]
LOCALHOST = "127.0.0.1"


def function_of(engine: str) -> tuple[str, ...]:
    """Return the arm that ``--engine`` names; none where it is left out."""
    from harness.core.names import Place

    if engine:
        Place.required(engine)
    return tuple(filter(None, [engine]))


def listed(given: str) -> tuple[str, ...]:
    """Return what stands between commas."""
    return tuple(filter(None, (one.strip() for one in given.split(","))))


@dataclass(frozen=True, slots=True)
class EvidencePlace(Options):
    """Where evidence lies: below the project, or in what a run left."""

    dataset: Dataset = ""
    source: From = None

    def layouts(self, *, adds: bool = False) -> list[Layout]:
        """Return the places of all data sets that are meant; ``adds`` claims a run's folder."""
        from harness.core.errors import UnknownName
        from harness.pipeline.layout import left_by_run

        if self.source:
            found = (added_to_run if adds else left_by_run)(self.source)
            if self.dataset and name_of(self.dataset) != found.root.name:
                raise UnknownName(f"data set in {self.source}", self.dataset, [found.root.name])
            return [found]
        project = Project.here()
        known = (project.root / "datasets" / self.dataset / "card.toml").is_file()
        if self.dataset and not known and Path(self.dataset).is_dir():
            raise HarnessError(
                f"{self.dataset} is a folder and no data set of the project. Name what a harness"
                " run of it wrote with --from"
            )
        return [project.layout(name) for name in project.datasets(self.dataset)]

    def layout(self, *, adds: bool = False) -> Layout:
        """Return the place of one data set, which need not be named where there is but one."""
        names = [] if self.source else Project.here().datasets(self.dataset)
        if len(names) > 1:
            raise HarnessError(
                f"the project has several data sets ({', '.join(names)}): name one with --dataset,"
                " or what a harness run wrote with --from"
            )
        (found,) = self.layouts(adds=adds)
        return found


@dataclass(frozen=True, slots=True)
class WorkerOptions(Options):
    """Who shares the work: processes of this machine, or a cluster."""

    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Processes that share the work; results are equal.")
    ] = 1
    cluster: Annotated[
        str,
        typer.Option(
            help="Address of a Dask scheduler whose workers share the work, such as"
            " tcp://HOST:8786. They need the same program and the same folders."
        ),
    ] = ""

    @contextmanager
    def used(self) -> Iterator[None]:
        """Run the batches of the block in processes or on a cluster."""
        from harness.core import batches

        if self.cluster and self.workers > 1:
            raise HarnessError("--workers and --cluster are two ways; give one of them")
        if not self.cluster and self.workers == 1:
            yield
            return
        with batches.shared(self.workers, self.cluster, lambda what: tell(f"note: {what}")):
            yield


NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True)
class Imported(Options):
    """Where in the reader's own project a data set goes, and what its card says."""

    name: Annotated[str, typer.Option(help="What the data set is to be called.")]
    split: Split = "test"
    title: Annotated[str, typer.Option(help="One line for the card.")] = NOT_STATED
    source: Annotated[str, typer.Option(help="Where it is from; for the card.")] = NOT_STATED
    licence: Annotated[str, typer.Option(help="Its terms; for the card.")] = NOT_STATED
    force: Annotated[bool, typer.Option(help="Replace a data set of this name.")] = False

    def target(self) -> ImportTarget:
        """Return where it goes."""
        from harness.pipeline.imports import ImportTarget

        root, said = Project.own().root, (self.title, self.source, self.licence)
        places = root / "datasets", root / "qrels"
        return ImportTarget(self.name, *places, self.split, *said, force=self.force)


def imported(report: ImportReport, *before: str) -> Result:
    """Report what was imported, and what is odd about it."""
    counts = (
        many(report.documents, "document"),
        many(report.queries, "query"),
        many(report.judgements, "judgement"),
    )
    return said(
        *before,
        f"imported {report.name} ({report.split}): {', '.join(counts)}",
        *(f"  note: {line}" for line in report.warnings),
        f"Add {report.name} to datasets in params.yaml, or:"
        f" harness run --dataset {report.name} --out out/{report.name}",
    )


def prepare(
    project: Project, dataset: str, to: Path, split: str, fields: str, *, forms: bool
) -> tuple[str, str]:
    """Prepare a data set or a BEIR folder in the folder ``to``; give its licence and source."""
    from harness.core.errors import DatasetError
    from harness.core.records import FIELDS
    from harness.corpus import beir, card
    from harness.pipeline.imports import load_folder
    from harness.pipeline.prepare import prepare as stage

    folder, named = Path(dataset), beir.fields(fields)
    if folder.is_dir():
        if "/" not in dataset and (project.root / "datasets" / dataset / "card.toml").is_file():
            tell(f"note: {dataset} is read as the folder here, not as the data set of this name")
        import_report = load_folder(folder, split, to, fields=named, forms=forms)
        for line in import_report.warnings:
            tell(f"note: {line}")
        return NOT_STATED, f"the folder {folder.resolve().name}"
    project.layout(dataset)
    if forms or named != FIELDS:
        raise DatasetError(
            f"{dataset}: --fields and --forms are for folders; import the data with them"
            " (harness import beir), and run it by its name"
        )
    root = project.root
    stage(root / "datasets" / dataset, root / "qrels" / dataset, to)
    about = card.read(root / "datasets" / dataset)
    return about.licence, about.source


def policy_of(policy: Path | None) -> tuple[Policy, Path]:
    """Read the policy named, or that of the project; with its file."""
    from harness.policy.load import load_policy

    file = policy or Project.here().policy_file
    return load_policy(file), file
