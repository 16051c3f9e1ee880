"""Small dense linear algebra in explicit loops: the same bits on every thread and machine."""

import math

import numpy as np

from headway.compiled import compiled

WIDE = 12  # from this dimension on whole rows are quicker than halves


@compiled
def dot(a, b):
    """A . b"""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@compiled
def copy(a, out):
    """Out = a. (Numba's own assignment brings three seconds of code for an error message.)"""
    for i in range(a.shape[0]):
        out[i] = a[i]


@compiled
def copy_row(matrix, row, out):
    """Out = matrix[row]"""
    for i in range(out.shape[0]):
        out[i] = matrix[row, i]


@compiled
def norm(a):
    """|a|"""
    return math.sqrt(dot(a, a))


@compiled
def multiply(matrix, a, out):
    """Out = matrix a, of a symmetric matrix: the same sums in the same order, row by row or, in
    loops that are vectorised, all at once.
    """
    d = a.shape[0]
    if d < WIDE:
        for i in range(d):
            total = 0.0
            for j in range(d):
                total += matrix[i, j] * a[j]
            out[i] = total
        return
    for i in range(d):
        out[i] = 0.0
    for j in range(d):
        row = matrix[j]
        weight = a[j]
        for i in range(d):
            out[i] += row[i] * weight


@compiled
def add_outer(matrix, scale, a):
    """Matrix += scale a a', exactly symmetric: half of it, mirrored, or all, vectorised."""
    d = a.shape[0]
    if d < WIDE:
        for i in range(d):
            for j in range(i + 1):
                value = matrix[i, j] + scale * (a[i] * a[j])
                matrix[i, j] = value
                matrix[j, i] = value
        return
    for i in range(d):
        row = matrix[i]
        weight = a[i]
        for j in range(d):
            row[j] += scale * (weight * a[j])


@compiled
def cholesky(matrix, shift, lower):
    """Lower lower' = matrix + shift I; False where that is not positive definite."""
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            value = matrix[i, j]
            if i == j:
                value += shift
            for k in range(j):
                value -= lower[i, k] * lower[j, k]
            if i != j:
                lower[i, j] = value / lower[j, j]
            elif value > 0.0:
                lower[i, i] = math.sqrt(value)
            else:
                return False
    return True


@compiled
def solve(lower, b, out):
    """Out = (lower lower')^-1 b"""
    d = b.shape[0]
    for i in range(d):
        value = b[i]
        for k in range(i):
            value -= lower[i, k] * out[k]
        out[i] = value / lower[i, i]
    for i in range(d - 1, -1, -1):
        value = out[i]
        for k in range(i + 1, d):
            value -= lower[k, i] * out[k]
        out[i] = value / lower[i, i]


@compiled
def invert(lower, out):
    """Out = (lower lower')^-1, symmetric."""
    d = lower.shape[0]
    unit = np.zeros(d)
    column = np.zeros(d)
    for j in range(d):
        unit[:] = 0.0
        unit[j] = 1.0
        solve(lower, unit, column)
        for i in range(j, d):
            out[i, j] = column[i]
            out[j, i] = column[i]


@compiled
def ball_minimum(matrix, c, bound, out):
    """The minimiser of x'Mx/2 - c.x over |x| <= bound; M symmetric, not necessarily definite.

    On the sphere x = (M + shift I)^-1 c; the shift is found by Newton's method on 1/|x|, kept
    inside a bracket.
    """
    d = c.shape[0]
    lower = np.zeros((d, d))
    again = np.zeros(d)
    if cholesky(matrix, 0.0, lower):
        solve(lower, c, out)
        if norm(out) <= bound:
            return
    low = 0.0
    high = norm(c) / bound
    for i in range(d):
        high += norm(matrix[i])
    shift = 0.0
    for _ in range(200):
        proposal = 0.5 * (low + high)
        if cholesky(matrix, shift, lower):
            solve(lower, c, out)
            length = norm(out)
            if abs(length - bound) <= 1e-15 * bound:
                return
            if length > bound:
                low = shift
            else:
                high = shift
            solve(lower, out, again)
            step = shift + (length / bound - 1.0) * length * length / dot(out, again)
            proposal = step if low < step < high else 0.5 * (low + high)
        else:
            low = shift
        if proposal == shift:
            return
        shift = proposal
