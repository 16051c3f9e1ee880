"""What a policy is: two functions over plain arrays, and the settings it has.

    choose(params, model, clock, queue, key) -> (job, server)     may write only the clock
    learn(params, model, x, tries, server, success) -> None       may write only the model

Outcomes come late, out of order or never: that is why choosing may not learn and learning may not
choose.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headway.errors import HeadwayError, unknown
from headway.state import LEARNERS, Params

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RULED = (
    "assumed_slack",
    "cutoff",
    "burn_in_constant",
    "half_life",
)  # settings that only rules read, no compiled code
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


MOST_OWN = 4


@dataclass(frozen=True)
class Policy:
    """A way to choose (job, server) pairs. The first learner is its default.

    `defaults` are the policy's settings. One that `Params` has no field for is read as
    params.own_1, params.own_2, ... in the order of `defaults`.
    """

    name: str
    choose: Callable[..., Any]
    learn: Callable[..., Any]
    learners: tuple[str, ...] = ("none",)
    defaults: Mapping[str, float | str | Rule] = field(default_factory=dict)
    derived: Mapping[str, Rule] = field(default_factory=dict)  # from the settings; never given
    about: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise HeadwayError(
                f"policy name {self.name!r} must be letters, digits, dots, dashes: 'my-policy'"
            )
        for part in ("choose", "learn"):
            if not callable(getattr(self, part)):
                raise HeadwayError(
                    f"policy {self.name}: {part} {getattr(self, part)!r} is not a function"
                )
        if not self.learners or isinstance(self.learners, str):
            raise HeadwayError(
                f"policy {self.name}: learners {self.learners!r} must be a tuple of names"
            )
        for learner in self.learners:
            if learner not in LEARNERS:
                raise unknown(f"learner of policy {self.name}", learner, LEARNERS)
        if len(self.own) > MOST_OWN:
            raise HeadwayError(
                f"policy {self.name} has {len(self.own)} settings of its own "
                f"({', '.join(self.own)}): at most {MOST_OWN} have room"
            )

    @property
    def own(self) -> tuple[str, ...]:
        """The settings that only this policy knows."""
        known = (*Params._fields, *RULED)
        return tuple(name for name in self.defaults if name not in known)
