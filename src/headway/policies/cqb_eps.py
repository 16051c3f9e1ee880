"""CQB-eps: pure exploration, then rare exploration of new jobs, else optimism (Algorithm 1)."""

import math

from headway.compiled import inlined
from headway.kernel.exploration import count_free, next_free, uniform_free
from headway.learners import learn, optimistic_pair
from headway.policy import Policy, Settings, Situation
from headway.rng import EXPLORE, SERVER, uniform

BURN_IN_CONSTANT = 3e-4  # the paper's C; it takes the natural logarithm


@inlined
def choose(params, model, clock, queue, key):
    """Algorithm 1, lines 3-10. A round after an arrival may explore the job that arrived."""
    t = clock.round[0]
    newest = queue.newest[0]
    clock.explored[0] = False
    clock.propensity[0] = 1.0
    if newest < 0:
        return optimistic_pair(params, model, queue)
    if t <= params.burn_in_rounds:
        server = next_free(queue.free, clock.next_server[0])
        clock.next_server[0] = (server + 1) % queue.free.shape[0]
        clock.explored[0] = True
        return newest, server
    job, server = optimistic_pair(params, model, queue)
    best = (job, server)
    if uniform(key, EXPLORE, t - 1, 0) < params.explore_prob:  # E(t-1): the previous round's coin
        job = newest
        server = uniform_free(queue.free, uniform(key, SERVER, t, 0))
        clock.explored[0] = True
    share = params.explore_prob / count_free(queue.free)
    clock.propensity[0] = share if job == newest else 0.0
    if job == best[0] and server == best[1]:
        clock.propensity[0] += 1.0 - params.explore_prob
    return job, server


def default_explore_prob(situation: Situation, _: Settings) -> tuple[float, None]:
    """T^-1/2"""
    assert situation.rounds is not None
    return situation.rounds**-0.5, None


def default_slack(situation: Situation, _: Settings) -> tuple[float | None, None]:
    """The scenario's own; a lower bound is enough."""
    return situation.slack, None


def default_burn_in(situation: Situation, settings: Settings) -> tuple[int, str | None]:
    """Tau = ceil(C d^3 ln(T) K / arrival_rate / (slack - 2 explore_prob)^2), capped at T."""
    rounds = situation.rounds
    assert rounds is not None
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
    size = BURN_IN_CONSTANT * situation.dimension**3 * math.log(rounds) * situation.servers
    wanted = size / situation.arrival_rate / margin / margin
    if not wanted < rounds:
        asked = math.ceil(min(wanted, 1e15))
        return rounds, f"burn-in covers all {rounds} rounds (the formula asks for {asked})"
    return math.ceil(wanted), None


policy = Policy(
    "cqb-eps",
    choose,
    learn,
    learners=("likelihood", "paper"),
    defaults={
        "explore_prob": default_explore_prob,
        "assumed_slack": default_slack,
        "burn_in_rounds": default_burn_in,
    },
    about="explores new jobs in a burn-in and rarely after it, else optimistic",
    source="Algorithm 1",
)
