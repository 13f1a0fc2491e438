"""``harness compare``."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import Result, app, command
from harness.cli.options import PolicyFile, Seed
from harness.cli.project import Project, own
from harness.logs.commands import LogForm


@command(app)
def compare(
    control: Annotated[
        str, typer.Argument(help="Address with {query}, and {k}; or an arm's TOML file.")
    ],
    candidate: Annotated[
        str, typer.Argument(help="The same; without {query} it has the control's parameters.")
    ],
    *,
    log: Annotated[Path, typer.Option(help="A log of searches, packed with gzip or not.")],
    form: LogForm,
    size: Annotated[int, typer.Option(min=1, help="At most so many queries.")] = 300,
    to: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("out/compare"),
    map_: Annotated[
        str,
        typer.Option(
            "--map", help="JMESPath of list, id, score where what is found is wrong: id=sku,..."
        ),
    ] = "",
    policy: PolicyFile = None,
    seed: Seed = None,
) -> Result:
    """Compare two search services on queries of a log, before anything is judged.

    Samples the log as `harness queries from-log` does, sends each query to both, and learns the
    shape of the JSON. Reports overlap, order, empty answers, failures and latency, with intervals,
    and how many judged pairs a verdict takes. Writes both arms' TOML files, the queries, a pool to
    judge, index.html and explore.html. Grades of an earlier pool in OUT are kept.

    Example: harness compare "http://HOST/search?q={query}&size={k}" http://HOST/v2 --log log.csv
    """
    from harness.core.errors import HarnessError, install, missing_from
    from harness.core.files import write_text
    from harness.core.folders import COMPARISON
    from harness.report import html
    from harness.report.doc import Section, Text

    if missing := missing_from("http"):
        needs = ", ".join(missing)
        raise HarnessError(f"the package {needs} is not installed. Run: {install('http')}")
    from harness.services.page import document
    from harness.services.stage import compare as stage

    project = Project.here()
    files = [Path(one) for one in (control, candidate) if one.endswith(".toml")]
    own(to, COMPARISON, log, policy, *(one for one in files if one.parent != to))
    inference = project.params.score.inference()
    found = stage(
        (control, candidate),
        log,
        to,
        kind=form.kind,
        fields=form.fields,
        size=size,
        given=map_,
        policy_file=policy or project.root / "policy" / "pairwise.toml",
        seed=inference.seed if seed is None else seed,
    )
    shown = document(found, to, inference)
    write_text(to / "index.html", html.to_page(shown))
    page = Text(f"The page: {to / 'index.html'}")
    return Result(Section(shown.title, (*shown.blocks, page)))
