"""CQB-TS: optimism replaced by independent draws around every estimate (appendix)."""

import numpy as np

from headway.choosing import sampled_pair
from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy


@inlined
def choose(params, model, clock, queue, key):
    """The best of N(x . theta, (beta/R)^2 |x|^2_{V^-1}) over all jobs and free servers."""
    clock.explored[0] = False
    clock.propensity[0] = np.nan
    return sampled_pair(params, model, queue, key, clock.round[0])


policy = Policy(
    "cqb-ts",
    choose,
    learn,
    learners=("paper", "laplace"),
    defaults={"slope_max": 0.25},
    about="Thompson sampling: the best of one draw for each job and server",
    source="Appendix A, baseline CQB-TS",
)
