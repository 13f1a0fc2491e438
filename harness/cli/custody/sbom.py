"""``harness sbom``: the packages that this environment is made of, and their licences."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.project import Project

To = Annotated[
    Path | None,
    typer.Option("--to", metavar="FILE", help="Write a CycloneDX 1.6 bill of materials (JSON)."),
]


def register(app: typer.Typer) -> None:
    """Put ``sbom`` on the command line."""
    app.command()(sbom)


def sbom(to: To = None) -> None:
    """List every installed package with its version and licence, and count the licences.

    Reads the metadata of what is installed; nothing is looked up elsewhere. A package that states
    no licence is named as such. Exit codes: 0 listed, 2 the file cannot be written.
    """
    from harness.core.durable.owned import check_new
    from harness.core.files import write_json
    from harness.stages.custody.sbom import cyclonedx, installed, is_bill

    if to is not None:
        check_new(to, reads=Project.here().sources, ours=is_bill)
    components = installed()
    if to is not None:
        write_json(to, cyclonedx(components))
        out.print(f"wrote {to}: {len(components)} packages", markup=False)
        return
    for one in components:
        out.print(f"{one.name} {one.version}: {one.licence}", markup=False)
    out.print("")
    for licence, count in Counter(one.licence for one in components).most_common():
        out.print(f"{count:>4}  {licence}", markup=False)
