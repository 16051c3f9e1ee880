"""The design matrix V, its inverse, the uncertainty |x|_{V^-1}, and the paper's radius."""

import math

from headway.compiled import compiled
from headway.kernel.linear import add_outer, dot, multiply


@compiled
def confidence_radius(count, dimension, kappa, ridge, servers, failure_prob, norm_bound):
    """Beta after `count` updates of one server, eq. (beta)."""
    growth = 2.0 * dimension * math.log(1.0 + count / (kappa * ridge * dimension))
    union = math.log(servers / failure_prob)
    return 0.5 * kappa * math.sqrt(growth + union) + 0.5 * kappa * norm_bound * math.sqrt(ridge)


@compiled
def uncertainty(inverse, x):
    """|x|_{V^-1} = sqrt(x' V^-1 x)"""
    total = 0.0
    for i in range(x.shape[0]):
        along = 0.0
        for j in range(x.shape[0]):
            along += inverse[i, j] * x[j]
        total += x[i] * along
    return math.sqrt(max(total, 0.0))


@compiled
def shrink(inverse, scale, x, step):
    """V += scale x x', told to V^-1: step = V^-1 x, V^-1 -= s step step'. Returns s."""
    multiply(inverse, x, step)
    s = scale / (1.0 + scale * dot(x, step))
    add_outer(inverse, -s, step)
    return s
