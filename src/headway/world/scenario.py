"""Scenarios: distributions over problems. Replica r of seed s is always the same problem."""

import functools
import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from headway.compiled import compiled
from headway.errors import HeadwayError, unknown
from headway.policy import Situation
from headway.rng import PROBE, SERVICE, THETA, fill_cube, make_key, uniform
from headway.state import Floats
from headway.world.problem import CUBE, Problem, arrives, draw_context
from headway.world.tape import Tape

PROBES = 20_000
LEAST_ACCEPTANCE = 0.01
MOST_REDRAWS = 1_000
SLACK_BY = ("reject", "none")
MOST_NUMBERS = 10**8  # in the matrices of all servers


class Instance(NamedTuple):
    """A problem and how it was found."""

    problem: Problem
    redraws: int = 0  # of theta_star
    acceptance: float = 1.0  # share of contexts that satisfy the slack


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The paper's synthetic world: contexts and theta_star iid Unif(-1, 1)^d, Bernoulli arrivals.

    Slack (Assumption 4) by rejection: a context counts only if some server succeeds on it with
    probability arrival_rate + slack or more. `unit_norm` divides contexts by sqrt(d) and
    multiplies theta_star and its norm bound by it: every success rate stays.
    """

    servers: int = 5
    dimension: int = 5
    arrival_rate: float = 0.7
    slack: float = 0.1
    unit_norm: bool = False
    slack_by: str = "reject"

    def __post_init__(self) -> None:
        for name in ("servers", "dimension"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise HeadwayError(f"{name} {value!r} must be a whole number of at least 1")
        if self.servers * self.dimension**2 > MOST_NUMBERS:
            raise HeadwayError(
                f"servers {self.servers} of dimension {self.dimension} need more than "
                f"{MOST_NUMBERS:.0e} numbers: lower either"
            )
        if not 0.0 < self.arrival_rate <= 1.0:
            raise HeadwayError(f"arrival_rate {self.arrival_rate!r} must be in (0, 1]")
        if not (math.isfinite(self.slack) and self.slack >= 0.0):
            raise HeadwayError(f"slack {self.slack!r} must be a finite number of at least 0")
        if self.slack_by not in SLACK_BY:
            raise unknown("slack_by", self.slack_by, SLACK_BY)
        if self.slack_by == "reject" and self.arrival_rate + self.slack >= 1.0:
            raise HeadwayError(
                f"slack {self.slack:g} at arrival rate {self.arrival_rate:g} asks for a success "
                f"rate of {self.arrival_rate + self.slack:g}, which no server has: lower either"
            )

    @property
    def norm_bound(self) -> float:
        """The longest that a theta_star can be."""
        return float(self.dimension) if self.unit_norm else math.sqrt(self.dimension)

    @property
    def most_rounds(self) -> int | None:
        """No limit."""
        return None

    def situation(self, rounds: int | None = None) -> Situation:
        """What a policy may know."""
        return Situation(
            servers=self.servers,
            dimension=self.dimension,
            norm_bound=self.norm_bound,
            arrival_rate=self.arrival_rate,
            slack=self.slack if self.slack_by == "reject" else None,
            rounds=rounds,
        )

    def describe(self) -> dict[str, Any]:
        """Its fields, for reports."""
        return {"world": "cube", **asdict(self)}

    def instance(self, seed: int, replica: int) -> Instance:
        """Replica r of seed s: theta_star redrawn until enough contexts satisfy the slack."""
        key = make_key(seed, replica)
        rejecting = self.slack_by == "reject"
        rate = self.arrival_rate + self.slack
        least = math.log(rate / (1.0 - rate)) if rejecting else -math.inf
        theta_star = np.empty((self.servers, self.dimension))
        best = 0.0
        for redraw in range(MOST_REDRAWS + 1):
            for k in range(self.servers):
                fill_cube(key, THETA, redraw, k, theta_star[k])
            acceptance = (
                acceptance_share(theta_star, probes(seed, self.dimension), least)
                if rejecting
                else 1.0
            )
            if acceptance >= LEAST_ACCEPTANCE:
                return Instance(self.problem(theta_star, least), redraw, acceptance)
            best = max(best, acceptance)
        raise HeadwayError(
            f"slack {self.slack:g} at arrival rate {self.arrival_rate:g} is out of reach: of "
            f"{MOST_REDRAWS} drawn parameters the best satisfied it on {best:.2%} of contexts "
            f"({LEAST_ACCEPTANCE:.0%} needed); lower the slack or raise servers or dimension"
        )

    def problem(self, theta_star: Floats, least_logit: float) -> Problem:
        """The problem with this theta_star."""
        scale = 1.0 / math.sqrt(self.dimension) if self.unit_norm else 1.0
        return Problem(
            kind=CUBE,
            theta_star=theta_star / scale,
            arrival_rate=float(self.arrival_rate),
            least_logit=least_logit,
            scale=scale,
            contexts=np.empty((0, self.dimension)),
            arrivals=np.empty(0, np.bool_),
            service=np.empty(0),
        )

    def tape(self, *, rounds: int, seed: int = 0, replica: int = 0) -> Tape:
        """The same problem as explicit arrays: for another implementation, or to look at."""
        problem = self.instance(seed, replica).problem
        key = make_key(seed, replica)
        arrivals = np.array([arrives(problem, key, t) for t in range(1, rounds + 1)], np.bool_)
        contexts = np.empty((int(arrivals.sum()), self.dimension))
        for number in range(contexts.shape[0]):
            draw_context(problem, key, number, contexts[number])
        return Tape(
            theta_star=problem.theta_star,
            contexts=contexts,
            arrivals=arrivals,
            service=np.array([uniform(key, SERVICE, t, 0) for t in range(1, rounds + 1)]),
            norm_bound=self.norm_bound,
            arrival_rate=self.arrival_rate,
            slack=self.situation().slack,
        )


@functools.lru_cache(maxsize=4)
def probes(seed: int, dimension: int) -> Floats:
    """Contexts on which every theta_star of this seed is tried, one to a column."""
    key = make_key(seed)
    drawn = np.empty((PROBES, dimension))
    fill_probes(key, drawn)
    return np.ascontiguousarray(drawn.T)


@compiled
def fill_probes(key, drawn):
    """Unif(-1, 1) rows by number."""
    for i in range(drawn.shape[0]):
        fill_cube(key, PROBE, i, 0, drawn[i])


@compiled
def acceptance_share(theta_star, columns, least_logit):
    """The share of contexts with max_k x . theta_star_k >= least_logit."""
    count = columns.shape[1]
    best = np.full(count, -np.inf)
    value = np.empty(count)
    for k in range(theta_star.shape[0]):
        value[:] = 0.0
        for i in range(columns.shape[0]):
            column = columns[i]
            weight = theta_star[k, i]
            for j in range(count):
                value[j] += column[j] * weight
        for j in range(count):
            best[j] = value[j] if value[j] > best[j] else best[j]
    accepted = 0
    for j in range(count):
        accepted += 1 if best[j] >= least_logit else 0
    return accepted / count
