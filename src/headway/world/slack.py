"""How often a world's contexts have slack: the share of probes on which some server is good enough.

Every theta_star of a seed is tried on the same probes. Worlds whose contexts change with the round
are tried in each of their phases; what counts is the worst.
"""

import functools

import numpy as np

from headway.compiled import compiled
from headway.rng import PROBE, make_key
from headway.state import Floats
from headway.world.problem import Problem, propose

PROBES = 20_000


def least_acceptance(problem: Problem, phases: tuple[int, ...], seed: int) -> float:
    """The share of contexts with slack in the worst of the phases (rounds that stand for one)."""
    kind = (problem.contexts_by, problem.active, problem.turn, problem.theta_star.shape[1])
    theta_star = problem.theta_star * problem.scale  # probes are not scaled
    return min(
        float(acceptance_share(theta_star, probes(seed, kind, phase), problem.least_logit))
        for phase in phases
    )


@functools.lru_cache(maxsize=64)
def probes(seed: int, kind: tuple[int, int, int, int], phase: int) -> Floats:
    """Contexts of one kind in one round, before scaling, one to a column."""
    contexts_by, active, turn, dimension = kind
    problem = Problem(np.empty((0, dimension)), contexts_by, active=active, turn=turn)
    drawn = np.empty((PROBES, dimension))
    fill_probes(problem, make_key(seed), phase, drawn)
    return np.ascontiguousarray(drawn.T)


@compiled
def fill_probes(problem, key, t, drawn):
    """Proposals by number."""
    for i in range(drawn.shape[0]):
        propose(problem, key, PROBE, t, i, 0, drawn[i])


@compiled
def acceptance_share(theta_star, columns, least_logit):
    """The share of contexts with max_k x . theta_star_k >= least_logit."""
    count = columns.shape[1]
    best = np.full(count, -np.inf)
    value = np.empty(count)
    for k in range(theta_star.shape[0]):
        value[:] = 0.0
        for i in range(columns.shape[0]):
            column = columns[i]
            weight = theta_star[k, i]
            for j in range(count):
                value[j] += column[j] * weight
        for j in range(count):
            best[j] = value[j] if value[j] > best[j] else best[j]
    accepted = 0
    for j in range(count):
        accepted += 1 if best[j] >= least_logit else 0
    return accepted / count
