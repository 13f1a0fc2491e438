"""Changes a live index for as long as it lives: ``python -m ... FOLDER SEED``.

Says ``ready`` when it begins. A change is announced before (``> SUBJECT``) and said when it is
done (``NUMBER SUBJECT``): what is said has happened, what is only announced may have.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.ingest import Draft
from harness_engines.stacks.agent_mail.live import LiveIndexes
from tests.make.mail_engines import served

WORDS = ("review", "plan", "token", "broker", "laptop", "reservoir", "read_csv", "br-2tnl", "lunch")


def main(folder: Path, seed: int) -> None:
    """Insert, edit, delete and index until somebody ends the process."""
    rng = Random(seed)
    table = folder / "index" / mail.STORE
    with served(folder, mode="hybrid") as searcher, ingest.opened(table) as box:
        live = searcher.service.fresh
        assert isinstance(live, LiveIndexes)
        alive = [row[0] for row in box.store.read("SELECT id FROM messages")]
        say("ready")
        while True:
            for _ in range(rng.randint(1, 4)):
                say(changed(box, rng, alive))
            live.catch_up()


def changed(box: ingest.Ingest, rng: Random, alive: list[int]) -> str:
    """Announce one change at random, make it, and give what is to be said of it."""
    subject = " ".join(rng.choices(WORDS, k=3))
    how = rng.choice(("insert", "edit", "delete")) if len(alive) > 3 else "insert"
    say("> " if how == "delete" else f"> {subject}")
    if how == "insert":
        (new,) = box.insert(Draft(1, subject, "to all", "Ann", ("Bob",))).message_ids
        alive.append(new)
        return f"{new} {subject}"
    chosen = rng.choice(alive)
    if how == "edit":
        box.edit(chosen, subject=subject)
        return f"{chosen} {subject}"
    box.delete(chosen)
    alive.remove(chosen)
    return f"{chosen} "


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
