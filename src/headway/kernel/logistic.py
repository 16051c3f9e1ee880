"""Logistic regression on one server's history: sigmoid, exact ridge MLE, projection on the ball.

A history is kept in blocks of 64 outcomes, `x[block, component, outcome]` and `r[block, outcome]`,
padded with zeros (a zero context changes nothing). Each loop over the 64 is elementwise, so it is
vectorised without reordering a sum: fast and the same bits everywhere.
"""

import math

import numpy as np

from headway.compiled import compiled
from headway.kernel.linear import (
    add_outer,
    ball_minimum,
    cholesky,
    dot,
    invert,
    multiply,
    norm,
    solve,
)

BLOCK = 64
# When a refit stops: its predicted error, and its last step but one, are at most this. The error
# was then 2e-8 at most, over dimensions 1 to 20, ridges 0.1 and 1 and separable data.
PREDICTED_ERROR = 1e-8
LAST_BUT_ONE = 2e-7
CHORD_STEPS = 12


@compiled
def sigmoid(z):
    """mu(z) = 1 / (1 + e^-z), accurate in both tails."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@compiled
def sigmoid_slope(z):
    """mu'(z) = mu(z) mu(-z)"""
    e = math.exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


@compiled
def softplus(z):
    """log(1 + e^z)"""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


@compiled
def loop_sigmoid(z):
    """mu(z) to 2e-13 without a call or a branch, so that loops over it are vectorised.

    e^-a = (e^(-a/1024))^1024 by Taylor's series; a is cut at 40, where mu is 4e-18.
    """
    a = abs(z)
    a = 40.0 if a > 40.0 else a
    y = a * (-1.0 / 1024.0)
    e = 1.984126984126984e-04
    e = e * y + 1.388888888888889e-03
    e = e * y + 8.333333333333333e-03
    e = e * y + 4.1666666666666664e-02
    e = e * y + 0.16666666666666666
    e = e * y + 0.5
    e = e * y + 1.0
    e = e * y + 1.0
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    s = 1.0 / (1.0 + e)
    return s if z >= 0.0 else e * s


@compiled
def residual_sum(x, r, count, theta, out):
    """The gradient of the log-loss: out = sum_i (mu(x_i . theta) - r_i) x_i."""
    residual_sum_in(x, r, count, theta, out, np.empty((theta.shape[0] + 1, BLOCK)))


@compiled
def residual_sum_in(x, r, count, theta, out, scratch):
    """The same in scratch space of d + 1 rows of a block."""
    d = theta.shape[0]
    z = scratch[d]
    for j in range(d):
        total = scratch[j]
        for i in range(BLOCK):
            total[i] = 0.0
    for b in range((count + BLOCK - 1) // BLOCK):
        block = x[b]
        outcomes = r[b]
        for i in range(BLOCK):
            z[i] = 0.0
        for j in range(d):
            row = block[j]
            weight = theta[j]
            for i in range(BLOCK):
                z[i] += row[i] * weight
        for i in range(BLOCK):
            z[i] = loop_sigmoid(z[i]) - outcomes[i]
        for j in range(d):
            row = block[j]
            total = scratch[j]
            for i in range(BLOCK):
                total[i] += row[i] * z[i]
    for j in range(d):
        total = scratch[j]
        half = BLOCK // 2
        while half >= 1:
            for i in range(half):
                total[i] += total[i + half]
            half //= 2
        out[j] = total[0]


@compiled
def log_loss(x, r, count, theta):
    """sum_i log(1 + e^{z_i}) - r_i z_i with z_i = x_i . theta"""
    total = 0.0
    for i in range(count):
        z = 0.0
        for j in range(theta.shape[0]):
            z += x[i // BLOCK, j, i % BLOCK] * theta[j]
        total += softplus(z) - r[i // BLOCK, i % BLOCK] * z
    return total


@compiled
def curvature(x, count, theta, direction, hessian, bend):
    """Hessian = sum_i mu'(z_i) x_i x_i'; bend = sum_i mu''(z_i) (x_i . direction) x_i x_i'."""
    d = theta.shape[0]
    hessian[:] = 0.0
    bend[:] = 0.0
    row = np.empty(d)
    for i in range(count):
        for j in range(d):
            row[j] = x[i // BLOCK, j, i % BLOCK]
        p = sigmoid(dot(row, theta))
        add_outer(hessian, p * (1.0 - p), row)
        add_outer(bend, p * (1.0 - p) * (1.0 - 2.0 * p) * dot(row, direction), row)


@compiled
def newton(x, r, count, ridge, theta, inverse):
    """Minimise log-loss + ridge/2 |theta|^2 from `theta` by Newton's method with backtracking.

    `inverse` becomes the inverse Hessian at the last point.
    """
    d = theta.shape[0]
    gradient = np.empty(d)
    step = np.empty(d)
    trial = np.empty(d)
    hessian = np.empty((d, d))
    ignored = np.empty((d, d))
    lower = np.zeros((d, d))
    value = log_loss(x, r, count, theta) + 0.5 * ridge * dot(theta, theta)
    for _ in range(200):
        residual_sum(x, r, count, theta, gradient)
        for j in range(d):
            gradient[j] += ridge * theta[j]
        curvature(x, count, theta, gradient, hessian, ignored)
        cholesky(hessian, ridge, lower)
        solve(lower, gradient, step)
        size = norm(step)
        rate = 1.0
        while True:
            for j in range(d):
                trial[j] = theta[j] - rate * step[j]
            better = log_loss(x, r, count, trial) + 0.5 * ridge * dot(trial, trial)
            wanted = value - 1e-4 * rate * dot(gradient, step)
            # Near the minimum the loss is flat to rounding: there the full step is right.
            if better <= wanted or size < 1e-6 * (1.0 + norm(theta)):
                break
            rate *= 0.5
        theta[:] = trial
        value = better
        if size <= 1e-13 * (1.0 + norm(theta)):
            break
    invert(lower, inverse)


@compiled
def refit(x, r, count, ridge, theta, inverse):
    """The exact ridge MLE after the newest outcome (row count - 1), from the one before it.

    The old gradient was zero, so the new one is (mu(z) - r) x and the first step needs no pass
    over the history. Then chord steps with the old inverse Hessian, improved by BFGS's secant
    update; Newton's method where they do not contract.
    """
    d = theta.shape[0]
    vectors = np.empty((5, d))
    scratch = np.empty((d + 1, BLOCK))
    if not chord_steps(x, r, count, ridge, theta, inverse, vectors, scratch):
        newton(x, r, count, ridge, theta, inverse)


@compiled
def chord_steps(x, r, count, ridge, theta, inverse, vectors, scratch):
    """`refit` without Newton's method; False where the steps do not contract."""
    d = theta.shape[0]
    row = vectors[0]
    gradient = vectors[1]
    before = vectors[2]
    step = vectors[3]
    push = vectors[4]
    for j in range(d):
        row[j] = x[(count - 1) // BLOCK, j, (count - 1) % BLOCK]
    z = dot(row, theta)
    multiply(inverse, row, push)
    slope = sigmoid_slope(z)
    add_outer(inverse, -slope / (1.0 + slope * dot(row, push)), push)
    miss = sigmoid(z) - r[(count - 1) // BLOCK, (count - 1) % BLOCK]
    for j in range(d):
        gradient[j] = miss * row[j]
    multiply(inverse, gradient, step)
    size = norm(step)
    for _ in range(CHORD_STEPS):
        for j in range(d):
            theta[j] -= step[j]
            before[j] = gradient[j]
        residual_sum_in(x, r, count, theta, gradient, scratch)
        for j in range(d):
            gradient[j] += ridge * theta[j]
            before[j] -= gradient[j]
        secant(inverse, step, before, push)
        multiply(inverse, gradient, step)
        smaller = norm(step)
        # Errors shrink geometrically: after this step about smaller * (smaller / size) is left.
        if smaller <= LAST_BUT_ONE and smaller * smaller <= PREDICTED_ERROR * size:
            for j in range(d):
                theta[j] -= step[j]
            return True
        if smaller > 0.5 * size:
            return False
        size = smaller
    return False


@compiled
def secant(inverse, step, drop, image):
    """BFGS: change the inverse Hessian so that it explains the gradient's drop over -step."""
    d = step.shape[0]
    product = dot(step, drop)
    if not product > 1e-300:
        return
    multiply(inverse, drop, image)
    scale = (1.0 + dot(drop, image) / product) / product
    for i in range(d):
        for j in range(i + 1):
            change = scale * step[i] * step[j]
            change -= (step[i] * image[j] + image[i] * step[j]) / product
            inverse[i, j] += change
            inverse[j, i] = inverse[i, j]


@compiled
def pack(x, r):
    """Rows of contexts and outcomes as blocks."""
    count, d = x.shape
    blocks = (count + BLOCK - 1) // BLOCK
    packed_x = np.zeros((blocks, d, BLOCK))
    packed_r = np.zeros((blocks, BLOCK))
    for i in range(count):
        for j in range(d):
            packed_x[i // BLOCK, j, i % BLOCK] = x[i, j]
        packed_r[i // BLOCK, i % BLOCK] = r[i]
    return packed_x, packed_r


@compiled
def ridge_mle(x, r, ridge):
    """Argmin over theta of sum_i log-loss(x_i . theta, r_i) + ridge/2 |theta|^2.

    x is (n, d), r holds 0 and 1, ridge is positive (it is the paper's lambda of the MLE).
    """
    packed_x, packed_r = pack(x, r)
    d = x.shape[1]
    theta = np.zeros(d)
    newton(packed_x, packed_r, x.shape[0], ridge, theta, np.zeros((d, d)))
    return theta


@compiled
def project(x, theta_mle, v, norm_bound, ridge):
    """Argmin over |theta| <= norm_bound of |sum_i [mu(x_i.theta) - mu(x_i.mle)] x_i|_{V^-1}.

    With ridge > 0 the sum also holds ridge (theta - mle), the term that the proof needs and the
    paper's formula leaves out.
    """
    packed_x, packed_r = pack(x, np.zeros(x.shape[0]))
    return project_packed(packed_x, packed_r, x.shape[0], theta_mle, v, norm_bound, ridge)


@compiled
def displacement(x, zeros, count, theta, origin, theta_mle, ridge, out):
    """Out = G(theta) - origin + ridge (theta - mle), G(theta) = sum_i mu(x_i.theta) x_i."""
    residual_sum(x, zeros, count, theta, out)
    for j in range(theta.shape[0]):
        out[j] += ridge * (theta[j] - theta_mle[j]) - origin[j]


@compiled
def project_packed(x, zeros, count, theta_mle, v, norm_bound, ridge):
    """`project` on a packed history (`zeros` in place of the outcomes)."""
    d = theta_mle.shape[0]
    theta = theta_mle.copy()
    if norm(theta_mle) <= norm_bound:
        return theta
    for j in range(d):
        theta[j] *= norm_bound / norm(theta_mle)
    lower_v = np.zeros((d, d))
    cholesky(v, 0.0, lower_v)
    origin = np.empty(d)
    residual_sum(x, zeros, count, theta_mle, origin)
    gap = np.empty(d)
    weight = np.empty(d)
    trial = np.empty(d)
    target = np.empty(d)
    model = np.empty((d, d))
    displacement(x, zeros, count, theta, origin, theta_mle, ridge, gap)
    solve(lower_v, gap, weight)
    value = dot(gap, weight)
    damping = 0.0
    for _ in range(500):
        quadratic(x, count, theta, lower_v, weight, ridge, damping, model, target)
        ball_minimum(model, target, norm_bound, trial)
        moved = 0.0
        for j in range(d):
            moved = max(moved, abs(trial[j] - theta[j]))
        displacement(x, zeros, count, trial, origin, theta_mle, ridge, gap)
        solve(lower_v, gap, target)
        better = dot(gap, target)
        if moved <= 1e-12 * norm_bound:
            return theta
        if better <= value * (1.0 + 1e-14):
            theta[:] = trial
            weight[:] = target
            value = better
            damping = 0.1 * damping if damping > 1e-9 else 0.0
        else:
            damping = max(10.0 * damping, 1e-3 * model[0, 0], 1e-12)
    return theta


@compiled
def quadratic(x, count, theta, lower_v, weight, ridge, damping, model, target):
    """Newton's model of |gap|^2/2 in the V^-1 norm around theta: x'(model)x/2 - target.x."""
    d = theta.shape[0]
    hessian = np.empty((d, d))
    bend = np.empty((d, d))
    half = np.empty((d, d))
    curvature(x, count, theta, weight, hessian, bend)
    for j in range(d):
        hessian[j, j] += ridge
    for j in range(d):
        solve(lower_v, hessian[j], half[j])
    for i in range(d):
        for j in range(i + 1):
            model[i, j] = dot(hessian[i], half[j]) + bend[i, j]
            model[j, i] = model[i, j]
        model[i, i] += damping
    for i in range(d):
        target[i] = dot(model[i], theta) - dot(hessian[i], weight)
