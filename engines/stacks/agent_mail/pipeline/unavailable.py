"""A part that is not there: whoever asks it learns why, and the next tier answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from engines.contract.errors import FeatureUnavailable, SearchError
from engines.stacks.agent_mail.pipeline.semantic import Nearest
from harness.core.errors import ModelNotReady


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Stands for vectors and their model that were requested and could not be opened."""

    kind: type[SearchError]
    why: str

    def search(self, *_: object) -> NoReturn:
        """Say why not.

        Raises:
            SearchError: always, of its ``kind``.
        """
        raise self.kind(self.why)


def or_unavailable(opening: Callable[[], Nearest | None]) -> Nearest | None:
    """Open a part; one that cannot be opened is absent (section 2.2, rule 3: never an error).

    A model that is missing or not the pinned one is a feature that is not available, a broken
    index is not ready.
    """
    try:
        return opening()
    except ModelNotReady as exc:
        return Unavailable(FeatureUnavailable, str(exc))
    except SearchError as exc:
        return Unavailable(type(exc), str(exc))
