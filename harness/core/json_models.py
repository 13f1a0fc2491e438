"""JSON read as a model: what is wrong names the file, the line and the key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ValidationError

from harness.core.errors import BadFile
from harness.core.formats import checked, in_years
from harness.core.reading import Malformed, text_of

Model = TypeVar("Model", bound=BaseModel)
Moment = Annotated[AwareDatetime, AfterValidator(in_years)]
"""A time with its zone, which every zone can tell."""


def from_file(model: type[Model], path: Path, hint: str) -> Model:
    """Read a file that holds one model.

    Raises:
        BadFile: it is not JSON, or not of the model.
        OSError: it cannot be read.
    """
    return from_text(model, text_of(path), path, hint)


def from_text(
    model: type[Model], text: str, path: Path, hint: str, line: int | None = None
) -> Model:
    """Read one model from the text of a file, or of its ``line``.

    Raises:
        BadFile: it is not JSON, or not of the model.
    """
    try:
        return model.model_validate_json(checked(text))
    except Malformed as exc:
        raise BadFile(path, f"it is not JSON ({exc})", hint, line or exc.line) from exc
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"])) or ("the line" if line else "the file")
        raise BadFile(path, f"{key}: {first['msg']}", hint, line) from exc
