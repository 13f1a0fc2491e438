"""The project of a command, and the places of its evidence."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.exit_codes import called
from harness.core.errors import HarnessError, UnknownName

if TYPE_CHECKING:
    from harness.pipeline.evidence import ReportSubject
    from harness.pipeline.layout import Layout
    from harness.pipeline.params import Params
    from harness.policy.model import Policy


PARAMS, PACKAGED = "params.yaml", "packaged"
SOURCES = ("datasets", "qrels", "policy", "engines")


def now() -> datetime:
    """Return the hour, to the second, in UTC."""
    return datetime.now(UTC).replace(microsecond=0)


def by() -> str:
    """Return who types, as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"user {os.getuid()}"


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with ``params.yaml``; everything else lies below it."""

    root: Path
    """Where people's files are read."""
    packaged: bool = False
    """Whether that is the installed package, which is read and never written to."""

    @classmethod
    def here(cls) -> Project:
        """Find the project around the current folder, or else the one this code belongs to.

        Outside of a clone that is what the package brings: settings, policies and data sets.
        """
        around = Path.cwd()
        for folder in (around, *around.parents):
            if (folder / PARAMS).is_file():
                return cls(folder)
        return cls.brought()

    @classmethod
    def brought(cls) -> Project:
        """Find what this code brings: the clone that it is in, or what is in the package."""
        code = Path(__file__).parents[1]
        if (code.parent / PARAMS).is_file():
            return cls(code.parent)
        return cls(code / PACKAGED, packaged=True)

    @classmethod
    def own(cls) -> Project:
        """Find a project that may be written to."""
        found = cls.here()
        if found.packaged:
            raise HarnessError(
                f"no project: neither {Path.cwd()} nor a folder above it has a {PARAMS}."
                " Make one with: harness init FOLDER"
            )
        return found

    @property
    def place(self) -> Path:
        """Folder below which the harness writes."""
        return Path.cwd() if self.packaged else self.root

    @property
    def params(self) -> Params:
        """Read what the pipeline does."""
        from harness.pipeline.params import read

        return read(self.root / PARAMS)

    def datasets(self, named: str = "") -> list[str]:
        """Return the data set that was named, or all of ``params.yaml`` where none was."""
        return [named] if named else list(self.params.datasets)

    def arms(self, named: str = "") -> list[str]:
        """Return the arm that was named, or all of ``params.yaml`` where none was."""
        return [named] if named else list(self.params.arms)

    @property
    def cache(self) -> Path:
        """Folder that may be deleted at any time; its contents are rebuilt when needed."""
        return self.place / ".cache"

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders that people write and every command may read."""
        return tuple(self.root / name for name in SOURCES)

    @property
    def policy_file(self) -> Path:
        """File of the policy that ``params.yaml`` names."""
        return self.root / self.params.policy

    def policy(self) -> Policy:
        """Read that policy."""
        from harness.policy.load import load_policy

        return load_policy(self.policy_file)

    def layout(self, dataset: str) -> Layout:
        """Return where the files of a data set lie.

        UnknownName: the data set is unknown.
        """
        from harness.core.errors import SHOWN, DatasetError
        from harness.core.names import checked
        from harness.core.printable import one_line
        from harness.pipeline.layout import Layout

        if "/" in dataset:
            raise DatasetError(
                f"{one_line(dataset, SHOWN)}: no such folder. Correct the path, or name a data set"
                " of the project"
            )
        checked("a data set", dataset)
        known = sorted(path.parent.name for path in (self.root / "datasets").glob("*/card.toml"))
        if dataset not in known:
            raise UnknownName("dataset", dataset, known)
        return Layout(
            self.place / "build" / dataset,
            self.place / "perf" / dataset,
            self.cache / dataset,
            kept_log=self.kept_log(dataset),
        )

    def kept_log(self, dataset: str) -> Path:
        """Return where ``harness history add`` keeps the log of a data set's experiments."""
        return self.place / "history" / "experiments" / f"{dataset}.jsonl"

    def subject(self, dataset: str) -> ReportSubject:
        """Return what the report of a data set is about."""
        from harness.corpus import card
        from harness.pipeline.evidence import ReportSubject, pairs_of

        policy = self.policy()
        about = card.read(self.root / "datasets" / dataset)
        return ReportSubject(
            pairs=pairs_of(policy),
            arms=self.params.arms,
            rules=policy.rules,
            licence=about.licence,
            source=about.source,
            commands=(f"{called()} demo",),
            score=self.params.score,
            compare=self.params.compare,
            policy=policy,
            policy_file=self.policy_file,
            pin=f"harness policy pin {self.params.policy} --dataset {dataset}",
            place=f"--dataset {dataset}",
        )

    def raced(self) -> tuple[str, ...]:
        """Arms that take part in a step: those whose time matters."""
        pairs = [(step.control, step.candidate) for step in self.policy().steps]
        return tuple(dict.fromkeys(arm for pair in pairs for arm in pair))


def own(
    folder: Path,
    owner: str,
    *reads: Path | None,
    known: Callable[[Path], bool] | None = None,
) -> None:
    """Make ``folder`` one of ``owner``, and refuse what belongs to somebody else or is read."""
    from harness.core.folders import claim

    project = Project.here()
    sources = (*filter(None, reads), *project.sources)
    claim(folder, owner, reads=sources, project=project.root.name, known=known)


def added_to_run(out: Path) -> Layout:
    """Return where the evidence of a ``harness run`` lies to which a command adds something."""
    from harness.core.folders import RUN, check_held
    from harness.pipeline.layout import left_by_run

    found = left_by_run(out)
    check_held(out, RUN)
    return found


def name_of(dataset: str) -> str:
    """Return the name of a data set, or that of a folder with one."""
    from harness.core.names import checked

    return checked("a data set", Path(dataset).resolve().name if dataset else "")
