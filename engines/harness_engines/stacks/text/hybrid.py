"""Two stacks that get the same query, their rankings fused by reciprocal rank."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher, Stage
from harness.core.records import Scalar
from harness_engines.contract import StackSettings
from harness_engines.lexical.grammar import binding, note_refusals
from harness_engines.ranking import fuse
from harness_engines.stacks.text import dense, tantivy

VERSION = "rrf 1"
LegName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
"""Names a folder of the index."""


class LexicalLeg(StackSettings):
    """The words' side."""

    stack: Literal["tantivy"]
    weight: float = Field(gt=0)
    settings: tantivy.TantivySettings


class DenseLeg(StackSettings):
    """The vectors' side."""

    stack: Literal["dense"]
    weight: float = Field(gt=0)
    settings: dense.DenseSettings


class HybridSettings(StackSettings):
    """What is fused, and how."""

    rrf_k: int = Field(ge=1, le=1000)
    depth: int = Field(ge=1)
    """Candidates taken from each leg; at least as many as are requested."""
    legs: dict[LegName, Annotated[LexicalLeg | DenseLeg, Field(discriminator="stack")]] = Field(
        min_length=2
    )


@dataclass(frozen=True, slots=True)
class Hybrid(dense.WithDense["HybridSearcher"]):
    ENGINE: ClassVar = "hybrid"
    settings: HybridSettings
    cache: Path

    def engines(self) -> Mapping[str, Engine]:
        """Make the engine of each leg."""
        return {
            name: tantivy.Tantivy(leg.settings)
            if isinstance(leg, LexicalLeg)
            else dense.Dense(leg.settings, self.cache)
            for name, leg in sorted(self.settings.legs.items())
        }

    @property
    def last_step(self) -> frozenset[str]:
        return frozenset({"rrf_k", *(f"legs.{name}.weight" for name in self.settings.legs)})

    def candidates(self, searcher: Searcher, text: str, k: int) -> Mapping[str, tuple[Hit, ...]]:
        """Return the hits of each leg."""
        assert isinstance(searcher, HybridSearcher)  # noqa: S101  ``open`` gives nothing else
        return searcher.found(text, k)

    def combined(self, found: Mapping[str, tuple[Hit, ...]], k: int) -> tuple[Hit, ...]:
        """Fuse them by the weights and the constant of these settings."""
        return _fused(found, self.settings, k)

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return VERSION

    @contextmanager
    def join(
        self,
        index: Path,  # noqa: ARG002  all of it is in the parts
        made: Manifest,
        parts: Mapping[str, Searcher],
    ) -> "Iterator[HybridSearcher]":
        yield HybridSearcher(parts, made, self.settings)


@dataclass(frozen=True, slots=True)
class HybridSearcher:
    legs: Mapping[str, Searcher]
    manifest: Manifest
    settings: HybridSettings

    def search(self, text: str, k: int) -> Answer:
        found = self.found(text, k)
        hits = _fused(found, self.settings, k)
        return Answer(hits, self.manifest.fingerprint, note_refusals(text))

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:  # noqa: ARG002  filters are not known here
        """List the legs and their fusion; a leg of words leads to it, and the others feed it."""
        found = self.found(text, k)
        words = (name for name in found if isinstance(self.settings.legs[name], LexicalLeg))
        first = next(words, next(iter(found)))
        legs = [Stage(name, hits[:k], name != first) for name, hits in found.items()]
        return (
            *sorted(legs, key=lambda leg: leg.beside),
            Stage("fused", _fused(found, self.settings, k)),
        )

    def found(self, text: str, k: int) -> Mapping[str, tuple[Hit, ...]]:
        """Ask every leg; words that must or must not be there hold for what any leg finds."""
        depth = max(k, self.settings.depth)
        found = {name: leg.search(text, depth).hits for name, leg in self.legs.items()}
        words = [name for name in found if isinstance(self.settings.legs[name], LexicalLeg)]
        if not words or not binding(text):
            return found
        passing = set.intersection(*({hit.doc_id for hit in found[name]} for name in words))
        return {
            name: tuple(hit for hit in hits if hit.doc_id in passing)
            for name, hits in found.items()
        }


def _fused(
    found: Mapping[str, tuple[Hit, ...]], settings: HybridSettings, k: int
) -> tuple[Hit, ...]:
    rankings = {name: [hit.doc_id for hit in hits] for name, hits in found.items()}
    weights = {name: leg.weight for name, leg in settings.legs.items()}
    return fuse(rankings, weights, rrf_k=settings.rrf_k, k=k)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Hybrid(HybridSettings.model_validate(settings), cache)
