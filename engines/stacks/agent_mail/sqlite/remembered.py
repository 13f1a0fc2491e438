"""Messages that were read, kept in memory until the journal names them.

To read a message takes longer than to find it, and queries find the same ones again and again. Each
reading first reads from the journal which messages changed since the one before, and forgets them.
So it gives messages as they are now, whoever changes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from engines.contract.errors import SearchError
from engines.stacks.agent_mail.contract.lifecycle import Message
from engines.stacks.agent_mail.sqlite import journal
from engines.stacks.agent_mail.sqlite.journal import Journaled

MAX_CHARACTERS = 4_000_000
"""Of subjects and bodies kept; beyond these, the half that was read first goes."""
EACH = 500
"""Characters that the rest of a message counts for."""


class Remembered:
    """Reads messages of one store, of which it keeps some; threads may share it."""

    def __init__(self, store: Journaled) -> None:
        self._store = store
        self._lock = Lock()
        self._kept: dict[int, Message] = {}
        self._characters = 0
        self._reached: int | None = None
        """Generation of the store that all that is kept is at least of."""

    def hydrate(self, message_ids: Sequence[int]) -> Mapping[int, Message]:
        """Read messages, in the order asked for; ids that are gone are left out.

        Raises:
            SearchError: the messages cannot be read.
        """
        try:
            reached = self._caught_up()
        except SearchError:
            return self._store.hydrate(message_ids)
        try:
            return dict(zip(message_ids, map(self._kept.__getitem__, message_ids), strict=True))
        except KeyError:
            kept = self._kept.get
        found = {one: message for one in message_ids if (message := kept(one)) is not None}
        absent = [one for one in message_ids if one not in found]
        read = self._store.hydrate(absent)
        self._keep(read, reached)
        found.update(read)
        return {one: found[one] for one in message_ids if one in found}

    def _caught_up(self) -> int:
        """Forget what was changed since the last reading, and give the generation reached."""
        with self._lock:
            now, changed = journal.news(self._store, self._reached)
            if self._reached is None or now < self._reached:
                self._kept.clear()
                self._characters = 0
            for message_id in changed:
                self._forget(message_id)
            self._reached = now
            return now

    def _keep(self, read: Mapping[int, Message], reached: int) -> None:
        """Keep what was read, unless a change was read from the journal meanwhile."""
        with self._lock:
            if reached != self._reached:
                return
            for message_id, message in read.items():
                self._forget(message_id)
                self._kept[message_id] = message
                self._characters += _characters(message)
            if self._characters > MAX_CHARACTERS:
                for message_id in list(self._kept)[: len(self._kept) // 2 + 1]:
                    self._forget(message_id)

    def _forget(self, message_id: int) -> None:
        message = self._kept.pop(message_id, None)
        if message is not None:
            self._characters -= _characters(message)


def _characters(message: Message) -> int:
    return len(message.subject) + len(message.body) + EACH
