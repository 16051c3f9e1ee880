"""ACQB: Thompson sampling by server, new jobs forced anywhere ever more rarely. Needs no horizon.

A reconstruction: of Bae, Son and Lee's paper (arXiv 2602.02061, 2026) we know the abstracts only.
Thompson sampling, forced exploration and its rate t^-1/2 are theirs; the constants are ours.
"""

import math

import numpy as np

from headway.choosing import sampled_parameters_pair
from headway.compiled import inlined
from headway.kernel.exploration import uniform_free
from headway.learners import learn
from headway.policy import Policy
from headway.rng import EXPLORE, SERVER, uniform


@inlined
def choose(params, model, clock, queue, key):
    """After an arrival, with probability min(1, c t^-1/2), the new job at a uniform server."""
    t = clock.round[0]
    clock.propensity[0] = np.nan
    coin = uniform(key, EXPLORE, t - 1, 0)
    clock.explored[0] = queue.newest[0] >= 0 and coin < params.forced_rate / math.sqrt(t)
    if clock.explored[0]:
        return queue.newest[0], uniform_free(queue.free, uniform(key, SERVER, t, 0))
    return sampled_parameters_pair(params, model, queue, key, t)


policy = Policy(
    "acqb",
    choose,
    learn,
    learners=("laplace", "paper"),
    defaults={"forced_rate": 1.0, "slope_max": 0.25},
    about="Thompson sampling by server, with ever rarer forced exploration; anytime",
    source="reconstructed from the abstracts of arXiv 2602.02061",
)
