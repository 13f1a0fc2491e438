"""The kill switch that the service reads: one line of a file, written beside and renamed."""

from __future__ import annotations

from pathlib import Path

from engines.stacks.agent_mail.switch_file import NAME, value_in
from harness.core.errors import BadFile
from harness.core.files import write_text

FILE = "switch.env"


def write(folder: Path, value: str, *, why: str) -> None:
    """Set the switch, and see it on the disk; ``why`` is a comment for whoever reads the file."""
    write_text(folder / FILE, text_of(value, why=why), durable=True)


def text_of(value: str, *, why: str) -> str:
    """Give the file that sets the switch."""
    return f"# harness migrate: {' '.join(why.split())}\n{NAME}={value}\n"


def is_switch(folder: Path) -> bool:
    """Tell whether a switch lies in a folder, and no file of somebody's own with its name."""
    try:
        value_in(folder / FILE)
    except BadFile:
        return False
    return True


def drift(folder: Path, wanted: str) -> str:
    """Say how the file differs from what the ledger wants; empty where it does not."""
    try:
        found = value_in(folder / FILE)
    except BadFile as exc:
        return str(exc)
    if found != wanted:
        return f"{folder / FILE}: is set to {found}, and by the ledger it is {wanted}"
    return ""
