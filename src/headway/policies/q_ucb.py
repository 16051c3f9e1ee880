"""Q-UCB: the job that came first, the server with the best index; contexts are not looked at."""

import math

import numpy as np

from headway.choosing import first_in_or_uniform
from headway.compiled import inlined
from headway.kernel.exploration import count_free
from headway.kernel.optimism import TIE
from headway.learners import learn
from headway.policy import Policy


@inlined
def choose(params, model, clock, queue, key):
    """Success share + sqrt(ln(t)^2 / (2 T_k)); a server never tried comes before all."""
    job, explored, rate = first_in_or_uniform(clock, queue, key)
    log = math.log(clock.round[0])
    best = -1
    top = 0.0
    for k in range(queue.free.shape[0]):
        index = np.inf
        if model.updates[k] > 0:
            index = model.successes[k] / model.updates[k]
            index += math.sqrt(log * log / (2.0 * model.updates[k]))
        if queue.free[k] and (best < 0 or index > top + TIE):
            best = k
            top = index
    server = explored if explored >= 0 else best
    clock.propensity[0] = rate / count_free(queue.free)
    if server == best:
        clock.propensity[0] += 1.0 - rate
    return job, server


policy = Policy(
    "q-ucb",
    choose,
    learn,
    about="first in, first served; servers by an upper bound that ignores contexts",
    source="Appendix A; Algorithm 1 of Krishnasamy et al. 2021",
)
