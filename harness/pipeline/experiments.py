"""The log of a data set's experiments, and what each rests on."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from harness.core import digest
from harness.core.batches import code_sha256
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.files import append_text, held, write_text
from harness.core.names import Clocked, Experiment, ExperimentInputs, Kind, Looked, Setting
from harness.core.parts import kinds
from harness.core.store import Artifact, Journal, Json, JsonLines
from harness.corpus.prepared import QRELS, QUERIES, Inventory, Prepared
from harness.corpus.runs import read_run
from harness.pipeline.layout import Layout

FIRST = "0" * 64
"""What the first line holds in place of a digest."""
HINT = "Bring the file back as it was (a copy, git); it is never corrected by hand"


EXPERIMENTS: Journal[Experiment] = JsonLines("an experiment", Experiment, remedy=HINT)
INVENTORIES: Artifact[Inventory] = Json("an inventory", Inventory, remedy=HINT)


@dataclass(frozen=True, slots=True)
class ExperimentLog:
    """The lines of a log as they were read."""

    folder: Path
    lines: tuple[str, ...] = ()
    experiments: tuple[Experiment, ...] = ()

    @property
    def head(self) -> str:
        """Digest of the last line; zeros where there is none."""
        return digest.of_bytes(self.lines[-1].encode()) if self.lines else FIRST

    def until(self, number: int) -> "ExperimentLog":
        """Return the lines before line ``number``."""
        before = number - 1
        return ExperimentLog(self.folder, self.lines[:before], self.experiments[:before])

    @property
    def text(self) -> str:
        """The lines as the file holds them."""
        return "".join(f"{line}\n" for line in self.lines)

    def inventory_of(self, one: Experiment) -> Inventory | None:
        """Read what an experiment was judged on; None where it was not kept, or is another one."""
        path = _inventory(self.folder, one.inputs.inventory)
        if not path.is_file():
            return None
        found = INVENTORIES.read(path)
        return found if found.sha256 == one.inputs.inventory else None


@contextmanager
def writing(layout: Layout) -> Iterator[None]:
    """Lock the log while the block reads, judges and adds a line; others wait.

    Lines that the log of the data set has beyond the log of ``layout`` are taken over.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held(layout.experiments))
            if shared := layout.shared_log:  # a log in a folder of its own is held by its folder
                own = shared.name == layout.log.name
                stack.enter_context(held(shared.parent if own else shared))
            layout.experiments.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise HarnessError(
                f"{exc.filename}: cannot be written ({exc.strerror}), and what is not logged is not"
                " judged; copy the data to where you may write, or name a folder with --log"
            ) from exc
        if shared:
            folder = layout.experiments
            mine, of_data = _read(layout.log, folder), _read(shared, folder)
            if not of_data.lines and layout.kept_log:
                of_data = _read(layout.kept_log, folder)
            both = min(len(mine.lines), len(of_data.lines))
            if mine.lines[:both] != of_data.lines[:both]:
                differ = f"they differ within their first {both} experiments"
                problem = f"does not go on from {shared}: {differ}"
                raise BadFile(layout.log, problem, f"{HINT}. Or name a new --out")
            if len(of_data.lines) > both:
                write_text(layout.log, of_data.text, durable=True)
        yield


def shared(layout: Layout, log: Path) -> Layout:
    """Return ``layout`` with the log of its data set, and keep the way to it in the folder."""
    layout.experiments.mkdir(parents=True, exist_ok=True)
    layout.log_link.unlink(missing_ok=True)
    layout.log_link.symlink_to(log.resolve())
    return replace(layout, shared_log=log.resolve())


def keep(layout: Layout, to: Path) -> int:
    """Copy the log into ``to``, which must be how it began, and give the number of lines."""
    with held(to):
        log = read(replace(layout, kept_log=to))
        if log.lines:
            write_text(to, log.text, durable=True)
        return len(log.lines)


def read(layout: Layout) -> ExperimentLog:
    """Read the log of ``layout``; one that is not there begins with the copy that was kept."""
    path, folder = layout.log, layout.experiments
    kept = _read(layout.kept_log, folder) if layout.kept_log else ExperimentLog(folder)
    if not path.is_file():
        return kept
    log = _read(path, folder)
    if log.lines[: len(kept.lines)] != kept.lines:
        count = f"{len(log.lines)} experiments, and {layout.kept_log} kept {len(kept.lines)}"
        problem = f"has {count}, which it does not begin with"
        raise BadFile(path, problem, f"{HINT}. A log that is not there begins with the kept one")
    return log


def _read(path: Path, folder: Path) -> ExperimentLog:
    lines: list[str] = []
    found: list[Experiment] = []
    head = FIRST
    for _, line, one in EXPERIMENTS.lines(path) if path.is_file() else ():
        if (one.number, one.previous) != (number := len(lines) + 1, head):
            problem = "does not follow the line before it: one was changed, moved or taken out"
            raise BadFile(path, problem, HINT, number)
        lines.append(line)
        found.append(one)
        head = digest.of_bytes(line.encode())
    return ExperimentLog(folder, tuple(lines), tuple(found))


def before_decision(layout: Layout, number: int) -> ExperimentLog:
    """Return the log as it was before the decision in ``layout``, whose number is ``number``."""
    log, path = read(layout), layout.log
    if len(log.lines) < number:
        raise EvidenceError(
            f"{path}: ends with line {len(log.lines)}, and {layout.decision} is line {number}:"
            f" lines were taken out. {HINT}"
        )
    if log.experiments[number - 1].decision != digest.of_file(layout.decision):
        raise EvidenceError(f"{path}: line {number} is not of {layout.decision}. {HINT}")
    return log.until(number)


def add(
    layout: Layout,
    kind: Kind,
    at: datetime,
    *,
    inputs: ExperimentInputs,
    inventory: Inventory,
    policy: str = "",
    steps: Sequence[Looked] = (),
    decision: str | None = None,
) -> None:
    """Add a line; ``at`` is aware of its zone. The inventory is kept once, by its digest."""
    log = read(layout)
    one = Experiment(
        number=len(log.lines) + 1,
        previous=log.head,
        kind=kind,
        at=at,
        policy=policy,
        inputs=inputs,
        steps=tuple(steps),
        decision=decision,
    )
    kept = _inventory(layout.experiments, inputs.inventory)
    if not kept.is_file():
        write_text(kept, inventory.model_dump_json() + "\n", durable=True)
    line = EXPERIMENTS.text([one])
    append_text(layout.log, line if layout.log.is_file() else log.text + line)
    if layout.shared_log:
        write_text(layout.shared_log, log.text + line, durable=True)


def _inventory(folder: Path, sha256: str) -> Path:
    return folder / f"inventory-{sha256[:16]}.json"


def stock(layout: Layout) -> Inventory:
    """Take stock of the queries and judgements in ``layout``, once of the same bytes."""
    data = Prepared.open(layout.data)
    return _stock(data.folder, *(digest.of_file(data.folder / name) for name in (QUERIES, QRELS)))


@lru_cache(maxsize=1)
def _stock(folder: Path, *sha256: str) -> Inventory:  # noqa: ARG001  the same for the same bytes
    data = Prepared.open(folder)
    return Inventory.of(data.queries(), data.qrels())


def race_settings(layout: Layout) -> dict[str, Setting]:
    """Return how the race at hand was run, as its receipt says; nothing where none was."""
    if not layout.race_receipt.is_file():
        return {}
    receipt = layout.read(Layout.race_receipt)
    return {key: value for key, value in receipt.items() if isinstance(value, Setting)}


def inputs(
    layout: Layout,
    arms: Iterable[str],
    inventory: Inventory,
    *,
    policy: str | None,
    seeds: Mapping[str, int],
    raced: bool = True,
    beside: Collection[str] = (),
) -> ExperimentInputs:
    """Return the digests of all that an experiment with ``arms`` rests on."""
    arms = tuple(arms)
    data = Prepared.open(layout.data).manifest
    runs = {arm: digest.of_file(layout.run(arm)) for arm in arms}
    settings = race_settings(layout) if raced else {}
    seed = settings.get("seed")
    last = {one.name: [*one.artifacts(layout)][-1:] for one in kinds() if one.name in beside}
    measured = {name: digest.of_file(file) for name, files in last.items() for file in files}
    return ExperimentInputs(
        corpus=data.corpus_sha256,
        queries=data.queries_sha256,
        qrels=data.qrels_sha256,
        inventory=inventory.sha256,
        runs=runs,
        shown={arm: _shown(layout.run(arm), sha256) for arm, sha256 in runs.items()},
        manifests={
            arm: digest.of_file(layout.manifest(arm))
            for arm in runs
            if layout.manifest(arm).is_file()
        },
        times=digest.of_file(layout.times) if settings and layout.times.is_file() else None,
        load=measured.get("load"),
        policy=policy,
        code=code_sha256(),
        seeds={**seeds, "race": seed} if isinstance(seed, int) else dict(seeds),
    )


@lru_cache(maxsize=256)
def _shown(path: Path, sha256: str) -> str:  # noqa: ARG001  the same for the same bytes
    """Digest of what the run in a file with this digest shows; an experiment is noted often."""
    return read_run(path).shown_sha256


def note_timed(layout: Layout, kind: Clocked, arms: Sequence[str], at: datetime) -> None:
    """Add the race or the load test at hand to the log, whether a gate will judge it or not."""
    inventory, raced = stock(layout), kind in {"race", "load"}
    found = inputs(layout, arms, inventory, policy=None, seeds={}, raced=raced, beside=(kind,))
    with writing(layout):
        add(layout, kind, at, inputs=found, inventory=inventory)
