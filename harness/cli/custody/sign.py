"""``harness sign``: put your name under a decision."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.places import Dataset, Left, added_to_run, one_of
from harness.cli.base.project import Project


def register(app: typer.Typer) -> None:
    """Put ``sign`` on the command line."""
    app.command()(sign)


def sign(
    key: Annotated[Path, typer.Option(help="A private key of OpenSSH, kept elsewhere.")],
    dataset: Dataset = "",
    left: Left = None,
) -> None:
    """Verify a decision, and sign its receipt, which names the decision and its evidence by digest.

    ssh-keygen makes the signature; it lies beside the receipt and is gone with the next decision.
    harness verify --signed-by says who signed. Exit codes: 0 signed, 2 what is there does not
    follow from its evidence, or the key cannot be used.

    Example: harness sign --key signing_key --dataset python-docs
    """
    from harness.stages.custody.signature import sign as stage
    from harness.stages.custody.verify import verify_with_files

    one_of(dataset, left)
    project = Project.here()
    names = project.datasets(dataset)
    for layout in [added_to_run(left)] if left else [project.layout(name) for name in names]:
        verify_with_files(layout, left, project.root)
        out.print(f"signed: {stage(layout, key)}", markup=False)
