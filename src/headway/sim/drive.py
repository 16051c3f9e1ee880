"""What plays the rounds of a policy: the one compiled loop, one specialised on a person's compiled
functions, or the same loop in plain Python.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba
from numba import njit

from headway.compiled import borrowed, config
from headway.policy import Policy
from headway.settings import policy_code
from headway.sim.rollout import play, rollout

# (params, model, clock, queue, key, problem, tally, last): rounds clock.round..last.
Player = Callable[..., None]


def is_compiled(function: Callable[..., Any]) -> bool:
    """Can compiled code call it?"""
    return bool(config.DISABLE_JIT) or isinstance(function, numba.core.dispatcher.Dispatcher)


def in_plain_python(policy: Policy) -> bool:
    """Does the policy hold the loop back to the speed of Python?"""
    return policy_code(policy) < 0 and not (
        is_compiled(policy.choose) and is_compiled(policy.learn)
    )


def player(policy: Policy) -> Player:
    """What plays this policy's rounds."""
    if policy_code(policy) >= 0:
        return rollout
    if in_plain_python(policy):
        return functools.partial(getattr(play, "py_func", play), policy.choose, policy.learn)
    return specialised(policy.choose, policy.learn)


@functools.cache
def specialised(choose: Callable[..., Any], learn: Callable[..., Any]) -> Player:
    """`rollout` for these two compiled functions. It is compiled anew in each process: Numba
    finds no closure again on disk.
    """

    def rollout_of(params, model, clock, queue, key, problem, tally, last):
        play(
            choose, learn, params, borrowed(model), borrowed(clock), borrowed(queue), key,
            borrowed(problem), borrowed(tally), last,
        )  # fmt: skip

    compiled: Player = njit(nogil=True, error_model="numpy")(rollout_of)
    return compiled
