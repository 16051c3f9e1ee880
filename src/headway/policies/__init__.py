"""The built-in policies: one file each, and the one table of them."""

from headway.compiled import inlined
from headway.policies import cqb_eps, cqb_opt, optimal, uniform

# A policy's place here is its code in compiled loops; `choose` and `learn` below read in step
# with it, and a test holds the three together.
POLICIES = {
    each.name: each for each in (cqb_opt.policy, cqb_eps.policy, uniform.policy, optimal.policy)
}


@inlined
def choose(code, params, model, clock, queue, key):
    """The choice of the policy with this code."""
    if code == 0:
        return cqb_opt.choose(params, model, clock, queue, key)
    if code == 1:
        return cqb_eps.choose(params, model, clock, queue, key)
    if code == 2:
        return uniform.choose(params, model, clock, queue, key)
    return optimal.choose(params, model, clock, queue, key)
