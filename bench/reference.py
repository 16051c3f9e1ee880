"""The plain numpy and scipy reference of the policies CQB-Opt and CQB-eps, and its own timing.

It follows the paper line by line and imports nothing of the compiled program, so that it can
serve both as the yardstick of speed and as the other side of a differential test.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, root
from scipy.special import expit, log_expit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TIE_WIDTH = 1e-10  # scores this close to the best count as equal
NEARNESS = 1e-2  # L-BFGS-B ends at most so far from the MLE; Newton is safe and fast from there
NEWTON_STEP = 1e-6  # a Newton step below this leaves an error of about its square
NEWTON_LIMIT = 20  # never reached so near the optimum
SLSQP_OPTIONS = {"ftol": 1e-14, "maxiter": 200}
ROOT_TOLERANCE = 1e-13
FEASIBLE_EXCESS = 1e-9  # how far beyond the ball a polished projection may lie, relatively
VALUE_EXCESS, VALUE_FLOOR = 1e-6, 1e-15  # how much a polished value may exceed the rough one


def log_loss(theta: Floats, signed: Floats, ridge: float) -> tuple[float, Floats]:
    """The ridge log-loss and its gradient; a row of `signed` is x on success and -x on failure."""
    margin = signed @ theta
    value = 0.5 * ridge * (theta @ theta) - log_expit(margin).sum()
    return value, ridge * theta - expit(-margin) @ signed


def fit_mle(start: Floats, signed: Floats, ridge: float) -> Floats:
    """The minimiser of the ridge log-loss: L-BFGS-B from `start`, then Newton steps.

    L-BFGS-B alone stops at about 1e-8, where the loss no longer changes in double precision.
    """
    theta = minimize(
        log_loss,
        start,
        args=(signed, ridge),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": NEARNESS * ridge, "ftol": 0.0},
    ).x
    identity = np.eye(len(theta))
    for _ in range(NEWTON_LIMIT):
        rate = expit(signed @ theta)
        gradient = ridge * theta - (1.0 - rate) @ signed
        curvature = (signed.T * (rate * (1.0 - rate))) @ signed + ridge * identity
        step = np.linalg.solve(curvature, gradient)
        theta = theta - step
        if np.abs(step).max() < NEWTON_STEP:
            return theta
    raise ArithmeticError("the Newton steps towards the MLE did not converge")


@dataclass
class Projection:
    """Distance from `mle` in the metric of the paper, minimised over the ball of `radius`."""

    mle: Floats
    contexts: Floats
    inverse: Floats
    radius: float
    ridge: float  # weight of theta - mle in the residual; 0 for the paper's formula

    def weighted_residual(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """The rates at `theta`, the residual there, and V^-1 times the residual."""
        rate = expit(self.contexts @ theta)
        shift = rate - expit(self.contexts @ self.mle)
        residual = shift @ self.contexts + self.ridge * (theta - self.mle)
        return rate, residual, self.inverse @ residual

    def objective(self, theta: Floats) -> tuple[float, Floats]:
        """Half the squared distance and its gradient."""
        rate, residual, weighted = self.weighted_residual(theta)
        pull = rate * (1.0 - rate) * (self.contexts @ weighted)
        return 0.5 * (residual @ weighted), pull @ self.contexts + self.ridge * weighted

    def stationarity(self, point: Floats) -> tuple[Floats, Floats]:
        """The equations of a minimiser on the sphere in (theta, multiplier), and their Jacobian."""
        theta, multiplier = point[:-1], point[-1]
        rate, _, weighted = self.weighted_residual(theta)
        slope, identity = rate * (1.0 - rate), np.eye(len(theta))
        change = (self.contexts.T * slope) @ self.contexts + self.ridge * identity
        bend = slope * (1.0 - 2.0 * rate) * (self.contexts @ weighted)
        second = change @ self.inverse @ change + (self.contexts.T * bend) @ self.contexts
        jacobian = np.block(
            [
                [second + multiplier * identity, theta[:, None]],
                [2.0 * theta[None, :], np.zeros((1, 1))],
            ]
        )
        balance = change @ weighted + multiplier * theta
        return np.append(balance, theta @ theta - self.radius**2), jacobian

    def polish(self, theta: Floats) -> Floats:
        """Solves the stationarity equations from `theta`; keeps `theta` if that leads astray."""
        value, gradient = self.objective(theta)
        multiplier = -(gradient @ theta) / self.radius**2
        point = root(
            self.stationarity, np.append(theta, multiplier), jac=True, tol=ROOT_TOLERANCE
        ).x
        polished = point[:-1]
        inside = np.linalg.norm(polished) <= self.radius * (1.0 + FEASIBLE_EXCESS)
        no_worse = self.objective(polished)[0] <= value * (1.0 + VALUE_EXCESS) + VALUE_FLOOR
        return polished if inside and no_worse and point[-1] >= 0.0 else theta

    def solve(self, starts: list[Floats]) -> Floats:
        """The best of the polished SLSQP solutions; the ball always binds when |mle| > radius."""
        ball = {
            "type": "ineq",
            "fun": lambda theta: self.radius**2 - theta @ theta,
            "jac": lambda theta: -2.0 * theta,
        }
        found = []
        for start in starts:
            rough = minimize(
                self.objective,
                start,
                jac=True,
                method="SLSQP",
                constraints=[ball],
                options=SLSQP_OPTIONS,
            ).x
            length = np.linalg.norm(rough)
            on_sphere = rough * (self.radius / length) if length > 0.0 else start
            found.append(self.polish(on_sphere))
        return min(found, key=lambda theta: self.objective(theta)[0])


@dataclass(frozen=True)
class Settings:
    """What the learner of every server shares."""

    servers: int
    kappa: float
    ridge: float
    norm_bound: float
    failure_prob: float
    projection: str


class Server:
    """One server's history and what is learned from it."""

    def __init__(self, dimension: int, rounds: int, settings: Settings) -> None:
        self.settings = settings
        self.count = 0
        self.contexts = np.empty((rounds, dimension))
        self.signed = np.empty((rounds, dimension))
        self.design = settings.kappa * settings.ridge * np.eye(dimension)
        self.inverse = np.linalg.inv(self.design)
        self.mle = np.zeros(dimension)
        self.theta = np.zeros(dimension)

    def radius(self) -> float:
        """The confidence radius, eq. (beta)."""
        s, dimension = self.settings, len(self.mle)
        growth = math.log(1.0 + self.count / (s.kappa * s.ridge * dimension))
        inner = 2.0 * dimension * growth + math.log(s.servers / s.failure_prob)
        return 0.5 * s.kappa * (math.sqrt(inner) + s.norm_bound * math.sqrt(s.ridge))

    def learn(self, context: Floats, success: bool) -> None:
        self.contexts[self.count] = context
        self.signed[self.count] = context if success else -context
        self.count += 1
        self.design += np.outer(context, context)
        self.inverse = np.linalg.inv(self.design)
        self.mle = fit_mle(self.mle, self.signed[: self.count], self.settings.ridge)
        self.theta = self.project()

    def project(self) -> Floats:
        """The MLE if it lies in the ball, otherwise its projection onto the ball."""
        s, length = self.settings, np.linalg.norm(self.mle)
        if length <= s.norm_bound:
            return self.mle
        weight = s.ridge if s.projection == "with_ridge" else 0.0
        task = Projection(self.mle, self.contexts[: self.count], self.inverse, s.norm_bound, weight)
        scaled = self.mle * (s.norm_bound / length)
        return task.solve([scaled, self.theta, 0.5 * scaled])


class Learner:
    """All servers, with their estimates stacked for scoring every waiting job at once."""

    def __init__(self, dimension: int, rounds: int, beta_scale: float, settings: Settings) -> None:
        self.beta_scale = beta_scale
        self.servers = [Server(dimension, rounds, settings) for _ in range(settings.servers)]
        self.theta = np.zeros((settings.servers, dimension))
        self.inverse = np.stack([server.inverse for server in self.servers])
        self.width = np.array([beta_scale * server.radius() for server in self.servers])

    def best_pair(self, waiting: Floats) -> tuple[int, int]:
        """The optimistic (position in the queue, server); ties go to the earliest, then lowest."""
        squares = np.einsum("kjd,jd->jk", waiting @ self.inverse, waiting)
        scores = expit(waiting @ self.theta.T) + self.width * np.sqrt(squares)
        first = int(np.argmax(scores >= scores.max() - TIE_WIDTH))
        return divmod(first, len(self.servers))

    def learn(self, k: int, context: Floats, success: bool) -> None:
        server = self.servers[k]
        server.learn(context, success)
        self.theta[k] = server.theta
        self.inverse[k] = server.inverse
        self.width[k] = self.beta_scale * server.radius()


def run(
    theta_star: ArrayLike,
    contexts: ArrayLike,
    arrivals: ArrayLike,
    service: ArrayLike,
    *,
    policy: str = "cqb-opt",
    rounds: int | None = None,
    kappa: float = 10.0,
    ridge: float = 1.0,
    beta_scale: float = 1.0,
    norm_bound: float | None = None,
    failure_prob: float | None = None,
    projection: str = "paper",
    burn_in_rounds: int = 0,
    explore: ArrayLike | None = None,
    explore_server: ArrayLike | None = None,
) -> dict[str, Ints]:
    """Runs one policy on given randomness; rounds are 1..T, so row t - 1 belongs to round t."""
    if policy not in ("cqb-opt", "cqb-eps") or projection not in ("paper", "with_ridge"):
        raise ValueError(f"unknown policy {policy!r} or projection {projection!r}")
    truth, jobs = np.asarray(theta_star, float), np.asarray(contexts, float)
    arrived, uniforms = np.asarray(arrivals, bool), np.asarray(service, float)
    horizon = len(arrived) if rounds is None else rounds
    servers, dimension = truth.shape
    coins = np.zeros(horizon + 1, bool) if explore is None else np.asarray(explore, bool)
    bound = math.sqrt(dimension) if norm_bound is None else norm_bound
    delta = 1.0 / horizon**2 if failure_prob is None else failure_prob
    settings = Settings(servers, kappa, ridge, bound, delta, projection)
    learner = Learner(dimension, horizon, beta_scale, settings)

    queue_length = np.zeros(horizon + 1, np.int64)
    job, server, success = (np.full(horizon, -1, np.int64) for _ in range(3))
    waiting: list[int] = []  # arrival numbers, in arrival order
    seen = pointer = 0
    for t in range(1, horizon + 1):
        if waiting:
            fresh = policy == "cqb-eps" and t >= 2 and arrived[t - 2]
            if fresh and t <= burn_in_rounds:
                place, k = len(waiting) - 1, pointer
                pointer = (pointer + 1) % servers
            elif fresh and coins[t - 1]:
                place, k = len(waiting) - 1, int(explore_server[t])
            else:
                place, k = learner.best_pair(jobs[waiting])
            context = jobs[waiting[place]]
            served = bool(uniforms[t - 1] <= expit(context @ truth[k]))
            job[t - 1], server[t - 1], success[t - 1] = waiting[place], k, served
            if served:
                waiting.pop(place)
            learner.learn(k, context, served)
        if arrived[t - 1]:
            waiting.append(seen)
            seen += 1
        queue_length[t] = len(waiting)
    return {"queue_length": queue_length, "job": job, "server": server, "success": success}


def make_instance(
    seed: int,
    servers: int = 5,
    dimension: int = 5,
    rounds: int = 5000,
    arrival_rate: float = 0.7,
    best_rate: float = 0.8,
) -> tuple[Floats, ...]:
    """Parameters and contexts uniform on (-1, 1); contexts no server serves well are redrawn."""
    rng = np.random.default_rng(seed)
    theta_star = rng.uniform(-1.0, 1.0, (servers, dimension))
    arrivals = rng.random(rounds) <= arrival_rate
    kept = np.empty((0, dimension))
    while len(kept) < arrivals.sum():
        drawn = rng.uniform(-1.0, 1.0, (rounds, dimension))
        kept = np.vstack([kept, drawn[expit(drawn @ theta_star.T).max(axis=1) >= best_rate]])
    return theta_star, kept[: arrivals.sum()], arrivals, rng.random(rounds)


def main(seeds: int = 3) -> None:
    for seed in range(seeds):
        instance = make_instance(seed)
        begin = time.process_time()
        result = run(*instance)
        spent = time.process_time() - begin
        length = result["queue_length"]
        print(
            f"seed {seed}: {len(result['job']) / spent:.0f} rounds per CPU-second, "
            f"queue length {length[-1]} at the end, {length.max()} at most"
        )


if __name__ == "__main__":
    main()
