"""CQB-eta-2: burn-in, exploration of new jobs up to a cutoff round, then pure optimism.

A reconstruction: of Bae and Lee's paper (arXiv 2606.09668, 2026) we know the abstract only. The
three phases are its; the exploration rate, the cutoff and the constants are ours.
"""

from headway.choosing import burn_in_pair, optimistic_or_new
from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy
from headway.rules import (
    BURN_IN_CONSTANT,
    MEMORY,
    burn_in,
    cutoff_round,
    quarter_of_slack,
    stated_slack,
)


@inlined
def choose(params, model, clock, queue, key):
    """CQB-eps whose exploration ends."""
    t = clock.round[0]
    if queue.newest[0] >= 0 and t <= params.burn_in_rounds:
        return burn_in_pair(clock, queue)
    rate = params.explore_prob if t <= params.cutoff_round else 0.0
    return optimistic_or_new(params, model, clock, queue, key, rate)


policy = Policy(
    "cqb-eta-2",
    choose,
    learn,
    learners=("likelihood", "paper", "laplace"),
    defaults={
        **MEMORY,
        "assumed_slack": stated_slack,
        "explore_prob": quarter_of_slack,
        "burn_in_constant": BURN_IN_CONSTANT,
        "burn_in_rounds": burn_in,
        "cutoff": "log:50",
    },
    derived={"cutoff_round": cutoff_round},
    about="burn-in, then explores new jobs until a cutoff round, then only optimistic",
    source="reconstructed from the abstract of arXiv 2606.09668",
)
