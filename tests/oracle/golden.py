"""Golden runs: what commands wrote and said on kept inputs, compared to the letter.

A scenario is a project made by code and the commands run in it, one after the other, in a process
where time stands still (``golden_world``). After each command its exit code, its messages, and each
file that it wrote are put into a plain form. Git holds their digests, and what the commands that
decide said; the whole texts lie in a cache, so that a difference shows its first line.
"""

from __future__ import annotations

import difflib
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.source import ROOT

KEPT = Path(__file__).with_name("goldens")
HOME = Path(os.environ.get("ORACLE_CACHE", Path.home() / ".cache" / "search-harness-oracle"))
CACHE = HOME / "goldens"
LONGEST_S = 1800
QUICK = ("thorns", "traffic")
"""Those of the normal suite."""
TEXTS = {".json", ".jsonl", ".csv", ".md", ".html", ".xml", ".trec", ".txt", ".toml", ".parquet"}
TEXTS |= {".tsv", ".tex", ".qrels", ".run", ".lock", ".yaml", ".js"}
SHOWN = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "120", "HARNESS_CALLED": "python3 run.py"}
AWAY = {".cache", "index", "__pycache__"}
MOVES = re.compile(
    r"machine|packages|versions?|python|commands?|platform|code_sha256|processor|cores|pid|started"
)
"""Keys of JSON whose values are of this machine, or of this version of the code."""
HEX = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{12,64}\b")
LONG = re.compile(r"-?\d+\.\d{6,}(?:e-?\d+)?|-?\d(?:\.\d+)?e-\d+")
SOFT = re.compile(r"<(script|style|svg)\b.*?</\1>|<[^>]+>", re.DOTALL)
PYTHON = re.compile(r"\b\w[\w.()-]*(?: [\w.()@-]+)*, \d+ cores, \w+ \w+, Python [\d.]+")


@dataclass(frozen=True)
class Difference:
    """One output that is not what it was."""

    where: str
    said: str

    def __str__(self) -> str:
        return f"{self.where}: {self.said}"


Texts = Mapping[str, str]
"""Plain forms of all outputs, by command and file."""


def plain(text: str, root: Path) -> str:
    """Take out of a text what is of this machine, folder or version."""
    shared = ROOT.parent / "shared"
    for real, name in (
        (root, "TMP"),
        (ROOT, "ROOT"),
        (shared, "SHARED"),
        (sys.executable, "PYTHON"),
    ):
        text = text.replace(str(real), name)
    text = PYTHON.sub("MACHINE", HEX.sub("#", text))
    return LONG.sub(lambda found: f"{float(found[0]):.7g}", text)


def _without(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without(v) for k, v in sorted(value.items()) if not MOVES.fullmatch(k)}
    return [_without(one) for one in value] if isinstance(value, list) else value


def of_file(path: Path, root: Path) -> str:
    """Put a file into its plain form."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        text = "".join(f"{row}\n" for row in (table.schema.names, *rows))
    elif path.suffix in {".json", ".jsonl"}:
        text = path.read_text("utf-8")
        whole = path.suffix == ".json"
        told = [json.loads(text)] if whole else [json.loads(one) for one in text.splitlines()]
        text = "\n".join(json.dumps(_without(one), indent=1 if whole else None) for one in told)
    else:
        text = path.read_text("utf-8", errors="replace")
        if path.suffix == ".html":
            text = html.unescape(SOFT.sub("\n", text))
            text = "\n".join(line.strip() for line in text.splitlines() if line.strip())
    return plain(text, root)


class Watch:
    """Tells what a command wrote."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: dict[Path, bytes] = {}
        list(self.written())

    def written(self) -> Iterator[tuple[str, str]]:
        """Yield each file that is new or has changed, in its plain form."""
        for path in sorted(self.root.rglob("*")):
            away = AWAY.intersection(path.relative_to(self.root).parts)
            if path.suffix not in TEXTS or away or path.is_symlink() or not path.is_file():
                continue
            content = path.read_bytes()
            if self.seen.get(path) != content:
                self.seen[path] = content
                yield path.relative_to(self.root).as_posix(), of_file(path, self.root)


def outputs(scenario: str, root: Path) -> Iterator[tuple[str, str]]:
    """Run all commands of a scenario in this process, and yield each one's outputs as it ends."""
    os.environ.update(SHOWN)
    from tests.oracle import golden_world

    golden_world.stand_still()
    from tests.oracle import golden_scenes

    os.chdir(root)
    begin, commands = golden_scenes.scenes()[scenario]
    begin(root)
    watch = Watch(root)
    for number, line in enumerate(commands):
        words = line(root) if callable(line) else line
        ended = golden_world.commanded(words.split())
        name = f"{number:02} {plain(words, root)}"
        yield f"{name}: exit", str(ended.code)
        yield f"{name}: output", plain(ended.out, root)
        yield f"{name}: messages", plain(ended.err, root)
        yield from ((f"{name}: {path}", text) for path, text in watch.written())


def play(scenario: str, root: Path, out: Path) -> None:
    """Run a scenario in this process, and write what comes out."""
    with out.open("w", encoding="utf-8") as file:
        for one in outputs(scenario, root):
            file.write(json.dumps(one) + "\n")
            file.flush()


def first_difference(scenario: str, root: Path) -> str:
    """Run a scenario in this process up to the first output that is not its golden."""
    kept = json.loads((KEPT / f"{scenario}.json").read_text("utf-8"))
    for key, text in outputs(scenario, root):
        if said := difference(kept.pop(key, None), text):
            return f"{key} {said}"
    return f"{next(iter(kept))} is gone" if kept else ""


def found(scenario: str, code: Path = ROOT) -> Texts:
    """Run a scenario in a process of its own, with the code of a clone."""
    with tempfile.TemporaryDirectory() as folder:
        root, out = Path(folder).resolve() / "project", Path(folder) / "texts.jsonl"
        root.mkdir()
        kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        command = [
            sys.executable,
            "-m",
            "tests.oracle.golden",
            "play",
            scenario,
            str(root),
            str(out),
        ]
        env = {**kept, **SHOWN, "PYTHONHASHSEED": "0", "PYTHONPATH": str(code)}
        try:
            done = subprocess.run(
                command,
                cwd=code,
                env=env,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
            wrong = f"{done.returncode}\n{done.stderr[-2000:]}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            wrong = f"no end within {LONGEST_S} s"
        lines = out.read_text("utf-8").splitlines() if out.is_file() else []
        texts = dict(json.loads(line) for line in lines)
        if wrong:
            texts["the process: exit"] = wrong
        return texts


def digest(text: str) -> str:
    """Name a text by its content."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_shown(key: str) -> bool:
    """Tell whether a text is kept in git, to be read: exits, and what commands that decide said."""
    words = key.split()
    return key.endswith((": exit", ": messages")) or (
        key.endswith(": output") and words[1] in {"run", "decide", "traffic", "load"}
    )


def keep(scenario: str, texts: Texts) -> None:
    """Write the goldens of a scenario, and its whole texts beside."""
    KEPT.mkdir(exist_ok=True)
    told = {k: text.splitlines() if is_shown(k) else digest(text) for k, text in texts.items()}
    lines = json.dumps(told, indent=1, ensure_ascii=False)
    (KEPT / f"{scenario}.json").write_text(lines + "\n", "utf-8")
    CACHE.mkdir(parents=True, exist_ok=True)
    for text in texts.values():
        (CACHE / digest(text)).write_text(text, "utf-8", "surrogatepass")


def compared(scenario: str, texts: Texts) -> list[Difference]:
    """Compare what a scenario gave with its goldens."""
    file = KEPT / f"{scenario}.json"
    if not file.is_file():
        return [
            Difference(scenario, "no goldens are kept. Renew them at the commit to compare with")
        ]
    kept = json.loads(file.read_text("utf-8"))
    told = {key: difference(kept.get(key), texts.get(key)) for key in {**kept, **texts}}
    return [Difference(f"{scenario}, {key}", said) for key, said in told.items() if said]


def difference(was: str | Sequence[str] | None, now: str | None) -> str:
    """Describe how an output differs from its golden, a digest or lines; empty if not."""
    if was is None or now is None:
        return "is new" if was is None else "is gone"
    if isinstance(was, str):
        if digest(now) == was:
            return ""
        file = CACHE / was
        if not file.is_file():
            return "differs. Renew the goldens at the kept commit to see where"
        was = file.read_text("utf-8", "surrogatepass").splitlines()
    lines = difflib.unified_diff(was, now.splitlines(), n=0, lineterm="")
    first = [line[:300] for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n    ".join(["differs:", *first[:2]]) if first else ""


def check_goldens(*, only_quick: bool, named: Sequence[str] = ()) -> list[Difference]:
    """Run every scenario whose data are here, or those named, and list what differs."""
    names = named or scenarios(only_quick=only_quick)
    return [one for name in names for one in compared(name, found(name))]


def renew_goldens(*, only_quick: bool, named: Sequence[str] = ()) -> list[Difference]:
    """Keep what comes out now, and list what that changes."""
    changed: list[Difference] = []
    for name in named or scenarios(only_quick=only_quick):
        texts = found(name)
        changed += compared(name, texts)
        keep(name, texts)
    return changed


def scenarios(*, only_quick: bool) -> Sequence[str]:
    """Name the scenarios whose data are here."""
    from tests.oracle import golden_scenes

    there = golden_scenes.scenes()
    if not only_quick and len(there) == len(golden_scenes.OWN):
        print(f"skipped: the shared sets, for {golden_scenes.SHARED} is not here")
    return QUICK if only_quick else tuple(there)


def main(words: Sequence[str]) -> int:
    """Check or renew the goldens: ``check`` or ``renew``, then ``quick``, scenarios, or nothing."""
    what, *named = words
    if what == "play":
        play(named[0], Path(named[1]), Path(named[2]))
        return 0
    do = {"check": check_goldens, "renew": renew_goldens}[what]
    differences = do(only_quick=named == ["quick"], named=[one for one in named if one != "quick"])
    print("\n".join(map(str, differences)) or "nothing differs")
    return int(bool(differences) and what == "check")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
