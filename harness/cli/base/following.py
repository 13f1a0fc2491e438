"""An index of message search that follows its messages, for ``harness index --follow``."""

from __future__ import annotations

from harness.cli.base.app import out
from harness.cli.base.project import Project


def followed(project: Project, dataset: str, arm: str) -> bool:
    """Keep the indexes of an arm up to its messages until interrupted; False without an index."""
    from engines import registry as arms
    from harness.stages.mail.changing import follow

    layout = project.layout(dataset)
    if not layout.index(arms.load(arm, project.cache).name).exists():
        return False
    follow(layout, arm, project.cache, lambda at: out.print(f"{arm} has reached change {at}"))
    return True
