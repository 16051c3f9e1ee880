"""CQB-eps-Opt: optimistic, but in any round anything with probability T^-1/2 (appendix)."""

from headway.choosing import optimistic_pair, uniform_pair
from headway.compiled import inlined
from headway.kernel.exploration import count_free
from headway.learners import learn
from headway.policy import Policy
from headway.rng import EXPLORE, uniform
from headway.rules import MEMORY, root_of_horizon


@inlined
def choose(params, model, clock, queue, key):
    """The optimistic pair, or a uniform one by this round's coin."""
    t = clock.round[0]
    pair = optimistic_pair(params, model, queue)
    best = pair
    clock.explored[0] = uniform(key, EXPLORE, t, 0) < params.explore_prob
    if clock.explored[0]:
        pair = uniform_pair(queue, key, t)
    clock.propensity[0] = params.explore_prob / (queue.length[0] * count_free(queue.free))
    if pair[0] == best[0] and pair[1] == best[1]:
        clock.propensity[0] += 1.0 - params.explore_prob
    return pair


policy = Policy(
    "cqb-eps-opt",
    choose,
    learn,
    learners=("likelihood", "paper", "laplace"),
    defaults={"explore_prob": root_of_horizon, **MEMORY},
    about="optimistic, and in any round a uniform pair with a small probability",
    source="Appendix A, baseline CQB-eps-Opt",
)
