"""optimal: knows theta_star and takes the pair with the best true success rate."""

from headway.choosing import best_known_pair
from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy


@inlined
def choose(params, model, clock, queue, key):
    """The job with the largest max_k x . theta_star_k, then the one that arrived first."""
    clock.explored[0] = False
    clock.propensity[0] = 1.0
    return best_known_pair(queue)


policy = Policy(
    "optimal",
    choose,
    learn,
    learners=("truth",),
    about="knows the true success rates, not the draws, and takes the best pair",
    source="Section 3; the yardstick of queue length regret",
)
