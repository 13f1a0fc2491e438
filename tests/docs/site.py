"""Hooks of mkdocs.yml: pages of the repository's root, and links that lead out of docs/."""

import re
from pathlib import PurePosixPath
from posixpath import normpath

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from harness.cli import application
from tests.docs.pages import ROOT

AT_THE_ROOT = {
    "README.md": "start.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages of the root, and what they are called on the site."""
IN_A_LIST = re.compile(r"^(?: {2,3}|( {4}) {2,3})(?=\S)", re.MULTILINE)
"""The indent of a paragraph or of code within an item, which Python-Markdown wants at 4 or 8."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
command = typer.main.get_command(application())
command.help = re.sub(r"\[/?\w+\]", "", command.help or "")  # marks of the terminal


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root."""
    for source, name in AT_THE_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  MkDocs names them
    """Indent items of lists, point links to the site's pages, and make text of other links."""
    at = page.file.src_uri
    source = {name: root for root, name in AT_THE_ROOT.items()}.get(at, f"docs/{at}")

    def follow(found: re.Match[str]) -> str:
        image, text, target, anchor = found.groups()
        path = normpath((PurePosixPath(source).parent / target).as_posix())
        name = AT_THE_ROOT.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(name) is None:
            return text
        up = "../" * at.count("/")
        return f"{image}[{text}]({up}{name}{anchor or ''})"

    parts = re.split(r"(^```.*?^```)", LINK.sub(follow, markdown), flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [IN_A_LIST.sub(r"    \1", part) for part in parts[::2]]
    return "".join(parts)
