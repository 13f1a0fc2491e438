"""A new evaluation project: sample data, an engine, a policy and a script for a build server."""

import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from string import Template

import yaml

from harness.core.batches import code_sha256
from harness.core.errors import HarnessError
from harness.core.files import replacing_folder, scratch, write_json, write_text
from harness.core.formats import yaml_file
from harness.core.names import Place
from harness.pipeline.receipts import versions
from harness_engines.registry import roots

INSTALLED, PACKAGED_PIPELINE = "installed.json", "dvc.yaml"
CODE = ("engines", "harness", "requirements.lock")
"""What a stage in a clone depends on and what is not in such a project."""
CONFIG = "[core]\n    analytics = false\n    check_update = false\n    no_scm = true\n"


def begin_packaged(packaged: Path, folder: Path) -> None:
    """Make ``folder`` a project with the data sets and policies that the package brings."""
    if not (folder / "params.yaml").is_file():
        with replacing_folder(folder) as beside:
            shutil.copytree(packaged, beside, dirs_exist_ok=True)
            write_text(beside / ".dvc" / "config", CONFIG)
    about = {"code": code_sha256(), "packages": versions(), "python": platform.python_version()}
    write_json(folder / INSTALLED, about)
    pipeline = yaml_file(packaged / PACKAGED_PIPELINE)
    for stage in pipeline["stages"].values():
        kept = [dep for dep in stage["deps"] if dep.partition("/")[0] not in CODE]
        stage["deps"] = [*kept, INSTALLED]
    write_text(folder / PACKAGED_PIPELINE, yaml.safe_dump(pipeline, sort_keys=False))


ACTIONS: Mapping[str, str] = {
    "Create": "Press the plus sign beside the list. The new {one} is empty, and is yours.",
    "Rename": "Click on the title and type another one. Links to the {one} go on working.",
    "Delete": "Choose the bin. For thirty days the {one} can be brought back from there.",
    "Share": "Enter the address of a colleague. Who follows the link may read this {one}.",
    "Export": "Choose a format, and a file is written. Large {one}s are packed first.",
    "Import": "Pick a file from your disk. Each row becomes one {one}; errors are listed.",
    "Archive": "It leaves the daily view, and search still finds it. The {one} is kept.",
    "Print": "A preview opens with page breaks. The {one} is set in black on white.",
}
THINGS = (
    "board", "booking", "budget", "calendar", "catalogue", "chart", "contact", "contract",
    "dashboard", "diary", "folder", "form", "glossary", "guide", "journal", "label", "ledger",
    "letter", "map", "memo", "note", "parcel", "plan", "poll", "project", "quote", "receipt",
    "report", "survey", "template",
)  # fmt: skip
ASKED = ("{action} {one}", "How do I {action} a {one}?", "{action} {one}s")
SLICES = ("keywords", "question", "plural")
SHEBANG, RUNNABLE = b"#!", 0o755
TEMPLATE = Path(__file__).parent / "template"
DATA, SCRIPT, README, IGNORED = "data", "ci.sh", "README.md", ".gitignore"
ENGINE, OWN, PIPELINE = "engine.py", "engine.py:search", "pipeline.yaml"
PAIRWISE = "policy/pairwise.toml"
ALWAYS = {
    README: README,
    "params.yaml": "params.yaml",
    "policy/regress.toml": "policy/regress.toml",
    SCRIPT: SCRIPT,
    "gitignore": IGNORED,
}
SOMETIMES = {PAIRWISE: PAIRWISE, ENGINE: ENGINE, PIPELINE: PACKAGED_PIPELINE}
"""With a control; without an engine of the reader's own; for DVC."""
BESIDE = "SEARCH.md"
FILLED = {README, "params.yaml", SCRIPT, PIPELINE}
WORKFLOW, INIT_PIPELINE = ".github/workflows/search.yml", ".gitlab-ci.yml"
"""Where GitHub and GitLab read what to run: from the root of the repository."""
ACTION = "ci/github"
SOURCE = re.compile(r"([\w.-]+(?:/[\w.-]+)+)@([\w./-]+)")


@dataclass(frozen=True, slots=True)
class NewProject:
    """What a new project is to be."""

    folder: Path
    control: str = ""
    """An arm that each change is compared with too; empty for none."""
    engine: str = ""
    """A function, ``MODULE:FUNCTION`` or ``FILE.py:FUNCTION``; empty for a sample of one."""
    data: Path | None = None
    """A folder in BEIR layout; None for a sample of one."""
    github: str = ""
    """``OWNER/REPO@REF`` of the harness on GitHub; empty for no workflow."""
    gitlab: str = ""
    """``GROUP/PROJECT@REF`` of the harness on the same GitLab; empty for no pipeline."""
    dvc: bool = False


def begin_project(wanted: NewProject) -> tuple[str, ...]:
    """Write the project, and name its files from its folder.

    A new folder appears whole or not at all. In a folder of a git repository nothing is
    overwritten; workflow files go to the root of the repository.
    """
    folder = wanted.folder.resolve()
    root = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
    _may_hold_a_project(wanted.folder, in_repository=root is not None)
    files = _files(wanted, BESIDE if (folder / README).exists() else README)
    ignored = files.pop(IGNORED) if (folder / IGNORED).exists() else b""
    files |= {_from(folder, path): text for path, text in _flows(wanted, folder, root or folder)}
    paths = (Path(os.path.normpath(folder / name)) for name in files)
    if present := [str(path) for path in paths if path.exists() or path.is_symlink()]:
        raise HarnessError(f"{', '.join(present)}: already exists. Move it, or name a new folder")
    inside = {name: content for name, content in files.items() if not name.startswith("..")}
    if folder.exists():
        _write(folder, inside)
        _ignore(folder / IGNORED, ignored.decode().splitlines())
    else:
        with replacing_folder(folder) as beside:
            _write(beside, inside)
    _write(folder, {name: files[name] for name in files.keys() - inside.keys()})
    return tuple(sorted(files))


def _may_hold_a_project(folder: Path, *, in_repository: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise HarnessError(f"{folder}: already exists. Name a new or empty folder")
    if folder.exists() and any(folder.iterdir()) and not in_repository:
        problem = f"{folder}: already exists and is in no git repository"
        raise HarnessError(f"{problem}. Name a new or empty folder, or run: git init")


def _flows(wanted: NewProject, folder: Path, root: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the files for build servers, which name the folder from the root."""
    within = "" if folder == root else json.dumps(folder.relative_to(root).as_posix())
    github, gitlab = _source(wanted.github), _source(wanted.gitlab)
    if github:
        lines = f"\n        with:\n          folder: {within}" if within else ""
        words = {"action": f"{github[0]}/{ACTION}@{github[1]}", "inputs": lines}
        yield root / WORKFLOW, _filled("github.yml", words)
    if gitlab:
        line = f"\n      folder: {within}" if within else ""
        words = {"project": gitlab[0], "ref": gitlab[1], "folder": line}
        yield root / INIT_PIPELINE, _filled("gitlab.yml", words)


def _files(wanted: NewProject, readme: str) -> dict[str, bytes]:
    """Return each file of the project by its place in the folder."""
    engine, data = _engine(wanted), _data(wanted)
    sample, files = [], {}
    if wanted.data is None:
        with scratch() as written:
            count = write_sample(written / DATA)
            found = sorted(path for path in written.rglob("*") if path.is_file())
            files = {path.relative_to(written).as_posix(): path.read_bytes() for path in found}
        sample.append(SAMPLE.format(count))
    if not wanted.engine:
        sample.append(RED)
    control = shlex.quote(wanted.control)
    deps = dict.fromkeys([data, _code(engine, wanted.folder), "policy", "params.yaml", SCRIPT])
    words = {
        "name": wanted.folder.resolve().name,
        "arms": ", ".join(filter(None, [wanted.control, json.dumps(engine)])),
        "control": f" --arms {control} --control {control}" if wanted.control else "",
        "engine": engine,
        "data": data,
        "queries": f"{data}/queries.jsonl",
        "policy": "pairwise" if wanted.control else "regress",
        "sample": "\n".join(sample),
        "deps": "\n".join(f"      - {json.dumps(one)}" for one in deps if one),
    }
    quoted = {key: shlex.quote(words[key]) for key in ("engine", "data", "queries")}
    ours = {PAIRWISE: bool(wanted.control), ENGINE: not wanted.engine, PIPELINE: wanted.dvc}
    some = {name: to for name, to in SOMETIMES.items() if ours[name]}
    for name, to in {**ALWAYS, **some, README: readme}.items():
        said = words | quoted if name == SCRIPT else words
        said |= {"data": Path(data).name} if name == "params.yaml" else {}
        files[to] = _filled(name, said) if name in FILLED else (TEMPLATE / name).read_bytes()
    return files


SAMPLE = """
The sample is {} help pages of a product that does not exist, and one query for each. Every page
is judged for every query, 0 where it does not answer. Of your own data fewer pages are: where
unjudged hits could turn a gate, it is INCONCLUSIVE and says how many to judge."""
RED = """
To see it turn red, copy `out/` to `before/`, let `words` in `engine.py` forget `.lower()`, and run
`./ci.sh` again."""


def _engine(wanted: NewProject) -> str:
    """Return the function as it is called from the folder."""
    if not wanted.engine:
        return OWN
    place = Place.required(wanted.engine)
    if not place.is_file:
        return wanted.engine
    return f"{_from(wanted.folder.resolve(), Path(place.module).resolve())}:{place.function}"


def _data(wanted: NewProject) -> str:
    """Return the folder of the data as it is seen from the project's."""
    if wanted.data is None:
        return DATA
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        if not (wanted.data / name).is_file():
            problem = f"{wanted.data}: has no {name}"
            raise HarnessError(f"{problem}. Name a folder in BEIR layout (docs/how-to/own-data.md)")
    return _from(wanted.folder.resolve(), wanted.data.resolve())


def _code(engine: str, folder: Path) -> str:
    """Return the file or the package of a function from the folder; empty where none is found."""
    module = engine.rpartition(":")[0]
    if module.endswith(".py"):
        return module
    here, top = folder.resolve(), module.partition(".")[0]
    found = (root for root in roots(here) if (root / top).is_dir())
    return next((_from(here, root / top) for root in found), "")


def _filled(name: str, words: Mapping[str, str]) -> bytes:
    return Template((TEMPLATE / name).read_text(encoding="utf-8")).substitute(words).encode()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if content.startswith(SHEBANG):
            path.chmod(RUNNABLE)


def _ignore(file: Path, lines: Iterable[str]) -> None:
    """Add to ``.gitignore`` what it lacks."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if lacking := [line for line in lines if line not in text.splitlines()]:
        end = "" if text.endswith("\n") or not text else "\n"
        write_text(file, text + end + "".join(f"{line}\n" for line in lacking))


def _from(folder: Path, path: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _source(given: str) -> tuple[str, str] | None:
    if not given:
        return None
    match = SOURCE.fullmatch(given)
    if not match:
        raise HarnessError(f"{given!r} is an invalid repository reference: give OWNER/REPO@REF")
    return match[1], match[2]


def write_sample(folder: Path) -> int:
    """Write a folder in BEIR layout, a query to each page and always the same; count the pages."""
    pages: list[dict[str, object]] = []
    queries: list[dict[str, object]] = []
    for at, (thing, action) in enumerate(product(THINGS, ACTIONS)):
        name, kind = f"{action}-{thing}".lower(), at % len(ASKED)
        text = ACTIONS[action].format(one=thing)
        pages.append({"_id": name, "title": f"{action} a {thing}", "text": text})
        asked = ASKED[kind].format(action=action.lower(), one=thing)
        own = {"slices": [SLICES[kind]], "intent": f"q-{name}"}
        queries.append({"_id": f"q-{name}", "text": asked, **own})
    names = [page["_id"] for page in pages]
    judged = (f"q-{asked}\t{page}\t{int(page == asked)}" for asked in names for page in names)
    for file, rows in (("corpus.jsonl", pages), ("queries.jsonl", queries)):
        write_text(folder / file, "".join(json.dumps(row) + "\n" for row in rows))
    table = "\n".join(["query-id\tcorpus-id\tscore", *judged, ""])
    write_text(folder / "qrels" / "test.tsv", table)
    return len(pages)
