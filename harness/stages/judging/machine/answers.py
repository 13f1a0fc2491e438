"""Answers of a judge, each in a file of its own by content: none is paid twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.core.durable.locks import held
from harness.core.errors import BadFile
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.stages.judging.machine.protocol import Answer, JudgeChanged

MODEL = "model.json"
_ANSWER = TypeAdapter(Answer)


@dataclass(frozen=True, slots=True)
class Answers:
    """The folder of one judge; several commands may use it at once."""

    folder: Path
    name: str

    def known(self, key: str) -> Answer | None:
        """Give an answer that was paid; None where there is none.

        Raises:
            BadFile: its file is damaged.
        """
        path = self._path(key)
        if not path.exists():
            return None
        try:
            return _ANSWER.validate_python(json_file(path), strict=False)
        except (OSError, ValueError, ValidationError) as exc:
            raise BadFile(path, "it is damaged", "Remove it; the pair is paid anew") from exc

    def ask(self, key: str, judge: Callable[[], Answer]) -> Answer:
        """Give a known answer, or let the pair be judged and keep what was said."""
        path = self._path(key)
        with held(path):
            if found := self.known(key):
                return found
            answer = judge()
            write_json(path, asdict(answer), durable=True)
        return answer

    def check_model(self, model: str) -> None:
        """Let the model pass that answered first.

        Raises:
            JudgeChanged: it is another one.
        """
        path = self.folder / MODEL
        with held(path):
            if not path.exists():
                write_json(path, {"model": model}, durable=True)
                return
            try:
                first = json_file(path)["model"]
            except (OSError, ValueError, TypeError, KeyError) as exc:
                raise BadFile(path, "it is damaged", "Give the judge another name") from exc
        if first != model:
            raise JudgeChanged(self.name, (str(first), model))

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
