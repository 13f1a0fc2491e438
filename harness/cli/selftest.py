"""``harness selftest``: how far the policy's gates can be trusted on data of yours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harness.cli.app import out
from harness.cli.places import Dataset, Left, Threads, left_by_run, one_of
from harness.cli.project import Project

if TYPE_CHECKING:
    from harness.core.scores import Estimate
    from harness.policy.model import Policy
    from harness.policy.tried import Selftest
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
    trials: Annotated[int, typer.Option(min=1, help="How often each gate is tried a truth.")] = 200,
    *,
    threads: Threads = 1,
) -> None:
    """Count how often the gates would be wrong on runs that are there, and what they can see.

    Labels of control and candidate are swapped at random, so that nothing differs (A/A), and losses
    of known size are planted. An engine that shows another query's answers, and one that
    shows the most popular documents, must lose. Writes build/NAME/selftest.json, which the next
    gate and report show beside every verdict; with another policy or a control, only in what a
    harness run left. Asks no engine. Exit codes: 0 done, 2 bad input, or INVALID: an engine that
    knows nothing passes.

    Example: harness selftest --dataset python-docs
    """
    from harness.policy.load import load_policy
    from harness.stages.selftest import selftest as stage
    from harness.stages.selftest import write_selftest

    one_of(dataset, left)
    project = Project.here()
    file = policy or project.policy_file
    judged_by = load_policy(file).on(threads)
    kept = left is not None or not (policy or control)
    if left:
        places = [left_by_run(left)]
    else:
        names = [dataset] if dataset else project.params.datasets
        places = [project.layout(name) for name in names]
    valid = True
    for layout in places:
        found = stage(layout, _steps(layout, judged_by, control), trials=trials)
        if kept:
            write_selftest(layout, found, file)
        _show(found)
        valid = valid and found.valid
    raise typer.Exit(0 if valid else INVALID)


def _steps(layout: Layout, policy: Policy, control: str) -> Policy:
    """Give the policy of what stands against ``control``; the whole one where none is named."""
    from dataclasses import replace

    from harness.core.errors import UnknownName
    from harness.policy.pairwise import for_candidates
    from harness.stages.compare import read_agreement

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


def _show(found: Selftest) -> None:
    out.print(f"\n[bold]{escape(found.dataset)}[/bold], {found.trials} trials a rate")
    for one in found.gates:
        out.print(f"  {escape(one.step)}: {escape(one.gate)} ({escape(one.what)})")
        out.print(
            f"    promoted wrongly {_rate(one.false_promote)} (allowed {found.level:g}),"
            f" held wrongly {_rate(one.false_hold)}"
        )
        if one.smallest_loss is not None:
            out.print(
                f"    {one.queries} queries show a loss of {one.smallest_loss:.4f} with power"
                f" {found.power:g} (seen {_rate(one.seen)})"
            )
    for null in found.nulls:
        word = "as it should" if null.as_it_should else "[red]INVALID[/]"
        said = ", ".join(f"{gate}: {verdict}" for gate, verdict in null.verdicts.items())
        out.print(f"  {escape(null.step)}: {null.model}: {word} ({escape(said)})")
    if not found.valid:
        out.print("[red]INVALID[/]: no verdict on this data may be believed; see its judgements")


def _rate(found: Estimate | None) -> str:
    if found is None:
        return "unknown (too large to be planted)"
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
