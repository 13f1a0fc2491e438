"""A local cross-encoder as a judge: its logit becomes a distribution by stated cuts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engines.contract.errors import SearchError
from engines.rerank.cross_encoder import CrossEncoder
from harness.core.errors import ModelNotReady
from harness.stages.judging.machine.protocol import FREE, Answer, Bound, Seen, cumulative
from harness.stages.judging.machine.settings import EncoderSettings


@dataclass(frozen=True, slots=True)
class Encoder:
    """Reads query and document together."""

    settings: EncoderSettings
    model: CrossEncoder
    template: str = ""

    @classmethod
    def load(cls, settings: EncoderSettings, beside: Path) -> Encoder:
        """Open the model; nothing is ever fetched.

        Raises:
            ModelNotReady: a file is missing or damaged, or the weights are not the stated ones.
        """
        folder = beside / settings.folder
        try:
            model = CrossEncoder.load(folder, settings.max_tokens, settings.sha256)
        except SearchError as exc:
            raise ModelNotReady(f"the judge {settings.name}: {exc}") from exc
        return cls(settings, model)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def identity(self) -> str:
        return f"{self.settings.model_dump_json(exclude={'folder'})} {self.model.identity}"

    def bound(self, seen: Seen) -> Bound:  # noqa: ARG002  it runs on this machine
        return FREE

    def judge(self, seen: Seen) -> Answer:
        try:
            logit = float(self.model.logits(seen.query, [f"{seen.title} {seen.text}".strip()])[0])
        except SearchError as exc:
            raise ModelNotReady(f"the judge {self.name}: {exc}") from exc
        found = cumulative(logit, self.settings.cuts, self.settings.slope)
        return Answer(found, self.model.identity, note=f"logit {logit:.4f}")
