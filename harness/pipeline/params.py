"""``params.yaml``: read by the command line and handed to the stages as arguments."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field, ValidationError, model_validator

from harness.core.errors import BadPolicy, UnknownName
from harness.core.formats import MAX_YAML_BYTES, yaml_of
from harness.core.names import Name, Place, fault
from harness.core.reading import Malformed, naming, text_of
from harness.core.store import StrictModel
from harness.stats.inference import MOST_CONFIDENCE, Inference

CUT_OFF = re.compile(r"@([0-9]+)$")
MOST_HITS, MOST_RESAMPLES, MOST_ROUNDS, A_DAY_S = 1_000_000, 10_000_000, 10_000, 86_400
MOST_HOURS = 876_000
MOST_WORKERS = 256
"""Processes, and threads in each: a slip of a digit must not start programs until memory ends."""


def _arm(name: str) -> str:
    """Take the name of an arm, the path of its file, whose name it has, or a function."""
    place = Place.of(name)
    stem = Path(name).stem if name.endswith(".toml") else place.name if place else name
    if problem := fault(stem):
        raise ValueError(f"{stem!r} is not a name of an arm: {problem}")
    return name


AskedAgain = Literal["all", "sample"]
ArmName = Annotated[str, AfterValidator(_arm)]


class ReplayParams(StrictModel):
    """How arms are queried."""

    k: int = Field(ge=1, le=MOST_HITS)
    time_limit_s: float = Field(gt=0, le=A_DAY_S)
    seed: int
    aa: AskedAgain = "all"

    def asking_twice(self, aa: str) -> "ReplayParams":
        """Return the settings with other queries for the second replay; the same for none."""
        if aa and aa not in (ways := get_args(AskedAgain)):
            raise UnknownName("way of --aa", aa, ways)
        return self.model_validate({**self.model_dump(), "aa": aa or self.aa})


class ScoreParams(StrictModel):
    """What is measured, and how intervals of means are drawn."""

    measures: tuple[str, ...] = Field(min_length=1, strict=False)
    confidence: float = Field(gt=0.5, le=MOST_CONFIDENCE)
    resamples: int = Field(ge=1_000, le=MOST_RESAMPLES)
    seed: int

    def inference(self) -> Inference:
        """Return what intervals are drawn by."""
        return Inference(confidence=self.confidence, resamples=self.resamples, seed=self.seed)


class CompareParams(StrictModel):
    """How deep two rankings are compared."""

    depths: tuple[Annotated[int, Field(le=MOST_HITS)], ...] = Field(min_length=1, strict=False)
    rbo_p: float = Field(gt=0, lt=1)


class RaceParams(StrictModel):
    """How arms are timed."""

    processes: int = Field(ge=1, le=MOST_WORKERS)
    queries: int = Field(ge=1, le=MOST_HITS)
    k: int = Field(ge=1, le=MOST_HITS)
    warmup: int = Field(ge=0, le=MOST_HITS)
    repeated: int = Field(ge=2, le=MOST_HITS)
    resume_hours: float = Field(ge=0, le=MOST_HOURS)
    seed: int


class LoadParams(StrictModel):
    """How arms are queried by many at once."""

    k: int = Field(ge=1, le=MOST_HITS)
    processes: int = Field(ge=1, le=MOST_WORKERS)
    threads: int = Field(ge=1, le=MOST_WORKERS)
    seconds: float = Field(gt=0, le=A_DAY_S)
    rounds: int = Field(ge=1, le=MOST_ROUNDS)
    warm: int = Field(ge=0, le=MOST_HITS)
    rates: tuple[Annotated[float, Field(le=MOST_HITS)], ...] = Field(min_length=1, strict=False)
    max_lag: float = Field(gt=0, le=MOST_HITS)
    max_noise: float = Field(gt=1, le=MOST_HITS)
    resolution: float = Field(gt=1, le=MOST_HITS)
    confidence: float = Field(gt=0.5, le=MOST_CONFIDENCE)
    resume_hours: float = Field(ge=0, le=MOST_HOURS)
    seed: int


class Params(StrictModel):
    """The whole file."""

    datasets: tuple[Name, ...] = Field(min_length=1, strict=False)
    arms: tuple[ArmName, ...] = Field(min_length=1, strict=False)
    policy: str
    replay: ReplayParams
    score: ScoreParams
    compare: CompareParams
    race: RaceParams
    load: LoadParams

    @model_validator(mode="after")
    def _deep_enough(self) -> Self:
        """Refuse to look deeper into rankings than was asked for: their end is no miss."""
        looks = {f"compare.depths {depth}": depth for depth in self.compare.depths}
        looks["race.k"], looks["load.k"] = self.race.k, self.load.k
        for measure in self.score.measures:
            if cut_off := CUT_OFF.search(measure):
                looks[f"score.measures {measure}"] = int(cut_off[1])
        for name, depth in looks.items():
            if depth > self.replay.k:
                raise ValueError(f"{name} looks deeper than the {self.replay.k} hits of replay.k")
        return self


def read(path: Path) -> Params:
    """Read and check the file."""
    try:
        with naming(path):
            return _read(text_of(path, most=MAX_YAML_BYTES))
    except FileNotFoundError:
        raise BadPolicy(path, "no such file", "Run inside the project's folder") from None
    except Malformed as exc:
        raise BadPolicy(path, f"not YAML: {exc}", "Correct it", exc.line) from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadPolicy(path, f"{key}: {first['msg']}", "See docs/params.md") from exc


@lru_cache(maxsize=1)
def _read(text: str) -> Params:
    """Read the settings of one file once: a command asks for them several times."""
    return Params.model_validate(yaml_of(text))
