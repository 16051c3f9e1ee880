"""Jobs drawn from the rows of a table: real contexts, outcomes known for each server."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.errors import HeadwayError
from headway.policy import Situation
from headway.world.problem import BERNOULLI, ROWS, Instance, Problem
from headway.world.tape import finite_array


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """Each arriving job is a row of `contexts`, drawn uniformly. Give one of

    - `success` (rows, servers): the row succeeds at server k with probability success[row, k]
      (0 and 1 for outcomes that never change);
      With `known` (rows, servers) `optimal` knows those rates and that a failure is final for its
      pair, and `clairvoyant` the table; without it both know the table;
    - `theta_star` (servers, dimension): it succeeds with probability sigmoid(x . theta_star[k]).

    `norm_bound` is what policies may know; by default sqrt(d), as on the cube.
    """

    contexts: Any
    success: Any = None
    known: Any = None
    theta_star: Any = None
    arrival_rate: float = 0.5
    norm_bound: float | None = None
    name: str = "table"

    def __post_init__(self) -> None:
        contexts = finite_array("contexts", self.contexts, 2)
        if 0 in contexts.shape:
            raise HeadwayError(f"outcomes: contexts has shape {contexts.shape}: no job or no axis")
        if (self.success is None) == (self.theta_star is None):
            raise HeadwayError("outcomes: give either success (rows, servers) or theta_star")
        object.__setattr__(self, "contexts", contexts)
        if self.success is not None:
            self.check_success()
        else:
            theta_star = finite_array("theta_star", self.theta_star, 2)
            if theta_star.shape[1] != contexts.shape[1] or theta_star.shape[0] == 0:
                raise HeadwayError(
                    f"outcomes: theta_star has shape {theta_star.shape}, contexts have dimension "
                    f"{contexts.shape[1]}"
                )
            object.__setattr__(self, "theta_star", theta_star)
        if not 0.0 < self.arrival_rate <= 1.0:
            raise HeadwayError(f"arrival_rate {self.arrival_rate!r} must be in (0, 1]")
        if self.norm_bound is not None and not 0.0 < self.norm_bound < math.inf:
            raise HeadwayError(f"norm_bound {self.norm_bound!r} must be a finite number above 0")

    def check_success(self) -> None:
        """Rates for every row, in [0, 1]."""
        success = finite_array("success", self.success, 2)
        if success.shape[0] != self.contexts.shape[0] or success.shape[1] == 0:
            raise HeadwayError(
                f"outcomes: success has shape {success.shape}, contexts {self.contexts.shape}"
            )
        if ((success < 0.0) | (success > 1.0)).any():
            worst = success[(success < 0.0) | (success > 1.0)][0]
            raise HeadwayError(f"outcomes: success holds {worst:g}; rates lie in [0, 1]")
        object.__setattr__(self, "success", success)
        if self.known is not None:
            known = finite_array("known", self.known, 2)
            if known.shape != success.shape or (known < 0.0).any() or (known > 1.0).any():
                raise HeadwayError(
                    f"outcomes: known has shape {known.shape}, success {success.shape}, and its "
                    "rates must lie in [0, 1]"
                )
            object.__setattr__(self, "known", known)

    @property
    def servers(self) -> int:
        """How many servers."""
        known = self.success.shape[1] if self.success is not None else self.theta_star.shape[0]
        return int(known)

    @property
    def most_rounds(self) -> int | None:
        """No limit."""
        return None

    @property
    def remembers(self) -> bool:
        """Do attempts that failed fail again, where outcomes are a table?"""
        return self.success is not None

    @property
    def adaptive(self) -> bool:
        """Never: rows are drawn by arrival number."""
        return False

    def situation(self, rounds: int | None = None) -> Situation:
        """What a policy may know. No slack is stated."""
        dimension = self.contexts.shape[1]
        bound = math.sqrt(dimension) if self.norm_bound is None else float(self.norm_bound)
        return Situation(self.servers, dimension, bound, self.arrival_rate, None, rounds)

    def describe(self) -> dict[str, Any]:
        """Its measures, for reports."""
        rows, dimension = self.contexts.shape
        return {
            "world": "outcomes",
            "name": self.name,
            "servers": self.servers,
            "dimension": dimension,
            "rows": rows,
            "arrival_rate": self.arrival_rate,
            "outcomes": "logistic" if self.success is None else "table",
        }

    def instance(self, seed: int, replica: int, rounds: int | None = None) -> Instance:  # noqa: ARG002
        """The same table for every replica; which rows arrive belongs to the replica's draws."""
        theta_star, rates = self.theta_star, self.success
        if theta_star is None:
            theta_star = np.zeros((self.servers, self.contexts.shape[1]))
        return Instance(
            Problem(
                theta_star=theta_star,
                contexts_by=ROWS,
                contexts=self.contexts,
                rates=np.empty((0, 1)) if rates is None else rates,
                known=np.empty((0, 1)) if self.known is None else self.known,
                concentration=math.inf if self.known is None else 0.0,
                arrivals_by=BERNOULLI,
                arrival_rate=float(self.arrival_rate),
            )
        )
