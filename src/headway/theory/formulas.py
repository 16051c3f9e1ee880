"""What the paper's bounds rest on: its assumptions, its radius, burn-in and the two factors of
its decomposition.

A name `log_...` takes ln(T) and returns the natural logarithm of a value, so that a horizon of
10^1000 rounds overflows nothing. Numbers of lemmas and equations are those that the paper's LaTeX
source compiles to; Theorem 1 is its Theorem 5.5 and Theorem 2 its Theorem 6.3.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.errors import HeadwayError
from headway.rules import BURN_IN_CONSTANT
from headway.state import Floats

LARGEST = 709.0  # e^LARGEST is still a number
MOST_ROUNDS = 10**7  # of a sequence that is written out
LEFT_BEHIND = 2.0  # the paper's a: jobs that a bad round may leave behind (proof of Lemma 5.4)

CONSTANTS = ("c_1", "c_2", "c_3", "constant")  # that the paper does not give

Logs = Any  # a float or an array of them, for numpy


@dataclass(frozen=True, kw_only=True)
class Premises:
    """What the bounds take as given: a world that keeps Assumptions 1-4, and the constants.

    `least_moment` is sigma_0^2, the least eigenvalue of E[x x'] (Assumption 3; Theorem 1 only).
    `explore_prob` None means T^-1/2 and `failure_prob` None T^-2, both as in Theorem 1. The paper
    does not give `c_1`, `c_2`, `c_3` (Lemma 5.2) and the `constant` hidden in the O(.) of its
    theorems: they are 1 unless given. `burn_in_constant` is the C of its experiments.
    """

    servers: int
    dimension: int
    arrival_rate: float
    slack: float
    norm_bound: float
    least_moment: float
    kappa: float = 10.0
    ridge: float = 1.0
    explore_prob: float | None = None
    failure_prob: float | None = None
    c_1: float = 1.0
    c_2: float = 1.0
    c_3: float = 1.0
    constant: float = 1.0
    burn_in_constant: float = BURN_IN_CONSTANT

    def __post_init__(self) -> None:
        for name in ("servers", "dimension"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise HeadwayError(f"{name} {value!r} must be a whole number of at least 1")
        for name in ("norm_bound", "kappa", "ridge", "burn_in_constant", *CONSTANTS):
            number(name, getattr(self, name), 0.0, math.inf)
        number("arrival_rate", self.arrival_rate, 0.0, 1.0)
        number("slack", self.slack, 0.0, 1.0)
        if self.arrival_rate + self.slack > 1.0:
            raise HeadwayError(
                f"slack {self.slack:g} at arrival rate {self.arrival_rate:g} asks for a success "
                f"rate of {self.arrival_rate + self.slack:g}: lower either"
            )
        if not 0.0 <= self.least_moment <= 1.0:  # |x| <= 1, so its trace is at most 1
            raise HeadwayError(
                f"least_moment {self.least_moment!r} must be in [0, 1]: contexts lie in the unit "
                "ball (Assumption 1)"
            )
        for name in ("explore_prob", "failure_prob"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), 0.0, 1.0)

    @property
    def kappa_needed(self) -> float:
        """The least kappa of Assumption 2: 1 / mu'(S), as |x| <= 1."""
        try:
            return 2.0 + 2.0 * math.cosh(self.norm_bound)
        except OverflowError:
            return math.inf


def number(name: str, value: float, above: float, most: float) -> None:
    """Refuse what is not a finite number above one bound and up to the other."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or not above < value <= most:
        limit = f"above {above:g}" + (f" and at most {most:g}" if math.isfinite(most) else "")
        raise HeadwayError(f"{name} {value!r} must be a finite number {limit}")


def log_of(rounds: float) -> float:
    """ln(T), refusing what is no horizon."""
    if not (isinstance(rounds, int | float | np.integer) and rounds >= 2):
        raise HeadwayError(f"rounds {rounds!r} must be a number of at least 2")
    return math.log(rounds)


def added(*logs: float) -> float:
    """ln(sum of e^log)."""
    return float(np.logaddexp.reduce(logs))


def log_or_never(value: float) -> float:
    """ln(value), -inf for 0."""
    return math.log(value) if value > 0.0 else -math.inf


def value_of(log_value: float) -> float:
    """e^log, infinity beyond floating point."""
    return math.exp(log_value) if log_value < LARGEST else math.inf


def values(logs: Logs) -> Logs:
    """e^log of each, the largest number where it is beyond floating point."""
    return np.exp(np.minimum(logs, LARGEST))


# Settings that follow the horizon.


def log_failure(premises: Premises, log_rounds: float) -> float:
    """ln(delta): T^-2 unless given."""
    if premises.failure_prob is None:
        return -2.0 * log_rounds
    return math.log(premises.failure_prob)


def log_explore(premises: Premises, log_rounds: float) -> float:
    """Log of the exploration probability: T^-1/2 unless given (Algorithm 1)."""
    if premises.explore_prob is None:
        return -0.5 * log_rounds
    return math.log(premises.explore_prob)


def margin(premises: Premises, log_rounds: float) -> float:
    """What exploration leaves of the slack: slack - 2 explore_prob."""
    return premises.slack - 2.0 * math.exp(log_explore(premises, log_rounds))


# Estimation: section 5 and its appendix C.


def log_radius(premises: Premises, log_rounds: float, log_count: float | None = None) -> float:
    """ln(beta_T), eq. (1); ln(beta_{t,k}) for a server's own count of updates."""
    d, ridge, kappa = premises.dimension, premises.ridge, premises.kappa
    count = log_rounds if log_count is None else log_count
    growth = 2.0 * d * added(0.0, count - math.log(kappa) - math.log(ridge) - math.log(d))
    union = math.log(premises.servers) - log_failure(premises, log_rounds)
    inner = math.sqrt(growth + union) + premises.norm_bound * math.sqrt(ridge)
    return math.log(kappa / 2.0) + math.log(inner)


def radius(premises: Premises, rounds: float, count: float | None = None) -> float:
    """beta_T, eq. (1); beta_{t,k} where a server's count of updates is given."""
    own = None if count is None else log_or_never(count)
    return value_of(log_radius(premises, log_of(rounds), own))


def needed_samples(premises: Premises, least: float, rounds: float) -> float:
    """How many i.i.d. contexts make the least eigenvalue of their sum `least`, with probability
    1 - failure_prob / servers: eq. (5), in the proof of Lemma 5.2.
    """
    if premises.least_moment == 0.0:
        return math.inf
    union = math.log(premises.servers) - log_failure(premises, log_of(rounds))
    spread = premises.c_1 * math.sqrt(premises.dimension) + premises.c_2 * math.sqrt(union)
    return (spread / premises.least_moment) ** 2 + 2.0 * least / premises.least_moment


def log_burn_in(premises: Premises, log_rounds: float) -> float:
    """ln(tau) of Theorem 1, eq. (2); infinite where the slack is at most 2 explore_prob."""
    left, moment = margin(premises, log_rounds), premises.least_moment
    if left <= 0.0 or moment == 0.0:
        return math.inf
    rate = premises.arrival_rate
    log_inverse = -log_failure(premises, log_rounds)
    union = premises.dimension + math.log(premises.servers) + log_inverse
    by_server = added(
        math.log(union) - 2.0 * math.log(moment),
        math.log(16.0) + 2.0 * log_radius(premises, log_rounds)
        - math.log(moment) - 2.0 * math.log(left),
    )  # fmt: skip
    return added(
        math.log(2.0 * premises.c_3 * premises.servers / rate) + by_server,
        math.log(log_inverse / (2.0 * rate**2)),
    )


def burn_in(premises: Premises, rounds: float) -> float:
    """The tau of Theorem 1, eq. (2)."""
    return value_of(log_burn_in(premises, log_of(rounds)))


def log_experiment_burn_in(premises: Premises, log_rounds: float) -> float:
    """ln(tau) of the experiments (section 7): C d^3 ln(T) K / (arrival_rate margin^2)."""
    left = margin(premises, log_rounds)
    if left <= 0.0:
        return math.inf
    size = premises.dimension**3 * premises.servers / premises.arrival_rate
    return math.log(premises.burn_in_constant * size) + math.log(log_rounds) - 2.0 * math.log(left)


def experiment_burn_in(premises: Premises, rounds: float) -> float:
    """The tau of the experiments (section 7), neither rounded nor capped."""
    return value_of(log_experiment_burn_in(premises, log_of(rounds)))


def explored_growth(premises: Premises, since: float, explore_prob: float) -> float:
    """By how much lambda_min(V) has grown `since` rounds after the burn-in, Lemma C.2."""
    explored = premises.arrival_rate * explore_prob * since / premises.servers
    return explored * premises.least_moment / 4.0


def log_growth_failure(premises: Premises, log_since: Logs, log_coin: float) -> Logs:
    """Log of how often Lemma C.2 may fail for one server in one round, e^`log_since` rounds after
    the burn-in with a coin of e^`log_coin`; above 0 it says nothing.
    """
    explored = log_since + log_coin + math.log(premises.arrival_rate / premises.servers)
    moment = log_or_never(premises.least_moment)
    return np.logaddexp(
        -values(explored - math.log(8.0)),
        math.log(premises.dimension) - values(explored + moment - math.log(16.0)),
    )


def log_uncertainty(premises: Premises, log_since: Logs, log_coin: float) -> Logs:
    """ln(nu), e^`log_since` = t - tau rounds after the burn-in (Lemma 5.3): what the squared
    uncertainty is at most, on average. V_0 = ridge I there, without kappa.
    """
    rate = premises.arrival_rate / (4.0 * premises.servers)
    grown = log_since + log_coin + math.log(rate) + log_or_never(premises.least_moment)
    log_ridge = math.log(premises.ridge)
    failing = log_growth_failure(premises, log_since, log_coin) - log_ridge
    return np.logaddexp(-np.logaddexp(log_ridge, grown), failing)


# The two factors of the decomposition R_T <= sum of m_t delta_t (Lemma 4.2).


def sequence_rounds(rounds: int) -> Floats:
    """Rounds 1..T-1, refusing what is too long to write out."""
    if not 2 <= rounds <= MOST_ROUNDS:
        raise HeadwayError(f"rounds {rounds!r} must be in 2..{MOST_ROUNDS} to write out each round")
    return np.arange(1.0, rounds)


def log_rate_gap(premises: Premises, log_since: Logs, log_rounds: float) -> Logs:
    """ln(M_t), t = tau + 1 + e^`log_since`: the most that the departure rate lacks, root mean
    square (app. E.1).
    """
    coin = log_explore(premises, log_rounds)
    estimated = math.log(4.0) + 2.0 * log_radius(premises, log_rounds)
    estimated += log_uncertainty(premises, log_since, coin)
    squared = np.logaddexp(math.log(premises.arrival_rate) + coin, estimated)
    return np.minimum(0.0, np.logaddexp(log_root_failure(premises, log_rounds), 0.5 * squared))


def log_long_term(premises: Premises, left: Logs, log_rounds: float) -> Logs:
    """ln(Delta_t), `left` = T - t - 1 - omega: how much of a lost departure is left at T (app. E.1,
    where the exponent has /64; the sketch in section 5 has /16).
    """
    spread = 0.5 * math.log(2.0 * tail_constant(premises))
    fading = spread - premises.slack**2 / 64.0 * left
    return np.minimum(0.0, np.logaddexp(log_root_failure(premises, log_rounds), fading))


def rate_gap_bounds(premises: Premises, rounds: int, burn_in_rounds: float | None = None) -> Floats:
    """M_t for t = 1..T-1; 1 up to the burn-in, which is the theorem's unless given."""
    t = sequence_rounds(rounds)
    tau = math.ceil(min(used_burn_in(premises, rounds, burn_in_rounds), rounds))
    found = np.ones(t.size)
    since = t[tau:] - tau - 1.0
    logs = np.full(since.size, -math.inf)
    np.log(since, out=logs, where=since > 0.0)
    found[tau:] = np.exp(log_rate_gap(premises, logs, log_of(rounds)))
    return found


def long_term_bounds(
    premises: Premises, rounds: int, burn_in_rounds: float | None = None
) -> Floats:
    """Delta_t for t = 1..T-1; 1 in the last omega = 4 tau / slack rounds."""
    t = sequence_rounds(rounds)
    tau = used_burn_in(premises, rounds, burn_in_rounds)
    left = rounds - t - 1.0 - 2.0 * LEFT_BEHIND * tau / premises.slack
    found = np.ones(t.size)
    early = left >= 0.0
    found[early] = np.exp(log_long_term(premises, left[early], log_of(rounds)))
    return found


def used_burn_in(premises: Premises, rounds: int, given: float | None) -> float:
    """The burn-in given, or the theorem's."""
    return burn_in(premises, rounds) if given is None else given


def log_root_failure(premises: Premises, log_rounds: float) -> float:
    """ln(sqrt(3 delta)): what the failure of the good event adds to M_t and Delta_t."""
    return 0.5 * (math.log(3.0) + log_failure(premises, log_rounds))


def tail_constant(premises: Premises) -> float:
    """C_rho = 1 + 16 / slack^2 of a queue that starts empty (Lemma 5.4, Remark C.7)."""
    return 1.0 + 16.0 / premises.slack**2
