"""``python -m tests.fuzz --minutes 60``: change files at random, keep what breaks a reader."""

import argparse
import hashlib
import random
import sys
import time
from pathlib import Path

from tests.fuzz.readers import READERS
from tests.fuzz.trying import faults

FINDS = Path(__file__).parent / "finds"
AT_ONCE = 200
ALIKE = 40
"""Characters of a fault; two of which they are the same are one."""
TOKENS = [
    token.encode("utf-8", "surrogatepass")
    for token in (
        "[", "]", "{", "}", '"', "'", ":", ",", "\n", "\n\n", "\r", "\t", "\x00", "\\", "\\u",
        "\\ud800", "#", "=", "-", "- ", "? ", "&a ", "*a", "!!", "<<", "%", "@", "`", "|", ">",
        "1e999", "-1", "0x", "1:", "nan", "inf", ".inf", "null", "true", "9" * 400, "a" * 5_000,
        "é", "\u2028", "\ufeff", "\x1b[31m", "\u202e", "\ud800", "<", "</", "<!--", "<![", "(",
        ")", "=?utf-8?q?", "?=", "From ", "Content-Type: ", "; charset=", "punycode",
        "multipart/mixed; boundary=b", "--b", "2026-13-45", "..", "../", "/", " ", "format",
    )
]  # fmt: skip


def changed(data: bytes, rng: random.Random) -> bytes:
    """Change a file in a few places: bytes flipped, cut, doubled, moved, words put in."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(found) + 1)
        end = min(len(found), at + rng.choice((1, 1, 4, 16, 200)))
        match rng.randrange(6):
            case 0 if found:
                found[at % len(found)] = rng.randrange(256)
            case 1:
                del found[at:end]
            case 2:
                found[at:at] = found[at:end] * rng.choice((1, 2, 30, 3_000))
            case 3:
                found[at:at] = rng.choice(TOKENS) * rng.choice((1, 1, 2, 150, 5_000))
            case 4:
                found[at:end] = rng.choice(TOKENS)
            case _:
                del found[at:]
    return bytes(found[: 1 << 20])


def seeds(name: str) -> list[bytes]:
    """Return a file that the reader reads, and what was found before."""
    kept = sorted((FINDS / name.replace(" ", "-")).glob("*"))
    return [READERS[name][1], *(path.read_bytes() for path in kept)]


def keep(name: str, data: bytes) -> Path:
    """Keep a file that broke a reader."""
    path = FINDS / name.replace(" ", "-") / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def main(minutes: float, seed: int, names: list[str]) -> int:
    """Fuzz the readers in turn; give how many files broke one.

    Of files that broke a reader alike the first is kept.
    """
    rng, until, found, tried = random.Random(seed), time.monotonic() + 60 * minutes, 0, 0
    kept: set[tuple[str, str]] = set()
    while time.monotonic() < until:
        for name in names:
            of = seeds(name)
            inputs = [changed(rng.choice(of), rng) for _ in range(AT_ONCE)]
            tried += len(inputs)
            for data, fault in faults(name, inputs):
                found += 1
                if (alike := (name, fault[:ALIKE])) not in kept:
                    kept.add(alike)
                    sys.stdout.write(f"{name}: {fault}: {keep(name, data)}\n")
                    sys.stdout.flush()
    sys.stdout.write(f"{tried:,} files, {found} broke a reader\n")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=READERS, action="append")
    given = parser.parse_args()
    sys.exit(bool(main(given.minutes, given.seed, given.only or list(READERS))))
