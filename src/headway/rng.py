"""Counter-based draws: every random number is a pure function of (seed, replica, stream, ...).

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
There is no generator state anywhere. Two policies that ask for the service coin of round 17 get
the same coin: that is the paper's coupling, and it is why results depend neither on the order of
the calls nor on cores or machines.
"""

import math

import numpy as np
from numpy.typing import NDArray

from headway.compiled import compiled

# Streams: what a draw is for. A number, once given, is never given to another purpose.
ARRIVAL = 1  # by round: does a job arrive (U[t,1] of the paper)
SERVICE = 2  # by round: does the chosen server succeed (U[t,2])
CONTEXT = 3  # by (arrival number, attempt): the components of a context
THETA = 4  # by attempt: the components of theta_star
PROBE = 5  # by number: the contexts on which a drawn theta_star is tried
EXPLORE = 6  # by round: the exploration coin E(t), drawn every round, used or not
SERVER = 7  # by round: a uniform server
JOB = 8  # by round: a uniform job
SAMPLE = 9  # by (round, arrival number, server) or (round, server, component): Thompson draws
BETA = 10  # by (round, server, attempt): Beta draws
VECTOR = 11  # by (vector, attempt): the contexts of a finite set
PICK = 12  # by arrival number: which vector of a finite set
BURST = 13  # by stretch of rounds: do many jobs arrive in it
PAIR = 14  # by (arrival number, server): what repeats in a pair's coins
EFFECT = 15  # by arrival number: a job's own effect
RATE = 16  # by (arrival number, attempt and server): the rate of a pair

MASK = np.uint64(0xFFFFFFFF)
SHIFT_32 = np.uint64(32)
SHIFT_11 = np.uint64(11)
SHIFT_8 = np.uint64(8)
SHIFT_20 = np.uint64(20)
MULTIPLIER_0 = np.uint64(0xD2511F53)
MULTIPLIER_1 = np.uint64(0xCD9E8D57)
WEYL_0 = np.uint64(0x9E3779B9)
WEYL_1 = np.uint64(0xBB67AE85)
TO_UNIT = 2.0**-53
TO_CUBE = 2.0**-31


def make_key(seed: int, replica: int = 0) -> NDArray[np.uint64]:
    """The key of all draws of one replica: seed below 2**64, replica below 2**32."""
    return np.array([seed, replica], np.uint64)


@compiled
def philox(c0, c1, c2, c3, k0, k1):
    """Ten rounds of Philox4x32. Lanes are 32-bit values in 64-bit integers: nothing overflows."""
    for _ in range(10):
        p0 = MULTIPLIER_0 * c0
        p1 = MULTIPLIER_1 * c2
        c0 = (p1 >> SHIFT_32) ^ c1 ^ k0
        c1 = p1 & MASK
        c2 = (p0 >> SHIFT_32) ^ c3 ^ k1
        c3 = p0 & MASK
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return c0, c1, c2, c3


@compiled
def block(k0, k1, replica, stream, number, index):
    """Four 32-bit lanes: `number` (a round or an arrival) and `index` are below 2**44."""
    n = np.uint64(number)
    i = np.uint64(index)
    high = (n >> SHIFT_32 << SHIFT_20) | (i >> SHIFT_32 << SHIFT_8) | np.uint64(stream)
    return philox(n & MASK, i & MASK, replica, high, k0, k1)


@compiled
def uniforms(key, stream, number, index):
    """Two uniforms on [0, 1) of 53 bits."""
    a, b, c, d = block(key[0] & MASK, key[0] >> SHIFT_32, key[1] & MASK, stream, number, index)
    first = np.float64(((a << SHIFT_32) | b) >> SHIFT_11) * TO_UNIT
    second = np.float64(((c << SHIFT_32) | d) >> SHIFT_11) * TO_UNIT
    return first, second


@compiled
def uniform(key, stream, number, index):
    """One uniform on [0, 1)."""
    return uniforms(key, stream, number, index)[0]


@compiled
def normals(key, stream, number, index):
    """Two independent standard normals, by Box and Muller."""
    first, second = uniforms(key, stream, number, index)
    size = math.sqrt(-2.0 * math.log(1.0 - first))
    angle = 2.0 * math.pi * second
    return size * math.cos(angle), size * math.sin(angle)


@compiled
def normal(key, stream, number, index):
    """One standard normal."""
    return normals(key, stream, number, index)[0]


@compiled
def gamma(key, stream, number, index, shape):
    """One Gamma(shape) of shape >= 1, by Marsaglia and Tsang; it takes 2**16 indices to itself."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    attempt = index * 65536
    while True:
        x = normal(key, stream, number, attempt)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u = uniform(key, stream, number, attempt + 1)
            if math.log(1.0 - u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v
        attempt += 2


@compiled
def log_gamma(key, stream, number, index, shape):
    """The logarithm of one Gamma(shape) of any shape: below 1 that of shape + 1 times U^(1/shape),
    which may be far below the least number. It takes 2**16 indices to itself.
    """
    if shape >= 1.0:
        return math.log(gamma(key, stream, number, index, shape))
    if shape <= 0.0:
        return -np.inf
    u = uniform(key, stream, number, index * 65536 + 65535)
    return math.log(gamma(key, stream, number, index, shape + 1.0)) + math.log(1.0 - u) / shape


@compiled
def beta(key, stream, number, index, a, b):
    """One Beta(a, b) with a, b >= 1."""
    first = gamma(key, stream, number, 2 * index, a)
    return first / (first + gamma(key, stream, number, 2 * index + 1, b))


@compiled
def fill_cube(key, stream, number, attempt, x):
    """Fill x with independent Unif(-1, 1) components of 32 bits, four to a block."""
    k0 = key[0] & MASK
    k1 = key[0] >> SHIFT_32
    replica = key[1] & MASK
    blocks = (x.shape[0] + 3) // 4
    for b in range(blocks):
        lanes = block(k0, k1, replica, stream, number, attempt * blocks + b)
        for i in range(min(4, x.shape[0] - 4 * b)):
            x[4 * b + i] = (np.float64(lanes[i]) + 0.5) * TO_CUBE - 1.0


@compiled
def fill_normal(key, stream, number, attempt, x):
    """Fill x with independent standard normals, two to a block."""
    blocks = (x.shape[0] + 1) // 2
    for b in range(blocks):
        one, two = normals(key, stream, number, attempt * blocks + b)
        x[2 * b] = one
        if 2 * b + 1 < x.shape[0]:
            x[2 * b + 1] = two


@compiled
def fill_cubes(key, stream, number, first, x):
    """`fill_cube` for attempts first, first + 1, ..., an attempt to a column of x.

    Components beyond the dimension, up to a whole block, are drawn too: x needs rows for them.
    """
    k0 = key[0] & MASK
    k1 = key[0] >> SHIFT_32
    replica = key[1] & MASK
    blocks = x.shape[0] // 4
    for a in range(x.shape[1]):
        for b in range(blocks):
            lanes = block(k0, k1, replica, stream, number, (first + a) * blocks + b)
            for i in range(4):
                x[4 * b + i, a] = (np.float64(lanes[i]) + 0.5) * TO_CUBE - 1.0
