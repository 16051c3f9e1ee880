"""Scenarios: distributions over problems. Replica r of seed s is always the same problem."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headway.errors import HeadwayError, unknown
from headway.policy import Situation
from headway.rng import THETA, fill_cube, make_key
from headway.settings import MOST_REPLICAS, as_number, whole_number
from headway.state import Floats
from headway.world.problem import (
    ADAPTIVE,
    BALL,
    BERNOULLI,
    BURSTY,
    CUBE,
    FINITE,
    GAUSSIAN,
    PERIODIC,
    ROTATING,
    SURPRISE,
    Instance,
    Problem,
)
from headway.world.slack import least_acceptance
from headway.world.tape import Tape, written_out

LEAST_ACCEPTANCE = 0.01
MOST_REDRAWS = 1_000
SLACK_BY = ("reject", "none")
MOST_NUMBERS = 10**8  # in the matrices of all servers
CONTEXTS = {
    "cube": CUBE,
    "ball": BALL,
    "gaussian": GAUSSIAN,
    "finite": FINITE,
    "fixed": FINITE,
    "rotating": ROTATING,
    "late-surprise": SURPRISE,
    "adaptive": ADAPTIVE,
}
ARRIVALS = {"bernoulli": BERNOULLI, "bursty": BURSTY, "periodic": PERIODIC}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A synthetic world; by default the paper's: contexts and theta_star iid Unif(-1, 1)^d,
    Bernoulli arrivals.

    Slack (Assumption 4) by rejection: a context counts only if some server succeeds on it with
    probability arrival_rate + slack or more. `unit_norm` divides contexts by sqrt(d) and
    multiplies theta_star and its norm bound by it: every success rate stays.

    `contexts`: cube; ball (uniform, radius sqrt(d)); gaussian (standard normal, no bound); finite
    (`vectors` of them, each again and again); fixed (one vector: no contexts to tell jobs apart);
    and the adversaries rotating (a window of half of the components, moving on by one every
    `rotate_every` rounds), late-surprise (from `surprise_round` on, by default after 4/5 of the
    run, only components that were zero before), adaptive (of 8 contexts with slack the one on
    which the learner's bound is widest).

    `arrivals`: bernoulli; bursty (every `period` rounds a coin decides between two rates);
    periodic (a sine of that period). Both leave the mean by `swing` times what there is room for.

    Attempts may remember (then the paper's lemmas are void): `stickiness` s of a pair's coins, 0 =
    fresh, 1 = always the same; `pair_concentration` c: each pair's rate is drawn once from
    Beta(p c, (1-p) c), all of a job's again until one is `solvable` or more; `job_effect`: the
    deviation of a job's own effect on its logits. One of the three at a time.
    """

    servers: int = 5
    dimension: int = 5
    arrival_rate: float = 0.7
    slack: float = 0.1
    unit_norm: bool = False
    slack_by: str = "reject"
    contexts: str = "cube"
    vectors: int = 40
    rotate_every: int = 200
    surprise_round: int | None = None
    arrivals: str = "bernoulli"
    period: int = 200
    swing: float = 0.5
    stickiness: float = 0.0
    pair_concentration: float | None = None
    job_effect: float = 0.0
    solvable: float = 0.2

    def __post_init__(self) -> None:
        self.check_sizes()
        for name in ("arrival_rate", "slack", "swing", "stickiness", "job_effect", "solvable"):
            value = getattr(self, name)
            number = as_number(value)
            if number is None:
                raise HeadwayError(f"{name} {value!r} must be a number")
            object.__setattr__(self, name, number)
        if self.pair_concentration is not None:
            concentration = as_number(self.pair_concentration)
            if concentration is None:
                raise HeadwayError(
                    f"pair_concentration {self.pair_concentration!r} must be a number or None"
                )
            object.__setattr__(self, "pair_concentration", concentration)
        self.check_memory()
        if not 0.0 < self.arrival_rate <= 1.0:
            raise HeadwayError(f"arrival_rate {self.arrival_rate!r} must be in (0, 1]")
        if not (math.isfinite(self.slack) and self.slack >= 0.0):
            raise HeadwayError(f"slack {self.slack!r} must be a finite number of at least 0")
        if not 0.0 <= self.swing <= 1.0:
            raise HeadwayError(f"swing {self.swing!r} must be in [0, 1]")
        for name, known in (("slack_by", SLACK_BY), ("contexts", CONTEXTS), ("arrivals", ARRIVALS)):
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.slack_by == "reject" and self.arrival_rate + self.slack >= 1.0:
            raise HeadwayError(
                f"slack {self.slack:g} at arrival rate {self.arrival_rate:g} asks for a success "
                f"rate of {self.arrival_rate + self.slack:g}, which no server has: lower either"
            )
        if self.contexts == "gaussian" and self.unit_norm:
            raise HeadwayError("unit_norm needs contexts with a bound, and gaussian ones have none")
        if self.contexts == "late-surprise" and self.dimension < 2:
            raise HeadwayError("contexts 'late-surprise' need a dimension of at least 2")

    def check_sizes(self) -> None:
        """Refuse counts that make no sense, by name."""
        for name in ("servers", "dimension", "vectors", "rotate_every", "surprise_round", "period"):
            value = getattr(self, name)
            if value is None and name == "surprise_round":
                continue
            object.__setattr__(self, name, whole_number(name, value))
        if self.servers * self.dimension**2 > MOST_NUMBERS:
            raise HeadwayError(
                f"servers {self.servers} of dimension {self.dimension} need more than "
                f"{MOST_NUMBERS:.0e} numbers: lower either"
            )

    def check_memory(self) -> None:
        """Refuse attempts that remember in ways that make no sense."""
        for name, most in (("stickiness", 1.0), ("solvable", 0.99), ("job_effect", math.inf)):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0.0 <= value <= most):
                limit = f"in [0, {most:g}]" if most < math.inf else "finite and at least 0"
                raise HeadwayError(f"{name} {value!r} must be {limit}")
        concentration = self.pair_concentration
        if concentration is not None and not (
            math.isfinite(concentration) and concentration >= 0.0
        ):
            raise HeadwayError(
                f"pair_concentration {concentration!r} must be finite and at least 0, or None"
            )
        if (self.stickiness > 0.0) + (concentration is not None) + (self.job_effect > 0.0) > 1:
            raise HeadwayError(
                "stickiness, pair_concentration and job_effect are three ways to remember: "
                "give one at a time"
            )

    @property
    def remembers(self) -> bool:
        """Is an attempt more than a fresh coin?"""
        return self.stickiness > 0.0 or self.pair_concentration is not None or self.job_effect > 0.0

    @property
    def norm_bound(self) -> float | None:
        """The longest that a theta_star can be; nothing is promised where contexts have no bound:
        kappa and the sets rest on both.
        """
        if self.contexts == "gaussian":
            return None
        return float(self.dimension) if self.unit_norm else math.sqrt(self.dimension)

    @property
    def most_rounds(self) -> int | None:
        """No limit."""
        return None

    @property
    def adaptive(self) -> bool:
        """Do contexts depend on what the policy learned?"""
        return self.contexts == "adaptive"

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
        return {"world": "scenario", **asdict(self)}

    def instance(self, seed: int, replica: int, rounds: int | None = None) -> Instance:
        """Replica r of seed s: theta_star redrawn until enough contexts satisfy the slack."""
        seed = whole_number("seed", seed, 0, 2**64)
        key = make_key(seed, whole_number("replica", replica, 0, MOST_REPLICAS))
        surprise = self.surprise(rounds)
        theta_star = np.empty((self.servers, self.dimension))
        best = 0.0
        for redraw in range(MOST_REDRAWS + 1):
            for k in range(self.servers):
                fill_cube(key, THETA, redraw, k, theta_star[k])
            problem = self.problem(theta_star, surprise)
            acceptance = 1.0
            if self.slack_by == "reject":
                acceptance = least_acceptance(problem, self.phases(surprise), seed)
            if acceptance >= LEAST_ACCEPTANCE:
                return Instance(problem, redraw, acceptance)
            best = max(best, acceptance)
        raise HeadwayError(
            f"slack {self.slack:g} at arrival rate {self.arrival_rate:g} is out of reach: of "
            f"{MOST_REDRAWS} drawn parameters the best satisfied it on {best:.2%} of contexts "
            f"({LEAST_ACCEPTANCE:.0%} needed); lower the slack or raise servers or dimension"
        )

    def surprise(self, rounds: int | None) -> int:
        """The round of the late surprise; 0 in other worlds."""
        if self.contexts != "late-surprise":
            return 0
        if self.surprise_round is not None:
            return self.surprise_round
        if rounds is None:
            raise HeadwayError("contexts 'late-surprise' need rounds or surprise_round to be given")
        return 4 * rounds // 5 + 1

    def phases(self, surprise: int) -> tuple[int, ...]:
        """A round of each phase in which contexts are distributed alike."""
        if self.contexts == "rotating":
            return tuple(1 + self.rotate_every * i for i in range(self.dimension))
        return (surprise - 1, surprise) if surprise > 1 else (1,)

    def problem(self, theta_star: Floats, surprise: int) -> Problem:
        """The problem with this theta_star."""
        scale = 1.0 / math.sqrt(self.dimension) if self.unit_norm else 1.0
        rate = self.arrival_rate + self.slack
        rejecting = self.slack_by == "reject"
        return Problem(
            theta_star=theta_star / scale,
            contexts_by=CONTEXTS[self.contexts],
            least_logit=math.log(rate / (1.0 - rate)) if rejecting else -math.inf,
            scale=scale,
            active=(self.dimension + 1) // 2,
            turn=surprise or self.rotate_every,
            vectors=1 if self.contexts == "fixed" else self.vectors,
            arrivals_by=ARRIVALS[self.arrivals],
            arrival_rate=float(self.arrival_rate),
            swing=self.swing * min(self.arrival_rate, 1.0 - self.arrival_rate),
            period=self.period,
            stickiness=float(self.stickiness),
            concentration=math.inf
            if self.pair_concentration is None
            else float(self.pair_concentration),
            job_effect=float(self.job_effect),
            solvable=float(self.solvable),
        )

    def tape(self, *, rounds: int, seed: int = 0, replica: int = 0) -> Tape:
        """The same problem as explicit arrays: for another implementation, or to look at."""
        if self.remembers:
            raise HeadwayError("attempts that remember have no tape: it holds one coin a round")
        if self.adaptive:
            raise HeadwayError(
                "an adaptive world has no tape before a policy ran in it: "
                "simulate(..., record=True).tape(replica)"
            )
        rounds = whole_number("rounds", rounds)
        problem = self.instance(seed, replica, rounds).problem
        return written_out(problem, make_key(seed, replica), self.situation(rounds))
