"""CQB-Opt: always the optimistic pair (Algorithm 2)."""

from headway.choosing import optimistic_pair
from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy
from headway.rules import MEMORY


@inlined
def choose(params, model, clock, queue, key):
    """The (job, server) with the best upper bound."""
    clock.explored[0] = False
    clock.propensity[0] = 1.0
    return optimistic_pair(params, model, queue)


policy = Policy(
    "cqb-opt",
    choose,
    learn,
    learners=("likelihood", "paper", "laplace"),
    defaults=MEMORY,
    about="always the pair with the best upper bound",
    source="Algorithm 2",
)
