"""CQB-eps: pure exploration, then rare exploration of new jobs, else optimism (Algorithm 1)."""

from headway.choosing import burn_in_pair, optimistic_or_new
from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy
from headway.rules import BURN_IN_CONSTANT, MEMORY, burn_in, root_of_horizon, stated_slack


@inlined
def choose(params, model, clock, queue, key):
    """Algorithm 1, lines 3-10. A round after an arrival may explore the job that arrived."""
    if queue.newest[0] >= 0 and clock.round[0] <= params.burn_in_rounds:
        return burn_in_pair(clock, queue)
    return optimistic_or_new(params, model, clock, queue, key, params.explore_prob)


policy = Policy(
    "cqb-eps",
    choose,
    learn,
    learners=("likelihood", "paper", "laplace"),
    defaults={
        **MEMORY,
        "explore_prob": root_of_horizon,
        "assumed_slack": stated_slack,
        "burn_in_constant": BURN_IN_CONSTANT,
        "burn_in_rounds": burn_in,
    },
    about="explores new jobs in a burn-in and rarely after it, else optimistic",
    source="Algorithm 1",
)
