"""``harness queries pool``: what to judge first, where nothing is judged yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.project import Project


def pool(
    queries: Annotated[Path, typer.Argument(help="Queries as JSON lines, such as a sample.")],
    corpus: Annotated[Path, typer.Argument(help="Documents as JSON lines.")],
    arms: Annotated[str, typer.Option(help="Names or TOML files, with commas between.")],
    depth: Annotated[int, typer.Option(min=1, help="First documents of each arm.")],
    to: Annotated[Path, typer.Option("--out", help="Pool to write; OUT.jsonl comes beside it.")],
    *,
    grades: Annotated[int, typer.Option(min=1, help="The largest grade; the least is 0.")] = 1,
) -> None:
    """Write the first pool for queries without judgements: what each engine shows first.

    The pairs of a query stand in a drawn order. `harness judge` fills the pool in, also in part,
    and `harness import jsonl CORPUS QUERIES OUT` makes a data set of it.

    Example: harness queries pool out/queries.jsonl corpus.jsonl --arms fts5,tantivy --depth 5
    --out out/pool.qrels
    """
    from harness.core.durable.owned import check_apart
    from harness.core.durable.scratch import scratch
    from harness.corpus import jsonl
    from harness.stages.layout import Layout
    from harness.stages.queries.first_pool import first_pool

    project = Project.here()
    check_apart(to, (queries, corpus, *project.sources))
    named = [name.strip() for name in arms.split(",") if name.strip()]
    with scratch() as work, aside():
        layout = Layout(work / "build" / "sample", work / "perf", work / "cache")
        found = first_pool(
            layout,
            tuple(jsonl.documents(corpus)),
            tuple(jsonl.queries(queries)),
            arms=named,
            cache=project.cache,
            params=project.params.replay,
            depth=depth,
            largest=grades,
            path=to,
        )
    out.print(
        f"wrote {found.pairs:,} pairs of {found.queries:,} queries to {to}; judge them:"
        f" harness judge {to}",
        markup=False,
    )
