"""The world of an experiment: a scenario, a trace, or one of the real data sets."""

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import HeadwayError, unknown
from headway.kernel.logistic import ridge_mle
from headway.sim.run import World
from headway.state import Floats
from headway.world.datasets import Dataset, load
from headway.world.outcomes import Outcomes
from headway.world.scenario import Scenario
from headway.world.tape import Tape

REWARDS = ("label", "logistic")
FITTED_ROWS = 10_000
FIT_RIDGE = 1.0


def make_world(described: dict[str, Any], data_dir: str | None = None) -> World:
    """From a table of an experiment: `data` = a data set, `tape` = a trace, else a scenario."""
    if "data" in described:
        return data_world(data_dir=data_dir, **checked(described, DATA_KEYS))
    if "tape" in described:
        return tape_world(**checked(described, TAPE_KEYS))
    return Scenario(**checked(described, Scenario.__dataclass_fields__))


DATA_KEYS = ("data", "reward", "arrival_rate", "norm_bound")
TAPE_KEYS = ("tape", "theta_star")


def checked(described: dict[str, Any], known: Any) -> dict[str, Any]:  # noqa: ANN401 - names
    """The same table; a key that nobody reads is named."""
    for key in described:
        if key not in known:
            raise unknown("key of the world", key, known)
    return described


@functools.cache
def tape_world(tape: str, theta_star: str | None = None) -> Tape:
    """A person's own trace."""
    return Tape.from_file(Path(tape), theta_star=theta_star)


@functools.cache
def data_set(name: str, data_dir: str | None) -> Dataset:
    """A data set, read once a process."""
    return load(name, data_dir=data_dir)


@functools.cache
def fitted_parameters(name: str, data_dir: str | None) -> Floats:
    """theta_star of a data set whose outcomes are made logistic: one class against the rest, ridge
    1, on the first 10,000 rows.
    """
    found = data_set(name, data_dir)
    rows = np.ascontiguousarray(found.contexts[:FITTED_ROWS])
    labels = found.labels[:FITTED_ROWS]
    return np.array(
        [
            ridge_mle(rows, (labels == server).astype(np.float64), FIT_RIDGE)
            for server in range(found.servers)
        ]
    )


@functools.cache
def data_world(
    data: str,
    reward: str = "label",
    arrival_rate: float | None = None,
    norm_bound: float | None = None,
    data_dir: str | None = None,
) -> Outcomes:
    """A data set as a world. Reward `label`: a job succeeds at the server of its own class and
    nowhere else. Reward `logistic`: with the probability that fitted parameters give, which
    satisfies the paper's model; the norm bound then is sqrt(d) or, if that is too short for the
    longest of them, its length rounded up.
    """
    if reward not in REWARDS:
        raise unknown("reward", reward, REWARDS)
    if not isinstance(data, str):
        raise HeadwayError(f"data {data!r} must be the name of a data set")
    found = data_set(data, data_dir)
    rate = found.arrival_rate if arrival_rate is None else arrival_rate
    if reward == "label":
        success = np.eye(found.servers)[found.labels]
        return Outcomes(
            contexts=found.contexts, success=success, arrival_rate=rate, norm_bound=norm_bound,
            name=data,
        )  # fmt: skip
    theta_star = fitted_parameters(data, data_dir)
    longest = float(math.ceil(np.linalg.norm(theta_star, axis=1).max()))
    longest = max(longest, math.sqrt(theta_star.shape[1]))
    return Outcomes(
        contexts=found.contexts, theta_star=theta_star, arrival_rate=rate,
        norm_bound=longest if norm_bound is None else norm_bound, name=data,
    )  # fmt: skip
