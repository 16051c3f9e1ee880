"""Q-ThS: the job that came first, the server with the best Beta draw; contexts do not count."""

import numpy as np

from headway.choosing import first_in_or_uniform
from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy
from headway.rng import BETA, beta


@inlined
def choose(params, model, clock, queue, key):
    """One draw of Beta(successes + 1, failures + 1) for each server."""
    job, server, _ = first_in_or_uniform(clock, queue, key)
    clock.propensity[0] = np.nan
    if server >= 0:
        return job, server
    best = -1.0
    for k in range(queue.free.shape[0]):
        if queue.free[k]:
            wins = model.successes[k]
            losses = model.updates[k] - wins
            draw = beta(key, BETA, clock.round[0], k, wins + 1.0, losses + 1.0)
            if draw > best:
                best = draw
                server = k
    return job, server


policy = Policy(
    "q-ths",
    choose,
    learn,
    about="first in, first served; servers by Thompson sampling that ignores contexts",
    source="Appendix A; Algorithm 2 of Krishnasamy et al. 2021",
)
