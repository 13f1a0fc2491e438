"""``harness table``."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import Result, app, command
from harness.cli.options import MayWrite
from harness.cli.project import Project
from harness.core.errors import HarnessError

WRITTEN = (".md", ".tex", ".csv")


@command(app)
def table(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="TREC or Parquet runs. NAME=FILE names one, NAME=FILE,FILE joins seeds or folds."
        ),
    ],
    qrels: Annotated[Path, typer.Option(help="Judgements: TREC, or a .tsv of BEIR.")],
    *,
    measures: Annotated[
        str, typer.Option(help="With commas between, as ir-measures writes them.")
    ] = "nDCG@10,RR@10,R@100",
    baseline: Annotated[
        str, typer.Option(help="System that the others are tested against. [all pairs]")
    ] = "",
    test: Annotated[
        str, typer.Option(help="permutation, bootstrap, t, wilcoxon or tukey.")
    ] = "permutation",
    correction: Annotated[str, typer.Option(help="holm, bh or none.")] = "holm",
    missing: Annotated[
        str, typer.Option(help="Judged queries that a run lacks: `left out` or `empty`.")
    ] = "left out",
    resamples: Annotated[int, typer.Option(min=1, help="Resamples of tests that draw.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is drawn.")] = 20_260_101,
    confidence: Annotated[float, typer.Option(help="1 minus the significance level.")] = 0.95,
    to: MayWrite = None,
) -> Result:
    """Score runs against judgements, and print the table of a paper with marks.

    No corpus, queries or settings are read. A query that a run lacks is left out and counted below
    the table, or scores as an empty answer with --missing empty. --out writes the table by its
    ending: .tex (booktabs), .md, or .csv with every mean and every test unrounded.

    Example: harness table bm25.trec dense.trec --qrels qrels.trec --baseline bm25 --out table.tex
    """
    from harness.core.files import write_text
    from harness.core.folders import check_new
    from harness.stats.inference import Inference
    from harness.tables.stage import table as made

    named: dict[str, list[Path]] = {}
    for given in runs:
        name, files = _named(given)
        if name in named:
            raise HarnessError(f"two systems are named {name}. Name them: NAME=FILE")
        named[name] = files
    if to:
        read = [file for files in named.values() for file in files]
        check_new(to, reads=(qrels, *read, *Project.here().sources))
    if to and to.suffix not in WRITTEN:
        raise HarnessError(f"{to}: name a file that ends in {', '.join(WRITTEN)}")
    found = made(
        named,
        qrels,
        _measures(measures),
        baseline=baseline,
        test=test,  # type: ignore[arg-type]  # checked there
        correction=correction,  # type: ignore[arg-type]  # checked there
        missing=missing,
        sure=Inference(confidence=confidence, resamples=resamples, seed=seed),
    )
    if to:
        text = {".md": found.to_markdown, ".tex": found.to_latex, ".csv": found.to_csv}
        write_text(to, text[to.suffix]())
    return Result(found.doc())


def _measures(given: str) -> list[str]:
    """Split at commas, but those between the parentheses of one measure."""
    found: list[str] = []
    for part in given.split(","):
        if found and found[-1].count("(") > found[-1].count(")"):
            found[-1] += f",{part}"
        elif part.strip():
            found.append(part.strip())
    return found


def _named(given: str) -> tuple[str, list[Path]]:
    """Read ``NAME=FILE,FILE`` or ``FILE``."""
    name, equals, files = given.partition("=")
    if not equals or Path(given).is_file():
        return Path(given).stem, [Path(given)]
    return name, [Path(file) for file in files.split(",")]
