"""Headings are found where a reader of the format finds them, and nowhere else."""

from __future__ import annotations

import pytest

from engines.kept.headings import headings
from engines.stacks.writing.service import title_of

FENCE = "Steps:\n\n```bash\n# stop first\n```\n"
FRONT = "---\n# by the template\ntags: [a]\n---\n"
TITLES = {
    "a list": ("a.md", "* milk\n* oats\n", "a"),
    "a fence": ("a.md", FENCE, "a"),
    "a fence and then a heading": ("a.md", f"{FENCE}\n# Real #\n", "Real"),
    "indented code": ("a.md", "Steps:\n\n    # stop first\n", "a"),
    "front matter": ("a.md", f"{FRONT}Cone 6.\n", "a"),
    "a title in front matter": (
        "a.md",
        '---\ntags: []\ntitle: "Kiln: log"\n---\n# B\n',
        "Kiln: log",
    ),
    "front matter of TOML": ("a.md", "+++\n# no\ntitle = 'Kiln'\n+++\n# B\n", "Kiln"),
    "a comment in HTML": ("a.md", "<!--\n# no\n-->\n\n~~~\n# no\n~~~\n", "a"),
    "a heading behind front matter": ("a.md", f"{FRONT}\n# Kiln\n", "Kiln"),
    "a title among fields": ("a.md", "date: x\ntitle: Kiln\n\n# B\n", "Kiln"),
    "an underlined heading": ("a.md", "Kiln log\n========\n\nCone 6.\n", "Kiln log"),
    "a heading in a quotation": ("a.md", "> # Said\n", "a"),
    "a tag": ("a.md", "#pottery\n", "a"),
    "line ends of Windows": ("a.md", "x\r\n\r\n## Kiln\r\n\r\ny", "Kiln"),
    "a signature": ("a.txt", "Bye,\nBob\n--\nCorp\n", "a"),
    "plain text": ("a.txt", "# Kiln\n", "Kiln"),
    "a title of rst": ("a.rst", "Kiln log\n========\n\nCone 6.\n", "Kiln log"),
    "a title of rst between lines": ("a.rst", "========\n  Kiln\n========\n", "Kiln"),
    "a title of rst with line ends of Windows": ("a.rst", "Kiln log\r\n=====\r\n====\r\n", "a"),
    "a title of rst after a label": ("a.rst", ".. _kiln:\r\n\r\nKiln\r\n====\r\n", "Kiln"),
    "front matter with line ends of Windows": ("a.md", "---\r\n# by me\r\n---\r\nText\r\n", "a"),
    "an underline that is too short": ("a.rst", "Kiln log is long\n----\n", "a"),
    "a number sign in rst": ("a.rst", "# Kiln\n", "a"),
    "org": ("a.org", "* Kiln\n", "Kiln"),
    "a title of org": ("a.org", "#+TITLE: Kiln\n* First\n", "Kiln"),
    "a block of org": ("a.org", "#+begin_src\n* no\n#+end_src\n* Kiln\n", "Kiln"),
}


@pytest.mark.parametrize("case", TITLES)
def test_a_note_is_named_by_its_first_heading_else_by_its_file(case: str) -> None:
    path, text, title = TITLES[case]
    assert title_of(path, text)[0] == title


def test_a_heading_says_where_it_stands() -> None:
    text = "x\n\n## One\n\ny\n\nTwo\n---\nz\n"
    found = headings(".md", text)
    assert [(one.level, text[one.start : one.end]) for one in found] == [
        (2, "## One"),
        (2, "Two\n---"),
    ]
