"""Tapes: one problem as explicit arrays, so that a trace or another program's run is replayed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headway.errors import HeadwayError
from headway.policy import Situation
from headway.rng import SERVICE, uniform
from headway.settings import LIMITS, as_number, whole_number
from headway.state import Floats
from headway.world.problem import Instance, Problem, arrives, draw_context
from headway.world.trace import read_trace, write_trace

LARGEST = 1e6  # of a context and of theta_star: beyond it their products lose all digits
# What a tape's measures must be, where they are known.
KNOWN: dict[str, tuple[Callable[[float], bool], str]] = {
    "norm_bound": LIMITS["norm_bound"],
    "arrival_rate": (lambda value: 0.0 < value <= 1.0, "in (0, 1]"),
    "slack": (lambda value: 0.0 <= value < 1.0, "at least 0 and below 1"),
}


def finite_array(name: str, value: ArrayLike, axes: int) -> Floats:
    """A float array of so many axes without NaN or infinity, or an error that names the place."""
    try:
        given = np.asarray(value)
        if np.iscomplexobj(given):
            raise TypeError(f"it holds {given.dtype}")
        array = np.array(given, np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as problem:
        raise HeadwayError(f"tape: {name} is not an array of numbers ({problem})") from None
    if array.ndim != axes:
        raise HeadwayError(f"tape: {name} has shape {array.shape}; it needs {axes} axes")
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        place = tuple(int(i) for i in bad[0])
        raise HeadwayError(f"tape: {name}[{', '.join(map(str, place))}] is {array[place]}")
    if array.size and np.abs(array).max() > LARGEST:
        place = tuple(int(i) for i in np.argwhere(np.abs(array) > LARGEST)[0])
        raise HeadwayError(
            f"tape: {name}[{', '.join(map(str, place))}] is {array[place]:g}, beyond "
            f"{LARGEST:g}: choose other units"
        )
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    """One problem as arrays: `contexts[i]` is the i-th arriving job, `arrivals[t-1]` and
    `service[t-1]` (a uniform: success iff it is <= the success rate) belong to round t.

    `norm_bound`, `arrival_rate` and `slack` are what a policy may know; None = unknown (the norm
    bound then is sqrt(d), as on the cube).
    """

    theta_star: Any
    contexts: Any
    arrivals: Any
    service: Any
    norm_bound: float | None = None
    arrival_rate: float | None = None
    slack: float | None = None

    def __post_init__(self) -> None:
        theta_star = finite_array("theta_star", self.theta_star, 2)
        contexts = finite_array("contexts", self.contexts, 2)
        service = finite_array("service", self.service, 1)
        marks = finite_array("arrivals", self.arrivals, 1)
        if 0 in theta_star.shape:
            raise HeadwayError(f"tape: theta_star has shape {theta_star.shape}: no server or axis")
        if not np.isin(marks, (0.0, 1.0)).all():
            worst = marks[~np.isin(marks, (0.0, 1.0))][0]
            raise HeadwayError(f"tape: arrivals holds {worst:g}; it takes true and false only")
        if contexts.shape[1] != theta_star.shape[1]:
            raise HeadwayError(
                f"tape: contexts have dimension {contexts.shape[1]}, "
                f"theta_star has {theta_star.shape[1]}"
            )
        if service.shape != marks.shape:
            raise HeadwayError(
                f"tape: arrivals cover {marks.shape[0]} rounds, service {service.shape[0]}"
            )
        if contexts.shape[0] < marks.sum():
            raise HeadwayError(
                f"tape: {int(marks.sum())} arrivals but only {contexts.shape[0]} contexts"
            )
        if ((service < 0.0) | (service > 1.0)).any():
            worst = service[(service < 0.0) | (service > 1.0)][0]
            raise HeadwayError(f"tape: service holds {worst:g}; uniforms lie in [0, 1]")
        for name, (allowed, phrase) in KNOWN.items():
            value = getattr(self, name)
            if value is not None:
                number = as_number(value)
                if number is None or not allowed(number):
                    raise HeadwayError(f"tape: {name} {value!r} must be {phrase}")
                object.__setattr__(self, name, float(number))
        arrays = {
            "theta_star": theta_star,
            "contexts": contexts,
            "service": service,
            "arrivals": marks.astype(np.bool_),
        }
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    @property
    def most_rounds(self) -> int | None:
        """As many rounds as the tape covers."""
        return int(self.service.shape[0])

    def situation(self, rounds: int | None = None) -> Situation:
        """What a policy may know."""
        servers, dimension = self.theta_star.shape
        bound = math.sqrt(dimension) if self.norm_bound is None else float(self.norm_bound)
        return Situation(servers, dimension, bound, self.arrival_rate, self.slack, rounds)

    def describe(self) -> dict[str, Any]:
        """Its measures, for reports."""
        servers, dimension = self.theta_star.shape
        return {
            "world": "tape",
            "servers": servers,
            "dimension": dimension,
            "rounds": self.most_rounds,
            "arrivals": int(self.arrivals.sum()),
        }

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        form: str | None = None,
        theta_star: Any = None,  # noqa: ANN401 - an array, or the path of one
        rounds: int | None = None,
        seed: int = 0,
        **known: Any,  # noqa: ANN401 - norm_bound, arrival_rate, slack
    ) -> "Tape":
        """A person's own trace from a file, "csv" or "parquet" by its name unless `form` says it;
        `trace.py` tells its columns.

        `theta_star` may be an array or the path of a CSV file with a row a server; a trace that
        `to_file` wrote has its own. Where it has no `service`, that is drawn from `seed`.
        """
        rounds = None if rounds is None else whole_number("rounds", rounds)
        seed = whole_number("seed", seed, 0, 2**64)
        form = Path(path).suffix.removeprefix(".") if form is None else form
        arrays = read_trace(Path(path), form, theta_star=theta_star, rounds=rounds, seed=seed)
        return cls(**arrays, **known)

    @classmethod
    def from_csv(cls, path: str | Path, **given: Any) -> "Tape":  # noqa: ANN401 - as from_file
        """`from_file` for CSV, whatever the file's name."""
        return cls.from_file(path, form="csv", **given)

    @classmethod
    def from_parquet(cls, path: str | Path, **given: Any) -> "Tape":  # noqa: ANN401 - as from_file
        """`from_file` for Parquet, whatever the file's name."""
        return cls.from_file(path, form="parquet", **given)

    def to_file(self, path: str | Path) -> None:
        """Write the tape as .csv (and theta_star beside it, FILE.theta.csv) or .parquet."""
        rounds, dimension = self.most_rounds or 0, self.theta_star.shape[1]
        contexts = np.full((rounds, dimension), math.nan)
        contexts[self.arrivals] = self.contexts[: self.arrivals.sum()]
        columns = {f"x{i + 1}": contexts[:, i] for i in range(dimension)}
        marks = {"arrival": self.arrivals.astype(np.float64), "service": self.service}
        write_trace(Path(path), self.theta_star, {**marks, **columns})

    @property
    def remembers(self) -> bool:
        """Never: each round has a coin of its own."""
        return False

    @property
    def adaptive(self) -> bool:
        """Never: everything is written down."""
        return False

    def instance(self, seed: int, replica: int, rounds: int | None = None) -> Instance:  # noqa: ARG002
        """The one problem that it is, whatever the seed."""
        return Instance(
            Problem(
                theta_star=self.theta_star,
                service_given=True,
                contexts=self.contexts,
                arrivals=self.arrivals,
                service=self.service,
            )
        )


def written_out(
    problem: Problem, key: NDArray[np.uint64], situation: Situation, contexts: Floats | None = None
) -> Tape:
    """The rounds of a problem as a tape; `contexts`, where a policy's run made them."""
    rounds = situation.rounds or 0
    arrivals = np.array([arrives(problem, key, t) for t in range(1, rounds + 1)], np.bool_)
    coins = [uniform(key, SERVICE, t, 0) for t in range(1, rounds + 1)]
    if contexts is None:
        contexts = np.empty((int(arrivals.sum()), situation.dimension))
        nobody = np.empty((0, situation.dimension, situation.dimension))
        for number, before in enumerate(np.flatnonzero(arrivals)):
            draw_context(problem, nobody, np.empty(0), key, before + 1, number, contexts[number])
    return Tape(
        theta_star=problem.theta_star,
        contexts=contexts,
        arrivals=arrivals,
        service=problem.service[:rounds] if problem.service_given else np.array(coins),
        norm_bound=situation.norm_bound,
        arrival_rate=situation.arrival_rate,
        slack=situation.slack,
    )
