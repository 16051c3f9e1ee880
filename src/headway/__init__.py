"""headway: learn which server suits which job while the queue stays short."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.check import Report as Report
    from headway.check import check_policy as check_policy
    from headway.errors import HeadwayError as HeadwayError
    from headway.policies import POLICIES as POLICIES
    from headway.policy import Policy as Policy
    from headway.sim.compare import Comparison as Comparison
    from headway.sim.compare import Interval as Interval
    from headway.sim.compare import compare as compare
    from headway.sim.run import Run as Run
    from headway.sim.run import simulate as simulate
    from headway.world.outcomes import Outcomes as Outcomes
    from headway.world.scenario import Scenario as Scenario
    from headway.world.tape import Tape as Tape

__version__ = "0.1.0"

# Where each public name lives. They load when first used: importing headway imports no Numba.
HOMES = {
    "Comparison": "sim.compare",
    "Interval": "sim.compare",
    "HeadwayError": "errors",
    "POLICIES": "policies",
    "Outcomes": "world.outcomes",
    "Policy": "policy",
    "Run": "sim.run",
    "Scenario": "world.scenario",
    "Tape": "world.tape",
    "Report": "check",
    "check_policy": "check",
    "compare": "sim.compare",
    "simulate": "sim.run",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in HOMES:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    return getattr(importlib.import_module(f"headway.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*HOMES, "__version__"])
