"""``harness selftest``: how far the policy's gates can be trusted on data of yours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.base.app import out
from harness.cli.base.places import Dataset, Left, added_to_run, one_of
from harness.cli.base.project import Project
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.scores import Estimate
    from harness.policy.model import Policy
    from harness.policy.selftest import Tried
    from harness.stages.layout import Layout


def register(app: typer.Typer) -> None:
    """Put ``selftest`` on the command line."""
    app.command()(selftest)


def selftest(
    dataset: Dataset = "",
    left: Left = None,
    policy: Annotated[
        Path | None, typer.Option(help="Gates to try. [the policy of params.yaml]")
    ] = None,
    control: Annotated[
        str,
        typer.Option(
            help="Only steps with this control; or, where the policy has one step,"
            " that step for every other arm."
        ),
    ] = "",
    trials: Annotated[int, typer.Option(min=1, help="How often each truth is tried.")] = 400,
) -> None:
    """Measure how often the gates on means would pass wrongly, and rightly, on runs that are there.

    Labels of control and candidate are swapped at random, so that nothing differs, and losses of
    exactly a gate's bound are planted in several patterns. The first line names the worst rate of
    all, with the assumption that its pattern breaks, if it breaks one. The last counts the values
    that other code, such as ir-measures, computed too. Asks no engine, and writes nothing.

    Example: harness selftest --dataset python-docs
    """
    from harness.policy.load import load_policy
    from harness.stages.selftest import check_kernels, try_gates

    one_of(dataset, left)
    project = Project.here()
    judged_by = load_policy(policy or project.policy_file)
    places = [added_to_run(left)] if left else map(project.layout, project.datasets(dataset))
    for layout in places:
        chosen = _steps(layout, judged_by, control)
        tried = try_gates(layout, chosen, trials=trials)
        _show(layout.root.name, tried, judged_by.rules.level / 2, trials)
        values, rankings = check_kernels(layout, chosen)
        out.print(
            f"  Computed twice: {many(values, 'value')}, the second time by ir-measures;"
            f" {many(rankings, 'pair')} of rankings, by sets."
        )


def _steps(layout: Layout, policy: Policy, control: str) -> Policy:
    """Give the policy of what stands against ``control``; the whole one where none is named."""
    from dataclasses import replace

    from harness.core.errors import UnknownName
    from harness.policy.pairwise import for_candidates
    from harness.stages.compare.stage import read_agreement

    if not control:
        return policy
    pairs = [pair for pair in read_agreement(layout) if pair[0] != pair[1]]
    against = [candidate for one, candidate in pairs if one == control]
    if not against:
        raise UnknownName("control of a comparison", control, dict.fromkeys(c for c, _ in pairs))
    if len(policy.steps) == 1:
        return for_candidates(policy, control, against)
    steps = tuple(step for step in policy.steps if step.control == control)
    if not steps:
        known = dict.fromkeys(step.control for step in policy.steps)
        raise UnknownName("control of a step", control, known)
    return replace(policy, steps=steps)


def _show(dataset: str, tried: Sequence[Tried], level: float, trials: int) -> None:
    out.print(f"\n[bold]{escape(dataset)}[/bold], {many(trials, 'trial')} a rate")
    named = [(one, planted) for one in tried for planted in one.planted]
    if not named:
        out.print("  No gate on means has enough queries to be tried, with losses it could have.")
        return
    one, worst = max(named, key=lambda pair: pair[1].passed.value)
    out.print(
        f"  Worst false promotion: {_rate(worst.passed)} of the trials, {level:.2%} allowed"
        f" ({escape(f'{one.step}: {one.gate}; {worst.pattern}')})"
    )
    table = Table(box=None, padding=(0, 2))
    for head in ("gate", "measure", "truth", "passes"):
        table.add_column(head)
    for one in tried:
        fine = "no difference" if one.limit < 0 else f"a gain of {2 * one.limit:g}"
        rows = [(f"{one.limit:+g}: {it.pattern}", it.passed) for it in one.planted]
        for truth, rate in [*rows, (fine, one.fine)]:
            table.add_row(
                escape(f"{one.step}: {one.gate}"),
                escape(f"{one.what}, {many(one.queries, 'query')}"),
                truth,
                _rate(rate),
            )
    out.print(table)


def _rate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "too large to be planted"
    return f"{estimate.value:.1%} \\[{estimate.low:.1%}, {estimate.high:.1%}]"
