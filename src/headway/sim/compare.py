"""`compare`: several policies on the same draws, with intervals, against the optimal policy."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from headway.errors import HeadwayError, unknown
from headway.learners import LEARNER_ABOUT, LEARNER_SETTINGS
from headway.policies import POLICIES
from headway.policy import Policy, Settings, Situation
from headway.settings import Resolved, all_setting_names, find_policy, resolve, setting_names
from headway.sim.run import Advance, Run, World, check_size, draw_instances, run_resolved
from headway.state import LEARN_NOTHING
from headway.world.problem import GIVEN, Instance

COLUMNS = 500  # of a compared trajectory, unless `every` says otherwise


class Interval(NamedTuple):
    """A mean over replicas with its standard error and 95 % interval (Student's t)."""

    mean: float
    se: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """What `compare` returns: a run and a row of measures for each policy."""

    runs: dict[str, Run]
    yardsticks: dict[str, Run]  # for each policy `optimal` on the same jobs; one run in most worlds
    rows: dict[str, dict[str, Interval]]
    remarks: tuple[str, ...]

    @property
    def any_run(self) -> Run:
        """The optimal policy's run: it has what all runs share."""
        return self.runs["optimal"]


def interval(values: ArrayLike) -> Interval:
    """Mean, standard error and 95 % interval; the last three are NaN for one replica."""
    from scipy.special import stdtrit

    array = np.asarray(values, np.float64)
    mean = float(array.mean())
    if array.size < 2:
        return Interval(mean, math.nan, math.nan, math.nan)
    error = float(array.std(ddof=1)) / math.sqrt(array.size)
    half = float(stdtrit(array.size - 1, 0.975)) * error
    return Interval(mean, error, mean - half, mean + half)


def measures(run: Run, optimal: Run) -> dict[str, Interval]:
    """What is compared. Regret is coupled: replica by replica on the same draws."""
    return {
        "queue_final": interval(run.queue_final),
        "queue_mean": interval(run.queue_mean),
        "wait_p50": interval(run.wait(0.50)),
        "wait_p99": interval(run.wait(0.99)),
        "regret_final": interval(run.queue_final - optimal.queue_final),
        "regret_mean": interval(run.queue_mean - optimal.queue_mean),
    }


def compare(
    policies: str | Policy | Iterable[str | Policy] | None = None,
    world: World | None = None,
    *,
    rounds: int = 5000,
    replicas: int = 20,
    seed: int = 0,
    learner: str | None = None,
    every: int | str | None = None,
    threads: int | None = None,
    advance: Advance | None = None,
    settings: Mapping[str, Settings] | None = None,
    **params: Any,  # noqa: ANN401 - settings by name, checked one by one
) -> Comparison:
    """Run policies (default: all) on the same draws; `optimal` always runs.

    `params` go to every policy that has them, `settings` to the policy they name. A learner that
    a policy cannot use is ignored for it, and a remark says so where it has one of its own.
    """
    from headway.world.scenario import Scenario

    world = Scenario() if world is None else world
    chosen = pick(policies, world)
    check_size(world, rounds=rounds, replicas=replicas, seed=seed,
               every=1 if every is None else every, threads=threads)  # fmt: skip
    rounds, replicas, seed = int(rounds), int(replicas), int(seed)
    thinned = max(1, rounds // COLUMNS) if every is None else every
    plans = plan(chosen, world.situation(rounds), learner, params, settings or {})
    others = [
        each.policy.name
        for each in plans
        if learner not in (None, each.learner) and each.learner not in LEARN_NOTHING
    ]
    remarks = [f"learner {learner} ignored by {', '.join(others)}"] if others else []
    drawn = draw_instances(world, seed=seed, replicas=replicas, rounds=rounds)

    def run_on(resolved: Resolved, instances: list[Instance], told: Advance | None) -> Run:
        return run_resolved(
            resolved, world, instances, rounds=rounds, seed=seed, record=False,
            every=thinned, threads=threads, advance=told,
        )  # fmt: skip

    runs = {each.policy.name: run_on(each, drawn, advance) for each in plans}
    remarks.extend(remark for run in runs.values() for remark in run.remarks)
    yardsticks = dict.fromkeys(runs, runs["optimal"])
    if world.adaptive:
        knowing = next(each for each in plans if each.policy.name == "optimal")
        yardsticks = {name: run_on(knowing, replayed(run), None) for name, run in runs.items()}
    rows = {name: measures(run, yardsticks[name]) for name, run in runs.items()}
    return Comparison(runs, yardsticks, rows, tuple(remarks))


def replayed(run: Run) -> list[Instance]:
    """The problems of an adaptive run with the contexts that it met: now they adapt no more."""
    assert run.contexts is not None
    return [
        each._replace(problem=each.problem._replace(contexts_by=GIVEN, contexts=contexts))
        for each, contexts in zip(run.instances, run.contexts, strict=True)
    ]


def pick(policies: str | Policy | Iterable[str | Policy] | None, world: World) -> list[Policy]:
    """The policies to run, once each, `optimal` among them. By default all, the clairvoyant only
    where it knows more than `optimal`.
    """
    given = [policies] if isinstance(policies, str | Policy) else policies
    if given is None:
        given = [name for name in POLICIES if name != "clairvoyant" or world.remembers]
    wanted = [find_policy(each) for each in given]
    names = [each.name for each in wanted]
    for name in names:
        if names.count(name) > 1:
            raise HeadwayError(
                f"policy {name!r} is listed {names.count(name)} times: once is enough"
            )
    return wanted if "optimal" in names else [*wanted, POLICIES["optimal"]]


def plan(
    chosen: list[Policy],
    situation: Situation,
    learner: str | None,
    params: Settings,
    settings: Mapping[str, Settings],
) -> list[Resolved]:
    """Each policy with its learner and settings; a setting that nobody has is an error."""
    if learner is not None and (not isinstance(learner, str) or learner not in LEARNER_ABOUT):
        raise unknown("learner", learner, LEARNER_ABOUT)
    for name in settings:
        if name not in {each.name for each in chosen}:
            raise unknown("policy in a setting", name, (each.name for each in chosen))
    plans: list[Resolved] = []
    taken: set[str] = set()
    for policy in chosen:
        use = learner if learner in policy.learners else None
        names = setting_names(policy, use or policy.learners[0])
        given = {name: value for name, value in params.items() if name in names}
        taken.update(given)
        given.update(settings.get(policy.name, {}))
        plans.append(resolve(policy, situation, learner=use, given=given))
    for name in params:
        if name not in taken:
            owners = [each for each, settings in LEARNER_SETTINGS.items() if name in settings]
            if owners:
                raise HeadwayError(
                    f"setting {name!r} belongs to learner {owners[0]}, and no compared policy runs "
                    f"with it: choose learner {owners[0]} or leave it out"
                )
            if name in all_setting_names():
                raise HeadwayError(f"no compared policy has the setting {name!r}")
            raise unknown("setting", name, all_setting_names())
    if learner is not None and all(each.learner != learner for each in plans):
        raise HeadwayError(f"learner {learner!r}: no compared policy can use it")
    return plans
