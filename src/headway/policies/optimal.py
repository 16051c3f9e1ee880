"""optimal: knows theta_star and takes the pair with the best true success rate."""

import numpy as np

from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy


@inlined
def choose(params, model, clock, queue, key):
    """The job with the largest max_k x . theta_star_k, then the one that arrived first.

    That number is fixed when the job arrives and compared exactly: a total order on jobs, which
    the coupling lemma needs. (With some servers busy, the maximum is over the free ones.)
    """
    job = 0
    server = 0
    best = -np.inf
    for j in range(queue.length[0]):
        for k in range(queue.free.shape[0]):
            value = queue.mean[j, k]
            if queue.free[k] and (
                value > best or (value == best and queue.arrival[j] < queue.arrival[job])
            ):
                best = value
                job = j
                server = k
    clock.explored[0] = False
    clock.propensity[0] = 1.0
    return job, server


policy = Policy(
    "optimal",
    choose,
    learn,
    learners=("truth",),
    about="knows the true success rates and takes the best pair",
    source="Section 3; the yardstick of queue length regret",
)
