"""The Laplace posterior by an extended Kalman filter: quick, narrow, and without a proof.

One outcome moves a Gaussian belief about theta to the mode of belief x likelihood, exactly along
the one direction that the outcome informs, and adds the curvature found there.
"""

from headway.compiled import compiled
from headway.kernel.linear import add_outer, dot
from headway.kernel.logistic import sigmoid, sigmoid_slope


@compiled
def prior_variance(dimension, norm_bound):
    """S^2 / d: the belief before any outcome is as wide as the ball."""
    return norm_bound * norm_bound / dimension


@compiled
def filtered_logit(mean, variance, outcome):
    """The z with z = mean + variance (outcome - mu(z)): Newton's method inside a bracket.

    It starts at the bracket's point nearest to the inflection of mu, from where it is monotone.
    """
    r = 1.0 if outcome else 0.0
    low = mean - (1.0 - r) * variance
    high = mean + r * variance
    z = min(max(low, 0.0), high)
    for _ in range(50):
        p = sigmoid(z)
        excess = z - mean - variance * (r - p)
        if excess > 0.0:
            high = z
        else:
            low = z
        step = excess / (1.0 + variance * p * (1.0 - p))
        z -= step
        if not low <= z <= high:
            z = 0.5 * (low + high)
        if abs(step) <= 1e-12 * (1.0 + abs(z)):
            break
    return z


@compiled
def filter_step(x, outcome, mean, covariance, push):
    """Learn one outcome; push = covariance x on entry. Returns the filtered logit and the scale:
    the covariance lost scale * push push'.
    """
    variance = dot(x, push)
    z = filtered_logit(dot(x, mean), variance, outcome)
    miss = (1.0 if outcome else 0.0) - sigmoid(z)
    for i in range(x.shape[0]):
        mean[i] += push[i] * miss
    slope = sigmoid_slope(z)
    scale = slope / (1.0 + slope * variance)
    add_outer(covariance, -scale, push)
    return z, scale
