"""The list that a user sees, written down before it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from secrets import token_hex

from harness.shadow.clicks.log import ClickLog, ShownList
from harness.shadow.clicks.team_draft import Mixed, team_draft


class ListMixer:
    """Mixes rankings by team draft; each list is drawn from the seed and its own id."""

    def __init__(self, log: ClickLog, seed: int) -> None:
        self._log, self._seed = log, seed

    def show(
        self,
        arms: tuple[str, ...],
        rankings: Sequence[Sequence[str]],
        k: int,
        *,
        query: str,
        user: str = "",
        failed: str = "",
    ) -> ShownList:
        """Give a list of at most ``k`` documents; the first ranking's own for a single arm.

        ``failed`` says what is wrong with another arm; then the list is the first one's own too.

        Raises:
            OSError: it could not be written down.
        """
        key = token_hex(8)
        mixed = Mixed(tuple(rankings[0][:k]), (0,) * len(rankings[0][:k]))
        if len(arms) > 1 and not failed:
            mixed = team_draft(rankings, k, Random(f"{self._seed} {key}"))
        at = datetime.now(UTC)
        shown = ShownList(key, at, query, arms, *mixed, failed=failed, user=user)
        self._log.add(shown)
        return shown
