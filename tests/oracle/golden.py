"""Golden runs: what commands wrote and said on kept inputs, compared to the letter.

A scenario is a project made by code and the commands run in it, one after the other, in a process
where time stands still (``golden_world``). After each command its exit code, its messages, and each
file that it wrote are put into a plain form. Git holds their digests, and what the commands that
decide said; the whole texts lie in a cache, so that a difference shows its first line.
"""

import difflib
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.source import ROOT

KEPT = Path(__file__).with_name("goldens")
HOME = Path(os.environ.get("ORACLE_CACHE", Path.home() / ".cache" / "search-harness-oracle"))
CACHE = HOME / "goldens"
QUICK = ("mail", "folders", "thorns", "traffic")
"""Those of the normal suite."""
TEXTS = {".json", ".jsonl", ".csv", ".md", ".html", ".xml", ".trec", ".txt", ".toml", ".parquet"}
TEXTS |= {".tsv", ".tex", ".qrels", ".run", ".lock", ".yaml", ".js"}
SHOWN = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "120", "HARNESS_CALLED": "python3 run.py"}
AWAY = {".cache", "index", "__pycache__"}
MOVES = re.compile(
    r"machine|packages|versions?|python|commands?|platform|code_sha256|processor|cores|pid|started"
)
"""Keys of JSON whose values are of this machine, or of this version of the code."""
HEX = re.compile(r"\b[0-9a-f]{12,64}\b")
LONG = re.compile(r"-?\d+\.\d{6,}(?:e-?\d+)?|-?\d(?:\.\d+)?e-\d+")
SOFT = re.compile(r"<(script|style|svg)\b.*?</\1>|<[^>]+>", re.DOTALL)
PYTHON = re.compile(r"\b\w[\w.()-]*(?: [\w.()@-]+)*, \d+ cores, \w+ \w+, Python [\d.]+")


def plain(text: str, root: Path) -> str:
    """Take out of a text what is of this machine, folder or version."""
    places = {root: "TMP", ROOT: "ROOT", ROOT.parent / "shared": "SHARED", sys.executable: "PYTHON"}
    for real, name in places.items():
        text = text.replace(str(real), name)
    text = text.replace(f"in the project {ROOT.name} made", "in the project ROOT made")
    text = HEX.sub(
        lambda found: found[0] if found[0].isdigit() or found[0].isalpha() else "#", text
    )
    if " cores, " in text:  # the pattern is slow
        text = PYTHON.sub("MACHINE", text)
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


def written(root: Path, seen: dict[Path, bytes]) -> Iterator[tuple[str, str]]:
    """Yield each file that is new or has changed since ``seen``, in its plain form."""
    for path in sorted(root.rglob("*")):
        away = AWAY.intersection(path.relative_to(root).parts)
        if path.suffix not in TEXTS or away or path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        if seen.get(path) != content:
            seen[path] = content
            yield path.relative_to(root).as_posix(), of_file(path, root)


def outputs(scenario: str) -> Iterator[tuple[str, str]]:
    """Run all commands of a scenario in this process, and yield each one's outputs as it ends."""
    os.environ.update(SHOWN)
    from tests.oracle import golden_world

    golden_world.stand_still()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        (root := Path(folder).resolve() / "project").mkdir()
        os.chdir(root)
        if scenario in {"mail", "folders"}:
            from tests.oracle import golden_tools

            answers = getattr(golden_tools, f"of_{scenario}")(root)
            yield from ((key, plain(text, root)) for key, text in answers)
            return
        from tests.once_a_process import pictures

        stack.enter_context(pictures(painted=False))
        from tests.oracle import golden_scenes

        begin, commands = golden_scenes.scenes()[scenario]
        begin(root)
        seen = dict[Path, bytes]()
        list(written(root, seen))
        for number, line in enumerate(commands):
            words = line(root) if callable(line) else line
            code, out, err = golden_world.commanded(words.split())
            name = f"{number:02} {plain(words, root)}"
            yield f"{name}: exit", str(code)
            yield f"{name}: output", plain(out, root)
            yield f"{name}: messages", plain(err, root)
            yield from ((f"{name}: {path}", text) for path, text in written(root, seen))


def differences(scenario: str, texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield how the outputs of a scenario differ from its goldens."""
    if not (file := KEPT / f"{scenario}.json").is_file():
        yield f"{scenario}: no goldens are kept. Renew them at the commit to compare with"
        return
    kept = json.loads(file.read_text("utf-8"))
    for key, text in texts:
        if said := difference(kept.pop(key, None), text):
            yield f"{scenario}, {key}: {said}"
    yield from (f"{scenario}, {key}: is gone" for key in kept)


def found(scenario: str) -> Mapping[str, str]:
    """Run a scenario in a process of its own; return the plain forms of all outputs."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    env = {**kept, **SHOWN, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{ROOT}:{ROOT / 'engines'}"}
    command = [sys.executable, "-m", "tests.oracle.golden", "play", scenario]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    texts = dict(json.loads(line) for line in done.stdout.splitlines())
    failed = {"the process: exit": f"{done.returncode}\n{done.stderr[-2000:]}"}
    return texts | failed if done.returncode else texts


def digest(text: str) -> str:
    """Name a text by its content."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_shown(key: str) -> bool:
    """Tell whether a text is kept in git, to be read: exits, and what commands that decide said."""
    words = key.split()
    return key.endswith((": exit", ": messages")) or (
        key.endswith(": output") and words[1] in {"run", "gate", "shadow", "load"}
    )


def keep(scenario: str, texts: Mapping[str, str]) -> None:
    """Write the goldens of a scenario, and its whole texts beside."""
    KEPT.mkdir(exist_ok=True)
    told = {k: text.splitlines() if is_shown(k) else digest(text) for k, text in texts.items()}
    lines = json.dumps(told, indent=1, ensure_ascii=False)
    (KEPT / f"{scenario}.json").write_text(lines + "\n", "utf-8")
    CACHE.mkdir(parents=True, exist_ok=True)
    for text in texts.values():
        (CACHE / digest(text)).write_text(text, "utf-8", "surrogatepass")


def difference(was: str | Sequence[str] | None, now: str) -> str:
    """Describe how an output differs from its golden, a digest or lines; empty if not."""
    if was is None:
        return "is new"
    if isinstance(was, str):
        if digest(now) == was:
            return ""
        file = CACHE / was
        if not file.is_file():
            return "differs. Renew the goldens at the commit to compare with, to see where"
        was = file.read_text("utf-8", "surrogatepass").splitlines()
    lines = difflib.unified_diff(was, now.splitlines(), n=0, lineterm="")
    first = [line[:300] for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n    ".join(["differs:", *first[:2]]) if first else ""


def main(what: str, *named: str) -> int:
    """Check or renew the goldens: ``check`` or ``renew``, then ``quick``, scenarios, or nothing."""
    from tests.oracle import golden_scenes

    if what == "play":
        for one in outputs(*named):
            print(json.dumps(one), flush=True)
        return 0
    there, differs = [*golden_scenes.scenes(), "mail", "folders"], False
    if not named and not golden_scenes.SHARED.is_dir():
        print(f"skipped: the shared sets, for {golden_scenes.SHARED} is not here")
    for name in QUICK if named == ("quick",) else named or there:
        said = [*differences(name, (texts := found(name)).items())]
        differs |= bool(said)
        print("\n".join(said) or f"{name}: nothing differs", flush=True)
        if what == "renew":
            keep(name, texts)
    return int(differs and what == "check")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
