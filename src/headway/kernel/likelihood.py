"""The likelihood-ratio confidence set: valid at all times at once, no tuning, O(d^2) a round.

A forecaster (a Gauss-Hermite mixture around an extended Kalman filter) bets on every outcome; the
ratio of its likelihood to theta_star's is a martingale, so by Ville's inequality theta_star's log
loss never exceeds the forecaster's by more than log(1/failure_prob), up to that probability. Each
log loss is bounded below by a quadratic that is exact where theta_star can still be. The sum of
those quadratics is an ellipsoid: centre, inverse matrix and squared radius are the whole state.

Conditions: |theta_star| <= norm_bound, one theta_star a server, every outcome used exactly once
in the order in which the jobs were sent to that server.
"""

import math

import numpy as np

from headway.compiled import compiled
from headway.kernel.laplace import filter_step
from headway.kernel.linear import add_outer, dot, multiply, norm
from headway.kernel.logistic import loop_sigmoid, sigmoid, sigmoid_slope, softplus

# Gauss-Hermite rule for the standard normal. It *is* the forecaster: no integral is approximated.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
LOOP_REACH = 36.0  # up to here loop_sigmoid is good to 3e-13, relatively, in both tails
# The recursion runs at this level or lower; a set asked for at a higher level is only smaller.
CHAIN_FAILURE_PROB = 1e-12
# Overstating a curvature is the unsafe direction: give away more than rounding could add.
CURVATURE_MARGIN = 1.0 - 1e-9


@compiled
def chain_failure_prob(servers, failure_prob):
    """The level at which one server's recursion runs."""
    return min(CHAIN_FAILURE_PROB, failure_prob / servers)


@compiled
def prior_precision(dimension, norm_bound):
    """D / S^2: minimises the price of the prior; nothing to tune."""
    return dimension / (norm_bound * norm_bound)


@compiled
def initial_squared_radius(dimension, servers, failure_prob, norm_bound):
    """rho^2 before any outcome."""
    level = chain_failure_prob(servers, failure_prob)
    precision = prior_precision(dimension, norm_bound)
    return 2.0 * math.log(1.0 / level) + precision * norm_bound * norm_bound


@compiled
def queried_radius(squared_radius, servers, failure_prob):
    """Rho of the set at failure_prob / servers, from the chain's rho^2."""
    level = chain_failure_prob(servers, failure_prob)
    return math.sqrt(max(squared_radius + 2.0 * math.log(level * servers / failure_prob), 0.0))


@compiled
def log_forecast(mean, deviation, reach, outcome):
    """Log of the mixture's probability of the outcome: never 1 - p, never log 0.

    The logits of the nodes are clipped to +-reach, which is what the norm bound allows.
    """
    count = NODES.shape[0]
    sign = 1.0 if outcome else -1.0
    z = np.empty(count)
    for i in range(count):
        node = mean + deviation * NODES[i]
        node = -reach if node < -reach else node
        z[i] = sign * (reach if node > reach else node)
    if reach > LOOP_REACH:
        return log_mixture(z)
    for i in range(count):
        z[i] = WEIGHTS[i] * loop_sigmoid(z[i])
    total = 0.0
    for i in range(count):
        total += z[i]
    return math.log(total)


@compiled
def log_mixture(z):
    """Log sum_i w_i mu(z_i) by log-sum-exp, for logits of any size."""
    top = min(z.max(), 0.0)
    total = 0.0
    for i in range(z.shape[0]):
        total += WEIGHTS[i] * math.exp(min(z[i], 0.0) - top) / (1.0 + math.exp(-abs(z[i])))
    return top + math.log(total)


@compiled
def chord_curvature(z, u):
    """h(z, u) = [softplus(z + u) - softplus(z) - mu(z) u] / u^2, never overstated.

    The plain difference cancels, upwards; this form was checked against 60 digits. u may have any
    size: where e^-u overflows, the same expression is written in e^u.
    """
    if z < 0.0:
        z = -z
        u = -u
    if abs(u) < 1e-3:
        return 0.5 * sigmoid_slope(max(z, abs(z + u)))
    q = sigmoid(-z)
    if u > -700.0:
        return (math.log1p(q * math.expm1(-u)) + q * u) / (u * u)
    if -u <= z + 1.0:
        return 0.0
    return (math.log(q + (1.0 - q) * math.exp(u)) - (1.0 - q) * u) / (u * u)


@compiled
def minorant_curvature(z, low, high):
    """The largest c with softplus >= tangent at z + c (. - z)^2 on [low, high].

    h(z, .) is unimodal, so its minimum over the interval is at an end.
    """
    c = min(chord_curvature(z, low - z), chord_curvature(z, high - z))
    return max(c * CURVATURE_MARGIN, 0.0)


@compiled
def ball_interval(x, centre, inverse, squared_radius, norm_bound, push):
    """Where x . theta_star can be: the ellipsoid and the ball. push = inverse x."""
    multiply(inverse, x, push)
    middle = dot(x, centre)
    half = math.sqrt(max(squared_radius * dot(x, push), 0.0))
    reach = norm_bound * norm(x)
    return max(middle - half, -reach), min(middle + half, reach)


@compiled
def set_step(
    x, outcome, norm_bound, centre, inverse, mean, covariance, squared_radius, failed, step
):
    """Learn one outcome of one server. Returns rho^2, whether the event failed, and the scale.

    `inverse` loses scale * step step'. The event fails where no theta_star can explain the data
    (an empty interval or a negative rho^2): from then on the set shrinks no more.
    """
    step[:] = 0.0
    reach = norm_bound * norm(x)
    if reach == 0.0:  # a zero context: forecast and likelihood are both 1/2
        return squared_radius, failed, 0.0
    multiply(covariance, x, step)
    deviation = math.sqrt(max(dot(x, step), 0.0))
    forecast = log_forecast(dot(x, mean), deviation, reach, outcome)
    z, _ = filter_step(x, outcome, mean, covariance, step)
    low, high = ball_interval(x, centre, inverse, squared_radius, norm_bound, step)
    failed = failed or squared_radius < 0.0 or not low <= high
    c = 0.0 if failed else minorant_curvature(z, low, high)
    slope = sigmoid(z) - (1.0 if outcome else 0.0)
    offset = dot(x, centre) - z
    value = softplus(-z if outcome else z) + (slope + c * offset) * offset
    gradient = slope + 2.0 * c * offset
    variance = dot(x, step)
    shrinkage = 1.0 + 2.0 * c * variance
    squared_radius += gradient * gradient * variance / shrinkage - 2.0 * (forecast + value)
    for i in range(x.shape[0]):
        centre[i] -= step[i] * gradient / shrinkage
    scale = 2.0 * c / shrinkage
    add_outer(inverse, -scale, step)
    return squared_radius, failed, scale
