"""Names of data sets, splits, arms and files, and one experiment as a line of the log."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.core.errors import BadName, InvalidArm
from harness.core.formats import Moment

LONGEST, LONGEST_LABEL = 100, 200
"""Bytes of a name, which gets an ending and must still fit a file system; characters of a label."""
_NAME = re.compile(r"\w[\w.+@-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MAY = (
    f"letters (in Unicode NFC), digits and _ . + @ -, no . + @ - in front, {LONGEST} bytes at most"
)


def fault(name: str) -> str:
    """Describe why a text is not a valid name; empty if it is."""
    composed = _NAME.fullmatch(name) and unicodedata.normalize("NFC", name) == name
    return "" if composed and len(name.encode()) <= LONGEST else f"it may have {MAY}"


def checked(kind: str, name: str) -> str:
    """Return ``name`` back if it is valid for a ``kind``."""
    if problem := fault(name):
        raise BadName(kind, name, problem)
    return name


def check_distinct(kind: str, name: str, known: Iterable[str]) -> None:
    """Check that no name of ``known`` differs from this one by its case alone."""
    for other in known:
        if other != name and other.casefold() == name.casefold():
            raise BadName(kind, name, f"{other} differs from it only by its case")


def labelled(kind: str, text: str) -> str:
    """Return ``text`` back, a line for people."""
    if problem := _label_fault(text):
        raise BadName(kind, text, problem)
    return text


def _label_fault(text: str) -> str:
    if text.strip() and len(text) <= LONGEST_LABEL and not _CONTROL.search(text):
        return ""
    return f"it must be a line of 1 to {LONGEST_LABEL} characters, without control characters"


def _without(fault_of: Callable[[str], str], what: str) -> AfterValidator:
    """Make a check of ``fault_of`` one of a field."""

    def check(text: str) -> str:
        if problem := fault_of(text):
            raise ValueError(f"{text[:LONGEST]!r} is not {what}: {problem}")
        return text

    return AfterValidator(check)


Name = Annotated[str, _without(fault, "a name")]
Label = Annotated[str, _without(_label_fault, "a line of text")]


Clocked = Literal["race", "race begun", "race resumed", "load"]
Kind = Literal["gate", "decide"] | Clocked
"""A race is logged before its first process, when it resumes after a stop, and at its end."""
Setting = str | int | float | bool
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class KeptModel(BaseModel):
    """A record of a file that outlives its writer: no key is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ExperimentInputs(KeptModel):
    """The inputs of an experiment, by digest."""

    corpus: Sha256
    queries: Sha256
    qrels: Sha256
    inventory: Sha256
    """Of ``harness.corpus.prepared``, which is kept beside the log."""
    runs: dict[str, Sha256]
    shown: dict[str, Sha256] = Field(default_factory=dict)
    """Digest of each arm's rankings, by arm: independent of the arm's name."""
    manifests: dict[str, Sha256] = Field(default_factory=dict)
    """Digest of each arm's manifest, by arm: which engine and settings, on which documents."""
    times: Sha256 | None
    load: Sha256 | None = None
    """Of the load test; None without one, or if the policy does not use it."""
    policy: Sha256 | None
    code: Sha256
    seeds: dict[str, int]
    """By what was drawn: ``policy`` (gates), ``race``."""


class Looked(KeptModel):
    """One step, as it was judged."""

    step: str
    control: str
    candidate: str
    outcome: str
    level: Annotated[float, Field(gt=0, lt=1)]
    """One-sided level at which each gate was judged."""
    untimed: Sha256 | None
    """Digest of the evidence of untimed gates; None without such a gate, or unmeasured."""
    timed: Sha256 | None
    """The same of the gates on a race or a load test."""


class Experiment(KeptModel):
    """One line of the log."""

    format: Literal[2] = 2
    number: Annotated[int, Field(ge=1)]
    previous: Sha256
    """Digest of the line before; zeros for the first."""
    kind: Kind
    """``decide`` judges by another policy and leaves no decision."""
    at: Moment
    policy: str
    inputs: ExperimentInputs
    steps: tuple[Looked, ...]
    decision: Sha256 | None
    """Digest of ``decision.json``, if one was written."""


FUNCTION = re.compile(r"(?P<place>[^:]+):(?P<function>[A-Za-z_]\w*)")
USUAL = "search"
"""Name of a function that the name of its arm leaves out."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function is: ``shop.search:search``, or ``shop/search.py:search``."""

    module: str
    """Dotted name of a module, or path to a file that ends in ``.py``."""
    function: str

    @classmethod
    def of(cls, written: str) -> "Place | None":
        """Read ``module:function``; None where it is written otherwise."""
        found = FUNCTION.fullmatch(written)
        return cls(found["place"], found["function"]) if found else None

    @classmethod
    def required(cls, written: str) -> "Place":
        """Read ``module:function``."""
        if found := cls.of(written):
            return found
        raise InvalidArm(
            f"--engine {written}: is not a function. Give MODULE:FUNCTION, such as"
            " shop.search:search, or FILE.py:FUNCTION"
        )

    @property
    def name(self) -> str:
        """Name of the arm."""
        last = Path(self.module).stem if self.is_file else self.module.rpartition(".")[2]
        return checked("an arm", last if self.function == USUAL else f"{last}.{self.function}")

    @property
    def is_file(self) -> bool:
        """Whether the module is named by its path."""
        return self.module.endswith(".py")
