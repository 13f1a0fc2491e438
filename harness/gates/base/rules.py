"""Input of every rule, the form of its findings, and the registry of rules."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

import harness.gates
from harness.core.errors import DISTRIBUTION, UnknownName
from harness.core.evidence import Evidence
from harness.core.gate import OF_VERDICT, Cause, Finding, Verdict
from harness.core.parts import RULES, kinds
from harness.core.scores import Estimate
from harness.stats.inference import Inference

FINEST, WIDEST = 1e-6, 0.9
OF_QUERIES = ("drawn", "needs", "largest_cluster")
"""Premises of a gate on a sample of queries."""


def _shown(bound: float) -> float:
    """Refuse a bound that no evidence could show to be kept, or to be broken."""
    if 0 < bound < FINEST or 1 - FINEST < bound < 1:
        raise ValueError(
            f"{bound!r} is nearer than {FINEST:g} to 0 or to 1, and it would take millions of"
            " queries to show on which side of it anything lies"
        )
    return bound


def _held(margin: float) -> float:
    """Raise ValueError if the margin is so large that nearly every candidate passes."""
    if WIDEST < margin < 1:
        raise ValueError(
            f"a margin of {margin!r} lets a candidate lose nearly everything; write {WIDEST:g} or"
            " less"
        )
    return margin


Share = Annotated[float, Field(gt=0, lt=1), AfterValidator(_shown)]
"""A bound between 0 and 1, at least a millionth away from both."""
Margin = Annotated[Share, AfterValidator(_held)]
"""The allowed loss of a measure: above 0 and below 1."""
MOST_QUERIES, MOST_DEPTH, MOST_RATIO, A_DAY_S = 100_000, 1_000, 1_000_000, 86_400
"""Largest numbers of a gate: beyond them a slip of a digit, and no margin."""
MinQueries = Annotated[int, Field(ge=2, le=MOST_QUERIES)]
"""Fewest independent queries of a gate, at least 2, because one has no spread."""
Ratio = Annotated[float, Field(gt=0, le=MOST_RATIO)]
Noise = Annotated[float, Field(gt=1, le=MOST_RATIO)]
Milliseconds = Annotated[float, Field(gt=0, le=1_000 * A_DAY_S)]
Depth = Annotated[int, Field(ge=1, le=MOST_DEPTH)]
Where = Literal["above", "below", "within"]
CUT_OFF = re.compile(r"@([0-9]+)$")
TOUCH = 1e-12
"""Tolerance for rounding: an end of an interval this close to the bound lies on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules(Inference):
    """The inference of a policy, and the power with which it plans; the same for all gates."""

    power: float
    """Power for the number of queries that would settle an INCONCLUSIVE, e.g. 0.8."""


class Fewest(NamedTuple):
    """What a gate needs at least, and why no more is planned."""

    of: str
    least: int
    note: str


class GateSettings(BaseModel, ABC):
    """A rule: the keys of one gate in a policy, and its judgement; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    rule: ClassVar[str] = ""
    """The rule's name; that of its module where a class names none."""
    timed: ClassVar[bool] = False
    needs: ClassVar[tuple[type, ...]] = ()
    """Kinds of evidence without which the gate is INCONCLUSIVE, as their ``absent`` says."""
    granted: ClassVar[tuple[str, ...]] = ()
    """Premises of a PASS (``harness.policy.decision``)."""
    bounded_by: ClassVar[str] = ""
    """The key that is the bound, where it is one as it stands."""

    def __init_subclass__(cls, **how: Any) -> None:  # noqa: ANN401  of pydantic
        cls.rule = vars(cls).get("rule", cls.__module__.rpartition(".")[2])
        super().__init_subclass__(**how)

    @abstractmethod
    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        """Judge evidence; ``gate`` is the name in the policy."""

    @property
    @abstractmethod
    def bound(self) -> str:
        """The bound, in words."""

    @property
    def limit(self) -> float | None:
        """The bound on the estimate's scale; None if it is not a number."""
        return getattr(self, self.bounded_by) if self.bounded_by else None

    @property
    def passes(self) -> Where | None:
        """Side of the bound on which an interval passes; None if the interval does not decide.

        ``within`` means between ``-limit`` and ``limit``.
        """
        return None

    @property
    def required_queries(self) -> int:
        """Fewest queries of a PASS."""
        return 0

    @property
    def every_look(self) -> bool:
        """Whether the gate is valid at every look, while evidence is added."""
        return False

    @property
    def arms(self) -> tuple[str, ...]:
        """Arms that the gate reads in addition to control and candidate."""
        return ()

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures of quality that the gate reads."""
        return ()

    @property
    def deepest(self) -> int:
        """Depth of the lists that the gate reads; 0 without a cut-off."""
        found = (CUT_OFF.search(measure) for measure in self.measures)
        return max((int(one[1]) for one in found if one), default=0)

    def planned(self, confidence: float) -> Fewest | None:  # noqa: ARG002  for those that plan
        """Return what a gate on no sample of queries needs at least; None where not known."""
        return None

    @property
    @abstractmethod
    def unit(self) -> str:
        """Unit of the estimate."""

    def finding(
        self,
        gate: str,
        verdict: Verdict,
        reason: str,
        *,
        estimate: Estimate | None = None,
        remedy: str = "",
        p_value: float | None = None,
        cause: Cause | None = None,
    ) -> Finding:
        """Return a finding with this gate's bound and rule; ``cause`` is of an INCONCLUSIVE."""
        own = OF_VERDICT[verdict]
        return Finding(
            gate=gate,
            rule=self.rule,
            verdict=verdict,
            cause=cause or own if verdict is Verdict.INCONCLUSIVE else own,
            reason=reason,
            bound=self.bound,
            estimate=estimate,
            limit=self.limit,
            unit=self.unit,
            remedy=remedy if verdict is Verdict.INCONCLUSIVE else "",
            p_value=p_value,
            timed=self.timed,
        )

    def undecided(
        self, gate: str, cause: Cause, reason: str, remedy: str, *, estimate: Estimate | None = None
    ) -> Finding:
        """Return an INCONCLUSIVE finding, with what would settle it."""
        said = Verdict.INCONCLUSIVE
        return self.finding(gate, said, reason, estimate=estimate, remedy=remedy, cause=cause)


def missing(gate: str, settings: GateSettings, evidence: Evidence) -> Finding | None:
    """Return an INCONCLUSIVE finding for the first kind that the gate needs and that is missing."""
    arms = {"control": evidence.control.arm, "candidate": evidence.candidate.arm}
    for kind in settings.needs:
        if kind not in evidence.kinds:
            texts: tuple[str, str] = getattr(
                kind, "absent", ("its evidence is missing", "measure it")
            )
            said = (text.format(**arms, **settings.model_dump()) for text in texts)
            return settings.undecided(gate, Cause.NO_EVIDENCE, *said)
    return None


def above(estimate: Estimate, bound: float) -> Verdict:
    """PASS where the whole interval lies above ``bound``, FAIL where it lies below (section 4).

    NaN compares as false, so it never passes, here and in ``below`` and ``within``.
    """
    if estimate.low > bound + TOUCH:
        return Verdict.PASS
    return Verdict.FAIL if estimate.high < bound - TOUCH else Verdict.INCONCLUSIVE


def below(estimate: Estimate, bound: float) -> Verdict:
    """PASS where the whole interval lies below ``bound``, FAIL where it lies above."""
    if estimate.high < bound - TOUCH:
        return Verdict.PASS
    return Verdict.FAIL if estimate.low > bound + TOUCH else Verdict.INCONCLUSIVE


def within(estimate: Estimate, bound: float) -> Verdict:
    """PASS where the interval lies inside (-bound, bound), FAIL where it lies wholly outside."""
    inner, outer = bound - TOUCH, bound + TOUCH
    if -inner < estimate.low and estimate.high < inner:
        return Verdict.PASS
    outside = estimate.low > outer or estimate.high < -outer
    return Verdict.FAIL if outside else Verdict.INCONCLUSIVE


def signed(estimate: Estimate) -> str:
    """Write a difference with its interval."""
    return f"{estimate.value:+.4f} [{estimate.low:+.4f}, {estimate.high:+.4f}]"


def plain(estimate: Estimate) -> str:
    """Write a level with its interval."""
    return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"


def some(ids: tuple[str, ...]) -> str:
    """List the first few of many ids."""
    first = 3
    return ", ".join(ids[:first]) + (", ..." if len(ids) > first else "")


class Unknown(GateSettings):
    """A gate whose rule is of a slice that is not installed; its keys are taken as they are."""

    model_config = ConfigDict(extra="allow")
    bound: ClassVar[str] = "not known without its rule"
    unit: ClassVar[str] = ""

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:  # noqa: ARG002
        return self.undecided(
            gate,
            Cause.NO_EVIDENCE,
            f"the rule {self.rule} is of the part {RULES[self.rule]}, which is not installed",
            f"run: pip install --force-reinstall {DISTRIBUTION}",
        )


def names() -> tuple[str, ...]:
    """Name every rule, in alphabetical order: of this package, then of the slices."""
    own = (name for name, one in _own().items() if not isabstract(one))
    return tuple(sorted({*own, *RULES, *_added()}))


def _own() -> Mapping[str, type[GateSettings]]:
    """Find the rules of this package, by name."""
    found = (one.name for one in iter_modules(harness.gates.__path__) if not one.ispkg)
    modules = (import_module(f"harness.gates.{name}") for name in found)
    return {one.rule: one for module in modules for one in _rules_of(module)}


def _rules_of(module: ModuleType) -> list[type[GateSettings]]:
    """List the rules that a module defines, after classes that do not judge."""
    own = (one for one in vars(module).values() if isinstance(one, type))
    rules = [o for o in own if o.__module__ == module.__name__ and issubclass(o, GateSettings)]
    return sorted(rules, key=isabstract, reverse=True)


def _added() -> Mapping[str, str]:
    return {name: module for kind in kinds() for name, module in kind.rules.items()}


def load(name: str) -> type[GateSettings]:
    """Import the rule called ``name``; one of a slice that is absent judges nothing."""
    found, added = _own().get(name), _added()
    if not found and (at := added.get(name)):
        path, _, settings = at.partition(":")
        module = import_module(path)
        found = getattr(module, settings) if settings else min(_rules_of(module), key=isabstract)
    if found and isabstract(found):
        raise UnknownName("rule in one class, with bound, unit and judge,", name, names())
    if found:
        return found
    if name in RULES:
        unknown = create_model("Unknown", __base__=Unknown, __module__="")
        unknown.rule = name
        return unknown
    raise UnknownName("rule", name, names())
