"""Tapes: one problem as explicit arrays, so that a trace or another program's run is replayed."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headway.errors import HeadwayError
from headway.policy import Situation
from headway.state import Floats
from headway.world.problem import TAPE, Problem


def finite_array(name: str, value: ArrayLike, axes: int) -> Floats:
    """A float array of so many axes without NaN or infinity, or an error that names the place."""
    try:
        array = np.array(value, np.float64, order="C")
    except (TypeError, ValueError) as problem:
        raise HeadwayError(f"tape: {name} is not an array of numbers ({problem})") from None
    if array.ndim != axes:
        raise HeadwayError(f"tape: {name} has shape {array.shape}; it needs {axes} axes")
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        place = tuple(int(i) for i in bad[0])
        raise HeadwayError(f"tape: {name}[{', '.join(map(str, place))}] is {array[place]}")
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
        for name in ("norm_bound", "arrival_rate", "slack"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0.0):
                raise HeadwayError(f"tape: {name} {value!r} must be a finite number of at least 0")
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

    def problem(self) -> Problem:
        """As compiled loops read it."""
        return Problem(
            kind=TAPE,
            theta_star=self.theta_star,
            arrival_rate=math.nan,
            least_logit=-math.inf,
            scale=1.0,
            contexts=self.contexts,
            arrivals=self.arrivals,
            service=self.service,
        )
