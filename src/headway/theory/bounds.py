"""The paper's bounds, from the number of bad rounds to its theorems, and the horizon from which
each of them says something.
"""

import math
from collections.abc import Callable

from headway.theory.formulas import (
    LEFT_BEHIND,
    Premises,
    added,
    log_burn_in,
    log_explore,
    log_failure,
    log_growth_failure,
    log_long_term,
    log_or_never,
    log_radius,
    log_rate_gap,
    log_root_failure,
    tail_constant,
    value_of,
)

FURTHEST = 1e7  # ln(T) beyond which no horizon is looked for
STEP = 1.05  # between two horizons that are looked at before bisection

LogBound = Callable[[Premises, float], float]


# Queues: the tail bound and both thresholds.


def log_tail(premises: Premises, beyond: float) -> float:
    """Log of the bound of P(Q(t) >= 2 B(t-1) + b), b = `beyond`: C_rho e^(-eta b), Lemma C.6 with
    eta = slack / 2.
    """
    return math.log(tail_constant(premises)) - premises.slack * beyond / 2.0


def log_threshold(premises: Premises, log_rounds: float) -> float:
    """ln(omega): with fewer rounds left, a lost departure may last (Lemma 5.4)."""
    return math.log(2.0 * LEFT_BEHIND / premises.slack) + log_burn_in(premises, log_rounds)


def log_potential(premises: Premises, log_rounds: float) -> float:
    """Log of the sum of min(1, uncertainty^2) (Lemma F.1, the elliptical potential)."""
    k, d = premises.servers, premises.dimension
    grown = log_rounds - math.log(d * k) - math.log(premises.kappa) - math.log(premises.ridge)
    return math.log(2.0 * k * d) + math.log(added(0.0, grown))


def log_bad_rounds(premises: Premises, log_rounds: float) -> float:
    """Log of how many bad rounds there may be, Proposition 6.1."""
    each = math.log(4.0) + log_radius(premises, log_rounds) - math.log(premises.slack)
    return 2.0 * each + log_potential(premises, log_rounds)


def log_adversarial_threshold(premises: Premises, log_rounds: float) -> float:
    """ln(omega'), eq. (3)."""
    return math.log(2.0 * LEFT_BEHIND / premises.slack) + log_bad_rounds(premises, log_rounds)


# Theorems.


def log_rate_gap_sum(premises: Premises, log_rounds: float) -> float:
    """Log of what the sum of M_t is at most (app. E.1).

    Two factors that the paper drops are kept: 1/(1-e^-x) <= 2/x, not 1/x. Here the sums of
    geometric series are exact, and the integral gives 4 sqrt(K) where the paper has 4 K.
    """
    k = premises.servers
    explored = math.log(premises.arrival_rate) + log_explore(premises, log_rounds)
    moment = log_or_never(premises.least_moment)
    integral = math.log(4.0 * math.sqrt(k)) + 0.5 * (log_rounds - moment - explored)
    series = added(
        log_series(explored - math.log(16.0 * k)),
        0.5 * math.log(premises.dimension) + log_series(explored + moment - math.log(32.0 * k)),
    )
    root_ridge = -0.5 * math.log(premises.ridge)
    return added(
        log_burn_in(premises, log_rounds),
        log_rounds + log_root_failure(premises, log_rounds),
        log_rounds + 0.5 * explored,
        math.log(2.0) + log_radius(premises, log_rounds)
        + added(root_ridge, integral, root_ridge + series),
    )  # fmt: skip


def log_series(log_x: float) -> float:
    """ln(1 / (1 - e^-x)) from ln(x)."""
    if log_x < -30.0:
        return -log_x  # to within x/2
    return -math.log(-math.expm1(-value_of(log_x)))


def log_long_term_sum(premises: Premises, log_rounds: float) -> float:
    """Log of what the sum of Delta_t is at most (app. E.1)."""
    fading = log_series(2.0 * math.log(premises.slack) - math.log(64.0))
    return added(
        log_threshold(premises, log_rounds),
        log_rounds + log_root_failure(premises, log_rounds),
        0.5 * math.log(2.0 * tail_constant(premises)) + fading,
    )


def log_theorem_1(premises: Premises, log_rounds: float) -> float:
    """Log of Theorem 1's bound as proved: (sum M_t)(sum Delta_t) / (T - 1), app. E.1."""
    both = log_rate_gap_sum(premises, log_rounds) + log_long_term_sum(premises, log_rounds)
    return both - (log_rounds + math.log1p(-math.exp(-log_rounds)))


def log_theorem_1_order(premises: Premises, log_rounds: float) -> float:
    """Log of Theorem 1's bound as stated: `constant` times what its O(.) holds."""
    slack, twice = math.log(premises.slack), math.log(log_rounds)
    moment, d = 0.5 * log_or_never(premises.least_moment), math.log(premises.dimension)
    return math.log(premises.constant) + added(
        2.0 * d - log_rounds + 2.0 * twice - 8.0 * moment - 5.0 * slack,
        d - log_rounds / 4.0 + twice - 4.0 * moment - 3.0 * slack,
        1.5 * d - log_rounds / 4.0 + 1.5 * twice - 5.0 * moment - 3.0 * slack,
        2.0 * d - log_rounds / 2.0 + 1.5 * twice - 6.0 * moment - 3.0 * slack,
    )


def log_theorem_2(premises: Premises, log_rounds: float) -> float:
    """Log of Theorem 2's bound as proved: B_1 B_2 (app. E.2), failure_prob T for its O(1)."""
    failing = log_failure(premises, log_rounds) + log_rounds
    gaps = added(
        failing,
        math.log(4.0) + 2.0 * log_radius(premises, log_rounds)
        + log_potential(premises, log_rounds),
    )  # fmt: skip
    fading = log_series(2.0 * math.log(premises.slack) - math.log(32.0))
    lasting = added(
        failing,
        log_adversarial_threshold(premises, log_rounds),
        math.log(2.0 * tail_constant(premises)) + fading,
    )
    return 0.5 * (gaps + lasting)


def log_theorem_2_order(premises: Premises, log_rounds: float) -> float:
    """Log of Theorem 2's bound as stated: `constant` times what its O(.) holds."""
    slack, twice = math.log(premises.slack), math.log(log_rounds)
    d = math.log(premises.dimension)
    return math.log(premises.constant) + added(
        2.0 * d + 2.0 * twice - 1.5 * slack, d + twice - 2.0 * slack
    )


# The two factors at one round, for horizons of any size.


def log_last_rate_gap(premises: Premises, log_rounds: float) -> float:
    """ln(M_T): 0 while the theorem's burn-in covers the run."""
    left = log_burn_in(premises, log_rounds) - log_rounds
    if left >= 0.0:
        return 0.0
    since = log_rounds + math.log(-math.expm1(left))
    return float(log_rate_gap(premises, since, log_rounds))


def log_middle_long_term(premises: Premises, log_rounds: float) -> float:
    """ln(Delta_t) at t = T/2: 0 while half of the run is shorter than omega."""
    left = log_threshold(premises, log_rounds) - (log_rounds - math.log(2.0))
    if left >= 0.0:
        return 0.0
    rounds = value_of(log_rounds - math.log(2.0) + math.log(-math.expm1(left)))
    return float(log_long_term(premises, rounds, log_rounds))


def log_last_growth_failure(premises: Premises, log_rounds: float) -> float:
    """Log of how often Lemma C.2 may fail T rounds after the burn-in."""
    return float(log_growth_failure(premises, log_rounds, log_explore(premises, log_rounds)))


# From where on a bound says something.


def below_rounds(log_rounds: float) -> float:
    """ln(T): no queue gets longer, no more rounds are bad."""
    return log_rounds


def below_one(_: float) -> float:
    """ln(1): of a probability, or one job."""
    return 0.0


def log_horizon(
    bound: LogBound, premises: Premises, trivial: Callable[[float], float] = below_rounds
) -> float | None:
    """Log of the horizon from which on the bound lies below the trivial one; None = nowhere up to
    e^FURTHEST rounds.
    """
    grid = [math.log(2.0)]
    while grid[-1] < FURTHEST:
        grid.append(grid[-1] * STEP)
    holds = [bound(premises, each) < trivial(each) for each in grid]
    if not holds[-1]:
        return None
    if all(holds):
        return grid[0]
    last = max(i for i, each in enumerate(holds) if not each)
    low, high = grid[last], grid[last + 1]
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if bound(premises, middle) < trivial(middle):
            high = middle
        else:
            low = middle
    return high
