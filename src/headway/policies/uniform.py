"""random: a uniform waiting job and a uniform free server, every round."""

from headway.choosing import uniform_pair
from headway.compiled import inlined
from headway.kernel.exploration import count_free
from headway.learners import learn
from headway.policy import Policy


@inlined
def choose(params, model, clock, queue, key):
    """Two draws of this round: the job's rank by arrival, and the server."""
    clock.explored[0] = True
    clock.propensity[0] = 1.0 / (queue.length[0] * count_free(queue.free))
    return uniform_pair(queue, key, clock.round[0])


policy = Policy(
    "random",
    choose,
    learn,
    about="a uniform job and a uniform server",
    source="Section 6, baseline (i)",
)
