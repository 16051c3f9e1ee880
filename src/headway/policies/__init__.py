"""The built-in policies: one file each, and the one table of them."""

from headway.compiled import inlined
from headway.policies import (
    acqb,
    clairvoyant,
    cqb_eps,
    cqb_eps_opt,
    cqb_eta_2,
    cqb_opt,
    cqb_ts,
    headway,
    optimal,
    q_ths,
    q_ucb,
    uniform,
)

# A policy's place here is `params.policy` in compiled loops; `choose` below reads in step with it,
# and a test holds the two together.
POLICIES = {
    each.name: each
    for each in (
        cqb_opt.policy, cqb_eps.policy, cqb_eps_opt.policy, cqb_eta_2.policy, cqb_ts.policy,
        acqb.policy, q_ucb.policy, q_ths.policy, uniform.policy, optimal.policy,
        headway.policy, clairvoyant.policy,
    )
}  # fmt: skip


@inlined
def choose(params, model, clock, queue, key):
    """The choice of the built-in policy that params names."""
    code = params.policy
    if code == 0:
        return cqb_opt.choose(params, model, clock, queue, key)
    if code == 1:
        return cqb_eps.choose(params, model, clock, queue, key)
    if code == 2:
        return cqb_eps_opt.choose(params, model, clock, queue, key)
    if code == 3:
        return cqb_eta_2.choose(params, model, clock, queue, key)
    if code == 4:
        return cqb_ts.choose(params, model, clock, queue, key)
    if code == 5:
        return acqb.choose(params, model, clock, queue, key)
    if code == 6:
        return q_ucb.choose(params, model, clock, queue, key)
    if code == 7:
        return q_ths.choose(params, model, clock, queue, key)
    if code == 8:
        return uniform.choose(params, model, clock, queue, key)
    if code == 9:
        return optimal.choose(params, model, clock, queue, key)
    if code == 10:
        return headway.choose(params, model, clock, queue, key)
    return clairvoyant.choose(params, model, clock, queue, key)
