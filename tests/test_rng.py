"""Proves that every draw is Philox4x32-10 of its own key and counter, uniform and independent."""

import json
import math
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from headway.rng import (
    CONTEXT,
    SERVICE,
    THETA,
    fill_cube,
    fill_cubes,
    make_key,
    philox,
    uniform,
    uniforms,
)

# Random123's kat_vectors: counter, key, result.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip
LARGE = 2**44 - 1  # the largest number and index that a counter holds
DRAWS = 200_000


def words(text):
    return [int(word, 16) for word in text.split()]


def plain_philox(counter, key):
    """Philox4x32-10 in Python's integers, from the paper's description."""
    c = list(counter)
    k = list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def plain_lanes(seed, replica, stream, number, index):
    """The documented counter: low words of number and index, replica, high bits and stream."""
    high = ((number >> 32) << 20) | ((index >> 32) << 8) | stream
    counter = [number % 2**32, index % 2**32, replica, high]
    return plain_philox(counter, [seed % 2**32, seed >> 32])


def plain_uniforms(*place):
    a, b, c, d = plain_lanes(*place)
    return ((a << 32 | b) >> 11) / 2**53, ((c << 32 | d) >> 11) / 2**53


@numba.njit
def many_uniforms(key, stream, first, count, index):
    out = np.empty((count, 2))
    for i in range(count):
        out[i] = uniforms(key, stream, first + i, index)
    return out


def z_score(a, b):
    """The correlation of two columns in its own standard errors."""
    return np.corrcoef(a, b)[0, 1] * math.sqrt(len(a))


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers_of_random123(counter, key, expected):
    arguments = np.array(words(counter) + words(key), np.uint64)
    assert [int(lane) for lane in philox(*arguments)] == words(expected)
    assert plain_philox(words(counter), words(key)) == words(expected)


@pytest.mark.parametrize(
    ("seed", "replica", "stream", "number", "index"),
    [
        (0, 0, 0, 0, 0),
        (1, 2, 3, 4, 5),
        (2**32, 1, SERVICE, 1, 0),
        (2**63, 7, SERVICE, 17, 0),
        (2**64 - 1, 2**32 - 1, 255, LARGE, LARGE),
        (5, 0, CONTEXT, 2**40, 0),
        (5, 0, CONTEXT, 0, 2**40),
        (2**63 + 12345, 2**31, THETA, 2**40 + 3, 2**40 + 9),
        (2**40, 0, THETA, 2**32 - 1, 2**32),
    ],
)
def test_a_draw_is_the_documented_function_of_its_place(seed, replica, stream, number, index):
    key = make_key(seed, replica)
    expected = plain_uniforms(seed, replica, stream, number, index)
    assert uniforms(key, stream, number, index) == expected
    assert uniform(key, stream, number, index) == expected[0]
    assert 0.0 <= min(expected) <= max(expected) < 1.0


def test_different_places_give_different_draws():
    edges = (0, 1, 2**32 - 1, 2**32, 2**40, LARGE)
    seeds = (0, 1, 2**32, 2**63, 2**64 - 1)
    seen = {
        uniforms(make_key(seed, replica), stream, number, index)
        for seed in seeds
        for replica in (0, 1, 2**32 - 1)
        for stream in (1, 2, 8)
        for number in edges
        for index in edges
    }
    assert len(seen) == len(seeds) * 3 * 3 * len(edges) * len(edges)


@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_uniforms_have_the_moments_and_the_histogram_of_the_uniform_law(seed):
    draws = many_uniforms(make_key(seed), SERVICE, 0, DRAWS, 0)
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    for column in draws.T:
        assert abs(column.mean() - 0.5) < 4.0 * math.sqrt(1.0 / 12.0 / DRAWS)
        assert abs(column.var() - 1.0 / 12.0) < 4.0 * math.sqrt(1.0 / 180.0 / DRAWS)
        counts = np.bincount((column * 256).astype(np.int64), minlength=256)
        chi = np.sum((counts - DRAWS / 256) ** 2) / (DRAWS / 256)
        assert abs(chi - 255.0) < 4.0 * math.sqrt(2.0 * 255.0)
        fraction = np.mod(column * 2.0**20, 1.0)  # the low bits are uniform too
        assert abs(fraction.mean() - 0.5) < 4.0 * math.sqrt(1.0 / 12.0 / DRAWS)


def test_streams_rounds_replicas_and_seeds_are_independent():
    base = many_uniforms(make_key(3, 1), SERVICE, 0, DRAWS, 0)
    others = {
        "other stream": many_uniforms(make_key(3, 1), CONTEXT, 0, DRAWS, 0)[:, 0],
        "other replica": many_uniforms(make_key(3, 2), SERVICE, 0, DRAWS, 0)[:, 0],
        "other seed": many_uniforms(make_key(4, 1), SERVICE, 0, DRAWS, 0)[:, 0],
        "other high half of the seed": many_uniforms(make_key(3 + 2**32, 1), SERVICE, 0, DRAWS, 0)[
            :, 0
        ],
        "other index": many_uniforms(make_key(3, 1), SERVICE, 0, DRAWS, 1)[:, 0],
        "next round": many_uniforms(make_key(3, 1), SERVICE, 1, DRAWS, 0)[:, 0],
        "far round": many_uniforms(make_key(3, 1), SERVICE, 2**40, DRAWS, 0)[:, 0],
        "second of the pair": base[:, 1],
    }
    for name, other in others.items():
        assert abs(z_score(base[:, 0], other)) < 4.0, name
        cells = (base[:, 0] * 16).astype(np.int64) * 16 + (other * 16).astype(np.int64)
        counts = np.bincount(cells, minlength=256)
        chi = np.sum((counts - DRAWS / 256) ** 2) / (DRAWS / 256)
        assert abs(chi - 255.0) < 4.0 * math.sqrt(2.0 * 255.0), name


@pytest.mark.parametrize("dimension", range(1, 10))
def test_fill_cubes_equals_fill_cube_attempt_by_attempt(dimension):
    rows = -(-dimension // 4) * 4
    for seed, number, first in ((0, 0, 0), (2**63, 2**40, 3), (9, LARGE, 2**40)):
        key = make_key(seed, 5)
        many = np.full((rows, 6), np.nan)
        fill_cubes(key, CONTEXT, number, first, many)
        for column in range(6):
            one = np.full(dimension, np.nan)
            fill_cube(key, CONTEXT, number, first + column, one)
            assert np.array_equal(one, many[:dimension, column])
        blocks = rows // 4
        lanes = [
            lane
            for b in range(blocks)
            for lane in plain_lanes(seed, 5, CONTEXT, number, first * blocks + b)
        ]
        assert np.array_equal(many[:, 0], [(lane + 0.5) / 2**31 - 1.0 for lane in lanes])
        assert len(np.unique(many)) == many.size  # no block is used twice


@pytest.mark.parametrize("dimension", [1, 5, 8])
def test_cube_components_are_uniform_on_the_open_cube_and_uncorrelated(dimension):
    rows = -(-dimension // 4) * 4
    count = 100_000
    x = np.empty((rows, count))
    fill_cubes(make_key(11), CONTEXT, 0, 0, x)
    assert np.abs(x).max() < 1.0
    assert np.all(np.abs(x.mean(axis=1)) < 4.0 * math.sqrt(1.0 / 3.0 / count))
    assert np.all(np.abs(x.var(axis=1) - 1.0 / 3.0) < 4.0 * math.sqrt(4.0 / 45.0 / count))
    correlation = np.corrcoef(x) - np.eye(rows)
    assert np.abs(correlation).max() < 4.5 / math.sqrt(count)
    assert abs(z_score(x[0, 1:], x[0, :-1])) < 4.0


WITHOUT_JIT = """
import json
import numba
import numpy as np
from headway import rng
assert numba.config.DISABLE_JIT
places = json.loads(input())
out = []
for seed, replica, stream, number, index in places:
    key = rng.make_key(seed, replica)
    x = np.empty(7)
    rng.fill_cube(key, stream, number, index // 2, x)
    many = np.empty((8, 2))
    rng.fill_cubes(key, stream, number, index // 2, many)
    draws = [*rng.uniforms(key, stream, number, index), *x, *many.ravel()]
    out.append([float(each).hex() for each in draws])
print(json.dumps(out))
"""


def test_the_same_bits_without_compilation_and_without_a_warning():
    edges = (0, 1, 2**32 - 1, 2**32, 2**40)
    places = [
        (seed, replica, stream, number, index)
        for seed in (0, 7, 2**63, 2**64 - 1)
        for replica in (0, 2**32 - 1)
        for stream in (SERVICE, CONTEXT)
        for number in (*edges, LARGE)
        for index in edges
    ]
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_JIT],
        input=json.dumps(places),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    for place, plain in zip(places, json.loads(finished.stdout), strict=True):
        seed, replica, stream, number, index = place
        key = make_key(seed, replica)
        x = np.empty(7)
        fill_cube(key, stream, number, index // 2, x)
        many = np.empty((8, 2))
        fill_cubes(key, stream, number, index // 2, many)
        draws = [*uniforms(key, stream, number, index), *x, *many.ravel()]
        assert [float(each).hex() for each in draws] == plain, place
