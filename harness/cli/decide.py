"""``harness plan``, ``policy``, ``gate`` and ``regress``: what may be decided."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import CODES, Result, app, command, decided, group, said, shown
from harness.cli.project import Project, by, now
from harness.core.errors import HarnessError, UnknownName
from harness.core.printable import many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.gates.base.rules import Rules
    from harness.pipeline.evidence import BeirFolder, Ground
    from harness.pipeline.layout import Layout
    from harness.policy.model import Policy
    from harness.policy.plan import Need, PlannedStep
    from harness.report.ci import Against
    from harness.report.doc import Block


USUAL = 0.3
"""Share of the queries that most candidates move."""
LONGEST = 100
TONES = {
    "pass": ("no worse", "good"),
    "fail": ("WORSE   ", "bad"),
    "inconclusive": ("not sure", "open"),
}


@dataclass(frozen=True, slots=True)
class Of(options.EvidencePlace):
    """Evidence, or the queries of a folder in BEIR layout."""

    dataset: options.SetOrFolder = ""
    split: options.Split = "test"
    forms: options.Forms = False

    def data(self) -> Layout | BeirFolder:
        """Return the folder that is named as a data set, or else the place of the evidence."""
        from harness.pipeline.evidence import BeirFolder

        if not self.dataset or self.source or not Path(self.dataset).is_dir():
            return self.layout()
        return BeirFolder(Path(self.dataset), self.split, forms=self.forms)


@command(app)
def plan(
    of: Of,
    policy: options.PolicyFile = None,
    control: options.Control = "",
    *,
    gain: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="True gain where a gate asks for one. [twice its margin]"),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Deviation of a query's difference, without a pilot."),
    ] = None,
) -> Result:
    """Print how many queries each gate needs, how many there are, and how many are lacking.

    The least by margin and confidence: fewer leave room for a loss that they do not show. And
    with the policy's power where the true difference is 0, or the gain assumed: for
    each gate alone, and for all gates of the step together. Scored and compared runs are the pilot
    for spread, design effect and rates. Without any, --spread assumes
    one. Without a data set, margin and confidence alone are answered. With --control, a policy of
    one step is planned for every other arm. Runs no query. Exit codes: 0 planned, 2 bad input.

    Example: harness plan --policy policy/migration.toml --dataset python-docs
    """
    from harness.pipeline.evidence import for_control, ground
    from harness.policy.plan import Assumed, Raced
    from harness.policy.plan import plan as planned

    whole, _ = options.policy_of(policy)
    about = None
    if control or of.source:
        layout = of.layout()
        whole = for_control(layout, whole, control) if control else whole
        about = ground(layout, whole, None)
    elif of.dataset:
        race = Project.here().params.race
        about = ground(of.data(), whole, Raced(race.processes, race.queries))
    at_hand, pilots = (about.at_hand, about.pilots) if about else (None, {})
    steps = planned(whole, at_hand, pilots, Assumed(gain, spread))
    return said(*_planned(whole, about, steps))


def _planned(policy: Policy, about: Ground | None, steps: tuple[PlannedStep, ...]) -> Iterator[str]:
    rules = policy.rules
    where = f"on {about.dataset}" if about else "by margin and confidence alone"
    yield (
        f"{policy.name}, {where}: {many(policy.attempts, 'planned attempt')}, each at confidence"
        f" {rules.confidence:g}; power {rules.power:g}"
    )
    for planned in steps:
        step = planned.step
        yield f"\nstep {step.name}: {step.candidate} against {step.control}"
        for one in planned.needs:
            means = f" ({one.means})" if one.means else ""
            yield f"  {one.gate.name}: {one.gate.settings.bound}{means}"
            yield from (f"    {line}" for line in _lines(one, rules))
        if planned.lacking:
            yield f"  step {step.name} lacks: {', '.join(planned.lacking)}"
        elif about:
            yield f"  step {step.name} lacks no query that is planned"


def _lines(need: Need, rules: Rules) -> Iterator[str]:
    """Yield least, power, what is not planned, and what is at hand."""
    if need.equal:
        counts = dict(need.equal)
        usual = USUAL if USUAL in counts else max(counts)
        others = ", ".join(f"{of:.0%}: {count:,}" for of, count in need.equal if of != usual)
        yield (
            f"an equal candidate needs about {counts[usual]:,} judged {need.of} where {usual:.0%}"
            f" of them move by half ({others})"
        )
    if need.least:
        kind = "" if need.processes else "independent "
        again = f" in {many(need.processes, 'process')} or more" if need.processes else ""
        yield f"needs {need.least:,} {kind}{need.of}{again} at the very least"
    if need.forecast and need.alone is not None:
        kind = "independent " if need.independent else ""
        yield (
            f"needs {max(need.alone, need.least):,} {kind}{need.of} for power {rules.power:g}"
            f" alone, {need.queries:,} for all gates together, with {need.forecast.said}"
        )
    elif need.forecast:
        yield f"no number passes it with {need.forecast.said}"
    if need.note:
        yield f"not planned further: {need.note}" if need.least else need.note
    if have := need.have:
        some = "" if have.independent == have.queries else f", {have.independent:,} independent"
        some += f" in {many(need.raced, 'process')}" if need.processes else ""
        short = [f"{need.lacks:,}"] if need.lacks else []
        short += [many(need.lacks_processes, "process")] if need.lacks_processes else []
        said = f"lacks {', '.join(short)}" if short else "enough"
        yield f"has {have.queries:,}{some}: {said}"
    if ends := need.decides(rules):
        yield (
            f"so many pass from a measured {ends[0]:+.3f} on, and fail below {ends[1]:+.3f}, if"
            " they differ as in the pilot"
        )


policies = group("policy", "A policy, and the queries, judgements and race it is pinned to.")


@command(policies)
def pin(
    policy: Annotated[Path, typer.Argument(help="The policy's file.")],
    of: Of,
) -> Result:
    """Pin queries, judgements and race settings, as they are now, beside a policy.

    Writes POLICY.pins.json: a digest a query, and one for its judgements. From then on a decision
    on other evidence is INCONCLUSIVE and names what was added, removed or changed, until it is
    pinned again. When, by whom and over which changes is kept. Exit codes: 0 pinned, 2 bad input.

    Example: harness policy pin policy/migration.toml --dataset python-docs
    """
    from harness.pipeline.evidence import pin
    from harness.policy.validity import path_of

    if not (of.dataset or of.source):
        raise HarnessError("name what is pinned: --dataset, or --from what a harness run wrote")
    options.policy_of(policy)
    made = pin(of.data(), policy, at=now(), by=by())
    found = made.inventory
    race = f"{many(len(made.race), 'setting')} of the race"
    if not made.race:
        race = "no race, for none was run"
    return said(
        *(f"changed: {line}" for line in made.made[-1].changes),
        f"pinned in {path_of(policy)}: {many(len(found.queries), 'query')},"
        f" {many(found.judged, 'judgement')} of {many(len(found.judgements), 'query')}, {race}",
    )


@command(app)
def gate(
    of: options.EvidencePlace,
    policy: options.PolicyFile = None,
    control: options.Control = "",
    step: options.Step = "",
    *,
    exit_zero: Annotated[
        bool, typer.Option(help="Exit 0 whatever the verdict, so that a pipeline goes on.")
    ] = False,
) -> Result:
    """Judge every step of the policy, write the decision, and exit by it.

    With --policy or --from, existing evidence is judged again, by the named policy or that of
    the run. No index is opened, no decision is written, and the experiment log gets a
    line. With --control, a policy of one step judges every other arm. With --step, that step alone
    decides the exit code. Exit codes: 0 every step may be taken, 1 a gate failed (hold, or roll
    back), 2 bad input or an arm that did not run, 3 inconclusive. The page says what would settle
    it.

    Example: harness gate --policy policy/stricter.toml --dataset python-docs
    """
    from harness.pipeline.gate import decide_again
    from harness.pipeline.gate import gate as write
    from harness.report.printed import located

    at, found = datetime.now(UTC), {}

    def check_step(names: list[str]) -> None:
        if step and step not in names:
            raise UnknownName("step", step, names)

    if policy or of.source or control:
        for layout in of.layouts():
            judged_by, file = _judging(layout, of, policy, control)
            decisions = decide_again(layout, judged_by, file, control=control, now=at)
            check_step([one.step for one in decisions])
            name, place = layout.root.name, ["--from", str(of.source)] if of.source else []
            found[name] = located(decisions, name, shlex.join(place))
    else:
        project = Project.own()
        check_step([one.name for one in project.policy().steps])
        for name in project.datasets(of.dataset):
            subject = project.subject(name)
            found[name] = write(project.layout(name), subject, now=at).decisions
    return decided(found, step=step, exits=not exit_zero)


def _judging(
    layout: Layout, of: options.EvidencePlace, policy: Path | None, control: str
) -> tuple[Policy, Path]:
    """Return the policy that is named; of a run that was decided its own, else the project's."""
    from harness.pipeline.verify import judged_in

    if policy or not (of.source and layout.decision.is_file()):
        return options.policy_of(policy)
    _, subject = judged_in(layout)
    if control or not subject.policy:
        return options.policy_of(subject.policy_file)
    return subject.policy, subject.policy_file or layout.decision


@command(app)
def regress(
    baseline: Annotated[
        str,
        typer.Option(
            help="A git revision whose outputs DVC's cache holds, or a folder: a project, its"
            " build folder, or what a harness run wrote."
        ),
    ],
    of: options.EvidencePlace,
    policy: options.PolicyFile = None,
    arms: options.Arms = "",
    top: options.Top = 10,
) -> Result:
    """Compare every arm with an earlier release of itself, and exit by it.

    Paired by query, by the statistics and gates of every comparison: those of the policy's one
    step, or of policy/regress.toml. It runs no query and writes nothing. Evidence on other
    documents, queries or judgements is refused. Times are not compared: a clock of another day
    says nothing. Exit codes: 0 no worse, 1 a gate fails, 2 bad input or not comparable, 3
    inconclusive.

    Example: harness regress --baseline HEAD~1 --dataset python-docs
    """
    from harness.core.files import scratch
    from harness.pipeline.regress import of_folder, of_revision
    from harness.pipeline.regress import regress as compare
    from harness.policy.decision import worst

    project = Project.here()
    judged_by, _ = options.policy_of(policy or project.root / "policy" / "regress.toml")
    codes: list[int] = []
    blocks: list[Block] = []
    for layout in of.layouts():
        with scratch() as brought:
            if Path(baseline).is_dir():
                then = of_folder(Path(baseline), layout.root.name)
            else:
                then = of_revision(project.root, baseline, layout.root.name, brought)
            found = compare(
                layout, then, judged_by, project.params.compare, arms=options.listed(arms)
            )
        blocks += _regressed(found, baseline, top)
        codes.append(CODES[found.verdict.value])
    return shown(*blocks, code=worst(codes))


def _regressed(found: Against, baseline: str, top: int) -> Iterator[Block]:
    from harness.core.printable import one_line
    from harness.report.doc import Num, Text, table
    from harness.report.printed import blocking_lines

    yield Text(f"\n{found.dataset}, each arm compared with itself in {baseline}", "headline")
    for decision in found.decisions:
        if decision.candidate in found.same:
            yield Text(f"  no change  {decision.step}: the same answers, hit for hit", "good")
            continue
        word, tone = TONES[decision.verdict.value]
        yield Text(f"  {word}  {decision.step}", tone)
        yield from (Text(f"{'':12}{line}") for line in blocking_lines(decision.blocking))
    for word, arms in (("only then", found.gone), ("only now", found.new)):
        if arms:
            yield Text(f"  {word}: {', '.join(arms)}")
    rows = [
        (row.arm, row.measure, Num(row.then), Num(row.now), Num.of(row.difference, signed=True))
        for row in found.moved
        if row.arm not in found.same
    ]
    if rows:
        yield table("", ("arm", "measure", "then", "now", "now - then"), rows)
    worse = [(loss.by, one.arm, loss) for one in found.held for loss in one.losses]
    if worse:
        yield Text(f"\n{many(len(worse), 'answer')} got worse; the worst of them:")
    for _, arm, loss in sorted(worse, key=lambda one: (*one[:2], one[2].query_id))[:top]:
        now = loss.instead if loss.now is None else f"{loss.now:.3f}"
        about = f"{arm}  {loss.query_id}: {one_line(loss.text, LONGEST)}"
        yield Text(f"  {loss.before:.3f} -> {now}  {about}")
