"""``harness selftest``: how far the policy's gates can be trusted on data of yours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harness.cli.base.app import out
from harness.cli.base.places import Dataset, Left, Threads, added_to_run, one_of
from harness.cli.base.project import Project
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.scores import Estimate
    from harness.policy.model import Policy
    from harness.policy.selftest.operating import OperatingCharacteristic, Selftest
    from harness.stages.layout import Layout

INVALID = 2


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
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="How often each truth is tried. [selftest.trials of params.yaml]"),
    ] = None,
    *,
    threads: Threads = 1,
) -> None:
    """Measure how often the gates would be wrong on runs that are there, and what they detect.

    Labels of control and candidate are swapped at random, so that nothing differs (A/A), and losses
    of known size are planted. An engine that shows another query's answers, and one that
    shows the most popular documents, must lose. Writes build/NAME/selftest.json, which the next
    gate and report show beside every verdict; with another policy or a control, only in what a
    harness run left. A gate that passes surely more often than allowed where its loss is its bound
    is convicted, and the next decision does not let it pass. A gate or a run that finds no selftest
    of its evidence, policy and judging code makes one by itself. Asks no engine. Exit codes: 0
    done, 2 bad input, a gate is convicted, or a null model was not refused.

    Example: harness selftest --dataset python-docs
    """
    from harness.core.errors import HarnessError
    from harness.policy.load import load_policy
    from harness.stages.selftest import selftest as stage
    from harness.stages.selftest import write_selftest

    one_of(dataset, left)
    project = Project.here()
    count = trials or project.params.selftest.trials
    if not count:
        raise HarnessError("selftest.trials of params.yaml is 0; say how many: --trials 200")
    file = policy or project.policy_file
    judged_by = load_policy(file).on(threads)
    kept = left is not None or not (policy or control)
    if left:
        places = [added_to_run(left)]
    else:
        names = project.datasets(dataset)
        places = [project.layout(name) for name in names]
    valid = True
    for layout in places:
        tried = _steps(layout, judged_by, control)
        found = stage(layout, tried, trials=count)
        if kept:
            write_selftest(layout, found, file)
        _show(found, [step.name for step in tried.steps])
        valid = valid and found.valid
    raise typer.Exit(0 if valid else INVALID)


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


def _show(found: Selftest, steps: Iterable[str]) -> None:
    out.print(f"\n[bold]{escape(found.dataset)}[/bold], {many(found.trials, 'trial')} a rate")
    for one in found.gates:
        out.print(f"  {escape(one.step)}: {escape(one.gate)} ({escape(one.what)})")
        _show_gate(one, found)
    for curve in found.curves:
        said = ", ".join(f"{it.truth:+.4f}: {_rate(it.promoted)}" for it in curve.points)
        out.print(f"  {escape(curve.step)}: promoted by the truth ({escape(curve.what)}): {said}")
    for null in found.nulls:
        word = "as it should" if null.as_it_should else "[red]INVALID[/]"
        said = ", ".join(f"{gate}: {verdict}" for gate, verdict in null.verdicts.items())
        out.print(f"  {escape(null.step)}: {null.model}: {word} ({escape(said)})")
    for one in found.convicted:
        named = escape(f"{one.step}: {one.gate}")
        out.print(f"[red]CONVICTED[/]: {named}: a pass of this gate does not count")
    if not all(null.as_it_should for null in found.nulls):
        out.print("[red]INVALID[/]: a null model was not refused; see the judgements of this data")
    for name in found.untried(steps):
        out.print(f"  {escape(name)}: null models were not tested: the step has no gate on quality")


def _show_gate(one: OperatingCharacteristic, found: Selftest) -> None:
    if not one.planted:
        out.print("    false promotion unknown (a loss of its bound is too large to be planted)")
    for planted in one.planted:
        over = "[red]above[/]" if planted.promoted.low > found.level else "allowed"
        over = "beyond what it assumes;" if planted.assumed else over
        out.print(
            f"    false promotion {_rate(planted.promoted)} ({over} {found.level:g}):"
            f" {escape(planted.pattern)}"
        )
    out.print(f"    false hold {_rate(one.false_hold)}")
    if one.smallest_loss is not None:
        out.print(
            f"    {many(one.queries, 'query shows')} a loss of {one.smallest_loss:.4f} with power"
            f" {found.power:g} (seen {_rate(one.seen)})"
        )


def _rate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "unknown (too large to be planted)"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
