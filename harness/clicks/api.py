"""Lists of several search functions interleaved, and the preferences of users by their clicks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from traceback import extract_tb

from harness.api.data import Search, ranking_by
from harness.clicks import credit
from harness.core.errors import EvidenceError, InvalidArm, RunError
from harness.core.folders import CLICKS, claim
from harness.core.names import checked
from harness.core.printable import one_line
from harness.migrate.ledger import Switch

ERROR = 300
"""Characters kept of a function's exception."""


class Interleaver:
    """Search functions by name, the one that serves first.

    ``search`` gives that function's list, or one mixed by team draft while the switch is on: the
    last ``harness migrate interleave`` in the folder ``ledger`` named these very arms. Every list
    and click is written into the folder ``log``. A function that raises costs no user a list, if it
    is not the one that serves. May be used by several threads.

    Raises:
        EvidenceError: fewer than two functions are given.
        BadName: one has an invalid name.
        NotOurs: the folder ``log`` holds something else.
    """

    def __init__(
        self, arms: Mapping[str, Search], *, log: str | Path, ledger: str | Path, seed: int
    ) -> None:
        if len(arms) < len(("control", "candidate")):
            raise EvidenceError("give two search functions or more, the one that serves first")
        self._arms = {checked("an arm", name): search for name, search in arms.items()}
        self._names = tuple(self._arms)
        claim(Path(log), CLICKS, reads=[Path(ledger)])
        self._log, self._seed = credit.ClickLog(Path(log)), seed
        self._switch = Switch(Path(ledger), self._names)

    def search(self, text: str, k: int = 10, *, user: str = "") -> credit.ShownList:
        """Return the list to show, of at most ``k`` documents; its ``id`` is for ``click``.

        ``user`` is the same in all sessions of one user. Lists without it support no preference.

        Raises:
            InvalidArm: the function that serves raised, or gives something else.
        """
        names = self._names if self._switch() else self._names[:1]
        rankings: list[tuple[str, ...]] = []
        failed = ""
        for name in names:
            ranking, error = self._ranking(name, text)
            if error and not rankings:
                raise InvalidArm(error)
            failed = failed or error
            rankings.append(ranking)
        shown = credit.drawn(names, rankings, k, self._seed, query=text, user=user, failed=failed)
        self._log.add(shown)
        return shown

    def _ranking(self, name: str, text: str) -> tuple[tuple[str, ...], str]:
        """Return the ranking of a function, or what is wrong with it."""
        try:
            return ranking_by(self._arms[name], text, name), ""
        except RunError as exc:
            return (), f"{name}: {str(exc).removeprefix(f'{name}: ')}"
        except Exception as exc:  # noqa: BLE001  the function failed; the others go on
            last = extract_tb(exc.__traceback__)[-1]
            at = f" ({Path(last.filename).name}:{last.lineno})"
            return (), one_line(f"{name}: {type(exc).__name__}: {exc}", ERROR) + at

    def click(self, shown_id: str, document: str) -> None:
        """Note that a document of a list was clicked."""
        self._log.add(credit.Click(shown_id, document))

    def close(self) -> None:
        """Close the log."""
        self._log.close()


def load_clicks(folder: str | Path, *, confidence: float) -> credit.Preferences:
    """Read what an ``Interleaver`` wrote, and say which engine users preferred.

    Raises:
        BadFile: the log is missing or malformed.
        EvidenceError: no list was mixed, lists of different arms were, or too few users are known.
    """
    return credit.preferences(credit.read(Path(folder)), confidence=confidence)
