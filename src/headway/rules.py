"""Default settings that follow from the situation: horizon, slack, size."""

import math
from typing import Any

from headway.errors import HeadwayError
from headway.policy import Settings, Situation

BURN_IN_CONSTANT = 3e-4  # the paper's C, with the natural logarithm
LOG_CUTOFF = "log:"
# Memory of failed attempts: the settings of every policy that takes the optimistic pair.
MEMORY: dict[str, Any] = {
    "memory": "none", "penalty": 0.3, "fresh_prior": None, "half_life": None,
}  # fmt: skip
# The prior weight of fresh coins: a wide bonus asks more of early evidence.
FRESH_PRIORS = {"likelihood": 0.97}
FRESH_PRIOR = 0.9


class NoHorizon(Exception):
    """A default needs a horizon, and there is none."""


def rounds_of(situation: Situation) -> int:
    """The horizon, if there is one."""
    if situation.rounds is None:
        raise NoHorizon
    return situation.rounds


def root_of_horizon(situation: Situation, _: Settings) -> tuple[float, None]:
    """T^-1/2"""
    return rounds_of(situation) ** -0.5, None


def quarter_of_slack(_: Situation, settings: Settings) -> tuple[float, str | None]:
    """A quarter of the assumed slack: constant in T and below half the slack."""
    if settings["assumed_slack"] is None:
        return 0.025, "explore_prob 0.025: the world states no slack"
    return settings["assumed_slack"] / 4.0, None


def stated_slack(situation: Situation, _: Settings) -> tuple[float | None, None]:
    """The scenario's own; a lower bound is enough."""
    return situation.slack, None


def burn_in(situation: Situation, settings: Settings) -> tuple[int, str | None]:
    """Tau = ceil(C d^3 ln(T) K / arrival_rate / (slack - 2 explore_prob)^2), capped at T."""
    rounds = rounds_of(situation)
    slack = settings["assumed_slack"]
    if slack is None or situation.arrival_rate is None:
        missing = "slack" if slack is None else "arrival rate"
        return rounds // 10, f"burn_in_rounds {rounds // 10} = T/10: the world states no {missing}"
    margin = slack - 2.0 * settings["explore_prob"]
    if margin <= 0.0:
        return rounds // 10, (
            f"burn_in_rounds {rounds // 10} = T/10: the formula needs assumed_slack {slack:g} > "
            f"2 explore_prob = {2.0 * settings['explore_prob']:.3g}"
        )
    size = (
        settings["burn_in_constant"] * situation.dimension**3 * math.log(rounds) * situation.servers
    )
    wanted = size / situation.arrival_rate / margin / margin
    if not wanted < rounds:
        asked = math.ceil(min(wanted, 1e15))
        return rounds, f"burn-in covers all {rounds} rounds (the formula asks for {asked})"
    return math.ceil(wanted), None


def cutoff_round(situation: Situation, settings: Settings) -> tuple[int, str | None]:
    """The last round of CQB-eta-2 that may explore: `cutoff` itself, T - c ln(T) for "log:c", or
    T - 4 tau / slack - 64 ln(T) / slack^2 for "theory"; never before the end of the burn-in.
    """
    cutoff = settings["cutoff"]
    if not isinstance(cutoff, str):
        return int(cutoff), None
    rounds = rounds_of(situation)
    least = int(settings["burn_in_rounds"])
    wanted = float(rounds)
    if cutoff == "theory":
        slack = settings["assumed_slack"]
        if not slack:
            raise HeadwayError("cutoff 'theory' needs assumed_slack: give it, or another cutoff")
        wanted -= 4.0 * least / slack + math.ceil(64.0 / slack**2 * math.log(rounds))
    else:
        wanted -= float(cutoff.removeprefix(LOG_CUTOFF)) * math.log(rounds)
    if wanted <= least:
        return least, (
            f"cutoff {cutoff!r} asks for round {math.floor(max(wanted, -1e15))} of {rounds}: "
            f"nothing is explored after the burn-in of {least}"
        )
    return math.floor(wanted), None


def is_cutoff(value: Any) -> bool:  # noqa: ANN401 - it is what is being checked
    """A round, "theory", or "log:c"."""
    if isinstance(value, str):
        if value == "theory":
            return True
        try:
            factor = float(value.removeprefix(LOG_CUTOFF))
        except ValueError:
            return False
        return value.startswith(LOG_CUTOFF) and 0.0 <= factor < 1e15
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
