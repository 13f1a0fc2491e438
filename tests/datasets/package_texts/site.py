"""A folder of two installed packages: one whose wheel is the same everywhere, one built."""

from __future__ import annotations

from pathlib import Path


def long(what: str, days: int) -> str:
    """Write so many sentences that are of one thing alone."""
    said = "the keeper writes down how much of it was left over in the evening"
    return " ".join(f"On day {day} of {what}, {said}." for day in range(days))


PAGE = f'''"""A guide to the zoo.

{long("opening", 5)}
"""

def feed(animal, *, hay=1):
    """Bring food to one hungry animal.

    {long("feeding", 2)}

    See Also
    --------
    walk : Lead an animal around the pond.
    """

class Pond:
    """Water that ducks and herons share.

    {long("water", 2)}
    """

    def drain(self):
        """Let all of the water out.

        Never drain it in winter.
        """

def silent(): pass
'''
OTHER = f'''
def walk(animal):
    """Lead an animal around the pond.

    {long("walking", 4)}
    """

def feed_again(animal):
    """Feed again what was fed before.

    Some say: throw seeds to one hungry animal,
    and: water that ducks and herons share.
    """

class Pool:
    """Water that ducks and herons share.

    {long("water", 2)}
    """

def drain():
    """Let all of the water out.

    It is the word of two objects.
    """
'''
SHORT = f'''
def short(line):
    """Half of what stands here is the line that could be asked, and without it little is left.

    {long("short things", 2)} And that is all of it, more or less, for now.
    """
'''
LICENCE = long("rights", 9)
READ_ME = f"# zoo\n\nA small park for quiet afternoons.\n\n{long('the zoo', 9)}\n"


def make(root: Path) -> Path:
    """Install ``zoo`` and ``aviary``."""
    write(root, "zoo", "1.0", READ_ME, "A small park for quiet afternoons.", pure=True, files={
        "zoo/__init__.py": PAGE,
        "zoo/more.py": OTHER,
        "zoo/short.py": SHORT,
        "zoo/tests/test_zoo.py": f'"""{long("tests", 9)}"""',
        "zoo/guide.md": f"# A guide\r\n\r\nWalk on the left.\r\n{long('guides', 9)}",
        "zoo/data.csv": long("numbers", 9),
        "zoo-1.0.dist-info/licenses/LICENSE": LICENCE,
        "zoo-1.0.dist-info/entry_points.txt": long("names", 9),
    })  # fmt: skip
    birds = f"Birds.\n\n{long('birds', 9)}"
    write(root, "aviary", "2.0", birds, "Aviary: birds.", pure=False, files={
        "aviary/__init__.py": PAGE.replace("Bring food", "Throw seeds").replace("feeding", "seeds"),
        "aviary/guide.md": long("nests", 9),
        "aviary-2.0.dist-info/LICENSE": long("laws", 9),
    })  # fmt: skip
    return root


def write(
    root: Path,
    name: str,
    version: str,
    description: str,
    summary: str,
    *,
    pure: bool,
    files: dict[str, str],
) -> None:
    """Install one package."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
    given = files | {
        f"{info}/METADATA": f"{metadata}\n{description}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(pure).lower()}\n",
    }
    for file, text in given.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(text.encode())
    record = "".join(f"{file},,\n" for file in sorted([*given, f"{info}/RECORD"]))
    (root / info / "RECORD").write_text(record)
