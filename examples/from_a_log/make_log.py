"""Write an access log whose searches are the queries of a set.

Few queries come often, and most seldom.
"""  # noqa: INP001  started by its path; it belongs to no package

import argparse
import random
from pathlib import Path
from urllib.parse import quote_plus

from harness.corpus import beir

LINE = (
    "10.0.{}.{} - - [24/Nov/2026:{:02}:{:02}:{:02} +0000]"
    ' "GET /search?q={} HTTP/1.1" 200 512 "-" "{}"'
)
BROWSER, ROBOT = "Mozilla/5.0 (X11; Linux x86_64)", "Examplebot/1.0"
STEEPNESS = 0.7
EVERY = 50
"""One request in so many is a robot's."""


def main() -> None:
    """Read the queries, and write the log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", type=Path, help="Queries as JSON lines.")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    texts = [query.text for query in beir.queries(asked.queries)]
    rng.shuffle(texts)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with asked.out.open("w", encoding="utf-8") as log:
        for at in range(asked.requests):
            text = texts[int(rng.paretovariate(STEEPNESS) - 1) % len(texts)]
            client, agent = (rng.randrange(256), rng.randrange(256)), BROWSER
            if at % EVERY == 0:
                agent = ROBOT
            clock = (at // 3600 % 24, at // 60 % 60, at % 60)
            log.write(LINE.format(*client, *clock, quote_plus(text), agent) + "\n")


if __name__ == "__main__":
    main()
