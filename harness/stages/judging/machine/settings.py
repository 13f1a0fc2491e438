"""The file of a machine that judges, in TOML."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from harness.core.errors import BadFile
from harness.core.formats import toml_file
from harness.core.names import Name
from harness.core.reading import Malformed

REMEDY = "docs/judging.md lists the keys"
MINUTES = 24 * 60
"""Of a day."""
Text = Annotated[str, Field(min_length=1)]
Price = Annotated[float, Field(ge=0)]
Cuts = Annotated[tuple[float, ...], Field(min_length=1, strict=False)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    name: Name
    """The judge's name: its answers are kept under it."""


class EndpointSettings(_Table):
    """A model behind an OpenAI-compatible endpoint. All keys must be given."""

    kind: Literal["endpoint"]
    model: Text
    """As the endpoint calls it; a pinned version, since another one is another judge."""
    template: Text
    """File with the instructions, beside this one."""
    max_tokens: Annotated[int, Field(ge=16)]
    """Most tokens of an answer."""
    price_in: Price
    """Of a million tokens that are sent."""
    price_out: Price
    """Of a million tokens of answers."""
    budget: Annotated[float, Field(ge=0)]
    """Most that the judge may cost over all its commands."""
    per_minute: Annotated[float, Field(ge=1 / MINUTES)]
    """Most requests in a minute; one a day at least."""
    retries: Annotated[int, Field(ge=0, le=20)]
    """Attempts after the first one."""
    timeout_s: Annotated[float, Field(gt=0, le=60 * MINUTES)]
    """Seconds that a request may take; one day at most."""


class _Scored(_Table):
    cuts: Cuts
    """Scores between one grade and the next, ascending: one fewer than the scale has grades."""
    slope: Annotated[float, Field(gt=0)]
    """How sharply the grades divide there."""

    @field_validator("cuts")
    @classmethod
    def _ascend(cls, cuts: tuple[float, ...]) -> tuple[float, ...]:
        if any(high <= low for low, high in pairwise(cuts)):
            raise ValueError("they do not ascend")
        return cuts


class EncoderSettings(_Scored):
    """A local cross-encoder; a score is its logit. All keys must be given."""

    kind: Literal["cross-encoder"]
    folder: Text
    """Folder with model.onnx and tokenizer.json; a relative one lies beside this file."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Of the weights."""
    max_tokens: Annotated[int, Field(ge=8)]
    """Most tokens of a pair that are read."""


class OverlapSettings(_Scored):
    """A rule; a score is the share of the query's words that the document has."""

    kind: Literal["overlap"]


Settings = EndpointSettings | EncoderSettings | OverlapSettings
_SETTINGS: TypeAdapter[Settings] = TypeAdapter(Annotated[Settings, Field(discriminator="kind")])


def read(path: Path) -> Settings:
    """Read the file of a judge.

    Raises:
        BadFile: it is missing or malformed, or a key is missing, unknown or has a wrong value.
    """
    try:
        return _SETTINGS.validate_python(toml_file(path))
    except FileNotFoundError as exc:
        raise BadFile(path, "missing file", "Check the path") from exc
    except (OSError, Malformed) as exc:
        raise BadFile(path, str(exc), REMEDY, getattr(exc, "line", None)) from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        key = ".".join(str(one) for one in first["loc"][1:]) or "the file"
        said = "missing key" if first["type"] == "missing" else first["msg"]
        raise BadFile(path, f"{key}: {said}", REMEDY) from exc
