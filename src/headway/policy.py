"""What a policy is: two functions over plain arrays, and the settings it has.

    choose(params, model, clock, queue, key) -> (job, server)     may write only the clock
    learn(params, model, x, tries, server, success) -> None       may write only the model

Outcomes come late, out of order or never: that is why choosing may not learn and learning may not
choose.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Settings = dict[str, Any]


class Situation(NamedTuple):
    """What a policy may know of its world before it starts. Never theta_star."""

    servers: int
    dimension: int
    norm_bound: float | None = None
    arrival_rate: float | None = None
    slack: float | None = None
    rounds: int | None = None


# A default that depends on the situation: (situation, settings so far) -> (value, remark or None).
Rule = Callable[[Situation, Settings], tuple[Any, str | None]]


@dataclass(frozen=True)
class Policy:
    """A way to choose (job, server) pairs. The first learner is its default."""

    name: str
    choose: Callable[..., Any]
    learn: Callable[..., Any]
    learners: tuple[str, ...] = ("none",)
    defaults: Mapping[str, float | str | Rule] = field(default_factory=dict)
    derived: Mapping[str, Rule] = field(default_factory=dict)  # from the settings; never given
    about: str = ""
    source: str = ""
