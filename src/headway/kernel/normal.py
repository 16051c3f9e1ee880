"""The standard normal law: its distribution function and quantiles, and a quadrature over it."""

import math

import numpy as np

from headway.compiled import compiled

ROOT_HALF = math.sqrt(0.5)
# For averages over one standard normal number: 64 nodes, exact for polynomials up to degree 127.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@compiled
def normal_cdf(z):
    """P(Z <= z), accurate in both tails."""
    return 0.5 * math.erfc(-z * ROOT_HALF)


@compiled
def normal_quantile(p):
    """The z with P(Z <= z) = p, to twelve digits: Wichura's AS 241 and one Newton step."""
    if p <= 0.0:
        return -np.inf
    if p >= 1.0:
        return np.inf
    z = first_quantile(p)
    # Newton in the smaller tail, where the difference keeps its digits.
    miss = normal_cdf(z) - p if p < 0.5 else (1.0 - p) - normal_cdf(-z)
    return z - miss * math.sqrt(2.0 * math.pi) * math.exp(0.5 * z * z)


@compiled
def first_quantile(p):
    """AS 241, PPND7: seven digits."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179
        bottom = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0
        return q * top / bottom
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        top = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
        bottom = (0.12021132975 * r + 0.73700164250) * r + 1.0
    else:
        r -= 5.0
        top = ((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150
        bottom = (0.012258202635 * r + 0.24197894225) * r + 1.0
    z = top / bottom
    return -z if q < 0.0 else z
