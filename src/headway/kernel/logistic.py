"""Logistic regression on one server's history: sigmoid, exact ridge MLE, projection on the ball.

A history holds every context once, negated where the server succeeded: with y = -x for r = 1 and
y = x for r = 0 the log-loss is softplus(y . theta) and its gradient mu(y . theta) y. It is kept in
blocks of 64 outcomes, `y[block, component, outcome]`, padded with zeros (a zero context changes
nothing). Each loop over the 64 is elementwise, so it is vectorised without reordering a sum: fast
and the same bits everywhere.
"""

import math

import numpy as np

from headway.compiled import compiled, inlined
from headway.kernel.linear import (
    add_outer,
    ball_minimum,
    cholesky,
    copy,
    dot,
    invert,
    multiply,
    norm,
    solve,
)
from headway.kernel.memory import on_a_line

BLOCK = 64
# When a refit stops: its predicted error, and its last step but one, are at most this. The error
# was then 2e-8 at most, over dimensions 1 to 20, ridges 0.1 and 1 and separable data.
PREDICTED_ERROR = 1e-8
LAST_BUT_ONE = 2e-7
CHORD_STEPS = 12
# What Newton's method may spend on input beyond all measure: where the steps of one fit are halved
# so often in all, or a long step brings so little, rounding is what is left to minimise.
LOG_2 = math.log(2.0)
NEWTON_STEPS = 100
MOST_HALVINGS = 60
LEAST_GAIN = 1e-15


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


@inlined
def loop_sigmoid(z):
    """mu(z) to 3e-13 without a call or a branch, so that loops over it are vectorised.

    e^-a = (e^(-a/1024))^1024 by Taylor's series, its terms summed in pairs so that few wait for
    one another; a is cut at 40, where mu is 4e-18.
    """
    a = abs(z)
    a = 40.0 if a > 40.0 else a
    y = a * (-1.0 / 1024.0)
    y2 = y * y
    low = (1.0 + y) + y2 * (0.5 + y * 0.16666666666666666)
    high = (4.1666666666666664e-02 + y * 8.333333333333333e-03) + y2 * (
        1.388888888888889e-03 + y * 1.984126984126984e-04
    )
    e = low + (y2 * y2) * high
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
    return (1.0 if z >= 0.0 else e) / (1.0 + e)


@compiled
def block_rows(rows):
    """Scratch space: rows of a block."""
    return on_a_line(rows * BLOCK).reshape((rows, BLOCK))


@compiled
def slope_sum(y, count, theta, out):
    """The gradient of the log-loss: out = sum_i mu(y_i . theta) y_i."""
    slope_sum_in(y, count, theta, out, block_rows(theta.shape[0] + 1))


@compiled
def slope_sum_in(y, count, theta, out, scratch):
    """The same in scratch space of d + 1 rows of a block."""
    d = theta.shape[0]
    z = scratch[d]
    for j in range(d):
        total = scratch[j]
        for i in range(BLOCK):
            total[i] = 0.0
    for b in range((count + BLOCK - 1) // BLOCK):
        block = y[b]
        for i in range(BLOCK):
            z[i] = 0.0
        for j in range(d):
            row = block[j]
            weight = theta[j]
            for i in range(BLOCK):
                z[i] += row[i] * weight
        for i in range(BLOCK):
            z[i] = loop_sigmoid(z[i])
        for j in range(d):
            row = block[j]
            total = scratch[j]
            for i in range(BLOCK):
                total[i] += row[i] * z[i]
    for j in range(d):
        out[j] = lane_sum(scratch[j])


@compiled
def log_loss(y, count, theta):
    """sum_i log(1 + e^{y_i . theta})"""
    total = 0.0
    for i in range(count):
        z = 0.0
        for j in range(theta.shape[0]):
            z += y[i // BLOCK, j, i % BLOCK] * theta[j]
        total += softplus(z)
    return total


@compiled
def curvature(y, count, theta, direction, hessian, bend):
    """Hessian = sum_i mu'(z_i) y_i y_i'; bend = sum_i mu''(z_i) (y_i . direction) y_i y_i'."""
    d = theta.shape[0]
    hessian[:] = 0.0
    bend[:] = 0.0
    scratch = block_rows(6)
    slope = scratch[0]
    third = scratch[1]
    weighted = scratch[2]
    bent = scratch[3]
    product = scratch[4]
    other = scratch[5]
    for b in range((count + BLOCK - 1) // BLOCK):
        block = y[b]
        for i in range(BLOCK):
            slope[i] = 0.0
            third[i] = 0.0
        for j in range(d):
            row = block[j]
            for i in range(BLOCK):
                slope[i] += row[i] * theta[j]
                third[i] += row[i] * direction[j]
        for i in range(BLOCK):
            p = loop_sigmoid(slope[i])
            slope[i] = p * (1.0 - p)
            third[i] *= slope[i] * (1.0 - 2.0 * p)
        for j in range(d):
            row = block[j]
            for i in range(BLOCK):
                weighted[i] = slope[i] * row[i]
                bent[i] = third[i] * row[i]
            for k in range(j + 1):
                row = block[k]
                for i in range(BLOCK):
                    product[i] = weighted[i] * row[i]
                    other[i] = bent[i] * row[i]
                hessian[j, k] += lane_sum(product)
                bend[j, k] += lane_sum(other)
    for j in range(d):
        for k in range(j):
            hessian[k, j] = hessian[j, k]
            bend[k, j] = bend[j, k]


@inlined
def lane_sum(lanes):
    """The sum of a block, halved again and again in loops that are vectorised; destroys it."""
    half = BLOCK // 2
    while half >= 1:
        for i in range(half):
            lanes[i] += lanes[i + half]
        half //= 2
    return lanes[0]


@compiled
def penalised_loss(y, count, ridge, theta):
    """The log-loss + ridge/2 |theta|^2."""
    return log_loss(y, count, theta) + 0.5 * ridge * dot(theta, theta)


@compiled
def sturdy_cholesky(matrix, ridge, lower):
    """Cholesky of matrix + ridge I, with more on the diagonal where rounding ate the ridge; False
    where nothing helps (NaN).
    """
    if cholesky(matrix, ridge, lower):
        return True
    more = 0.0
    for i in range(matrix.shape[0]):
        more += 1e-16 * abs(matrix[i, i])
    for _ in range(18):
        if cholesky(matrix, ridge + more, lower):
            return True
        more *= 10.0
    return False


@compiled
def newton(y, count, ridge, theta, inverse):
    """Minimise log-loss + ridge/2 |theta|^2 from `theta` by Newton's method with backtracking.

    `inverse` becomes the inverse Hessian at the last point. It ends on any input: where no step
    is left that improves, at the best point so far.
    """
    d = theta.shape[0]
    gradient = np.empty(d)
    step = np.empty(d)
    trial = np.empty(d)
    hessian = np.empty((d, d))
    ignored = np.empty((d, d))
    lower = np.zeros((d, d))
    value = penalised_loss(y, count, ridge, theta)
    if not value <= count * LOG_2:  # what came before ran away: begin anew from zero
        theta[:] = 0.0
        value = count * LOG_2
    halvings = 0
    for _ in range(NEWTON_STEPS):
        slope_sum(y, count, theta, gradient)
        for j in range(d):
            gradient[j] += ridge * theta[j]
        curvature(y, count, theta, gradient, hessian, ignored)
        if not sturdy_cholesky(hessian, ridge, lower):
            return
        solve(lower, gradient, step)
        size = norm(step)
        rate = 1.0
        # Near the minimum the loss is flat to rounding: there the full step is right.
        near = size < 1e-6 * (1.0 + norm(theta))
        better = np.inf
        while halvings < MOST_HALVINGS:
            for j in range(d):
                trial[j] = theta[j] - rate * step[j]
            better = penalised_loss(y, count, ridge, trial)
            if near or better <= value - 1e-4 * rate * dot(gradient, step):
                break
            rate *= 0.5
            halvings += 1
        if halvings >= MOST_HALVINGS or not (near or value - better > LEAST_GAIN * value):
            break
        copy(trial, theta)
        value = better
        if size <= 1e-13 * (1.0 + norm(theta)):
            break
    invert(lower, inverse)


@compiled
def refit(y, count, ridge, theta, inverse):
    """The exact ridge MLE after the newest outcome (row count - 1), from the one before it.

    The old gradient was zero, so the new one is mu(y . theta) y and the first step needs no pass
    over the history. Then chord steps with the old inverse Hessian, improved by BFGS's secant
    update; Newton's method where they do not contract.
    """
    d = theta.shape[0]
    vectors = np.empty((5, d))
    scratch = block_rows(d + 1)
    if not chord_steps(y, count, ridge, theta, inverse, vectors, scratch):
        newton(y, count, ridge, theta, inverse)


@compiled
def chord_steps(y, count, ridge, theta, inverse, vectors, scratch):
    """`refit` without Newton's method; False where the steps do not contract."""
    d = theta.shape[0]
    row = vectors[0]
    gradient = vectors[1]
    before = vectors[2]
    step = vectors[3]
    push = vectors[4]
    for j in range(d):
        row[j] = y[(count - 1) // BLOCK, j, (count - 1) % BLOCK]
    z = dot(row, theta)
    multiply(inverse, row, push)
    slope = sigmoid_slope(z)
    add_outer(inverse, -slope / (1.0 + slope * dot(row, push)), push)
    miss = sigmoid(z)
    for j in range(d):
        gradient[j] = miss * row[j]
    multiply(inverse, gradient, step)
    size = norm(step)
    for _ in range(CHORD_STEPS):
        for j in range(d):
            theta[j] -= step[j]
            before[j] = gradient[j]
        slope_sum_in(y, count, theta, gradient, scratch)
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
    share = 1.0 / product
    for i in range(d):
        row = inverse[i]
        for j in range(d):  # symmetric to the last bit: products and sums commute
            row[j] += scale * (step[i] * step[j]) - share * (
                step[i] * image[j] + image[i] * step[j]
            )


@compiled
def append(y, count, x, success):
    """Write outcome number `count` (from 0) into a history with room for it."""
    for j in range(x.shape[0]):
        y[count // BLOCK, j, count % BLOCK] = -x[j] if success else x[j]


@compiled
def pack(x, r):
    """Rows of contexts and outcomes as a history."""
    count, d = x.shape
    packed = np.zeros(((count + BLOCK - 1) // BLOCK, d, BLOCK))
    for i in range(count):
        append(packed, i, x[i], r[i] == 1)
    return packed


@compiled
def ridge_mle(x, r, ridge):
    """Argmin over theta of sum_i log-loss(x_i . theta, r_i) + ridge/2 |theta|^2.

    x is (n, d), r holds 0 and 1, ridge is positive (it is the paper's lambda of the MLE).
    """
    d = x.shape[1]
    theta = np.zeros(d)
    newton(pack(x, r), x.shape[0], ridge, theta, np.zeros((d, d)))
    return theta


@compiled
def project(x, theta_mle, v, norm_bound, ridge):
    """Argmin over |theta| <= norm_bound of |sum_i [mu(x_i.theta) - mu(x_i.mle)] x_i|_{V^-1}.

    With ridge > 0 the sum also holds ridge (theta - mle), the term that the proof needs and the
    paper's formula leaves out.
    """
    history = pack(x, np.zeros(x.shape[0]))
    return project_packed(history, x.shape[0], theta_mle, v, norm_bound, ridge)


@compiled
def displacement(y, count, theta, origin, theta_mle, ridge, out):
    """Out = G(theta) - origin + ridge (theta - mle), G(theta) = sum_i mu(y_i . theta) y_i."""
    slope_sum(y, count, theta, out)
    for j in range(theta.shape[0]):
        out[j] += ridge * (theta[j] - theta_mle[j]) - origin[j]


@compiled
def project_packed(y, count, theta_mle, v, norm_bound, ridge):
    """`project` on a history: mu(-z) = 1 - mu(z), so negated contexts change no difference."""
    d = theta_mle.shape[0]
    theta = theta_mle.copy()
    if norm(theta_mle) <= norm_bound:
        return theta
    for j in range(d):
        theta[j] *= norm_bound / norm(theta_mle)
    lower_v = np.zeros((d, d))
    if not cholesky(v, 0.0, lower_v):  # rounding ate V: no metric to project in
        return theta
    origin = np.empty(d)
    slope_sum(y, count, theta_mle, origin)
    gap = np.empty(d)
    weight = np.empty(d)
    trial = np.empty(d)
    target = np.empty(d)
    model = np.empty((d, d))
    displacement(y, count, theta, origin, theta_mle, ridge, gap)
    solve(lower_v, gap, weight)
    value = dot(gap, weight)
    damping = 0.0
    for _ in range(500):
        quadratic(y, count, theta, lower_v, weight, ridge, damping, model, target)
        ball_minimum(model, target, norm_bound, trial)
        moved = 0.0
        for j in range(d):
            moved = max(moved, abs(trial[j] - theta[j]))
        displacement(y, count, trial, origin, theta_mle, ridge, gap)
        solve(lower_v, gap, target)
        better = dot(gap, target)
        if moved <= 1e-12 * norm_bound:
            return theta
        # Near the minimum the distance is flat to rounding: there every step is right.
        if better <= value or moved <= 1e-5 * norm_bound:
            copy(trial, theta)
            copy(target, weight)
            value = better
            damping = 0.1 * damping if damping > 1e-9 else 0.0
        else:
            damping = max(10.0 * damping, 1e-3 * model[0, 0], 1e-12)
    return theta


@compiled
def quadratic(y, count, theta, lower_v, weight, ridge, damping, model, target):
    """Newton's model of |gap|^2/2 in the V^-1 norm around theta: x'(model)x/2 - target.x."""
    d = theta.shape[0]
    hessian = np.empty((d, d))
    bend = np.empty((d, d))
    half = np.empty((d, d))
    curvature(y, count, theta, weight, hessian, bend)
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
