"""The paper's bounds on one world beside what runs of its two policies show there."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError, unknown
from headway.rng import make_key
from headway.settings import find_policy, setting_names
from headway.sim.compare import Interval, interval
from headway.sim.run import Advance, Run, World, check_size, simulate
from headway.theory import bounds
from headway.theory.formulas import (
    CONSTANTS,
    Premises,
    explored_growth,
    log_burn_in,
    log_experiment_burn_in,
    log_explore,
    log_of,
    log_or_never,
    log_radius,
    margin,
    needed_samples,
    radius,
    value_of,
)
from headway.theory.measured import (
    PROVEN,
    Growth,
    Watched,
    bad_rounds,
    drift,
    eigenvalue_growth,
    rate_gap,
    summary,
    tail,
    watch,
)
from headway.world.problem import draw_context
from headway.world.scenario import Scenario

FIRST, SECOND = "cqb-eps", "cqb-opt"  # the policies of Theorem 1 and Theorem 2
IID = ("cube", "ball", "finite", "fixed")  # contexts that Assumption 3 allows
PROBES = 4_000  # contexts of each replica, of which least_moment is taken
SHARED = ("kappa", "ridge", "norm_bound", "failure_prob", "explore_prob", "burn_in_constant")
SINGULAR = 1e-9  # a moment matrix below it has an eigenvalue of 0, but for rounding


class Row(NamedTuple):
    """One quantity of the paper, its value at this horizon, and what was measured."""

    theorem: int
    quantity: str
    place: str  # in the paper
    value: float  # infinite beyond floating point
    log10: float | None  # of the value; None of a negative one
    measured: str
    trivial: str  # what the bound must be below to say something: "T", "1", or nothing is asked
    log10_from: float | None  # the horizon from which it is; None = never
    since: str = ""  # in other words than a horizon


@dataclass(frozen=True)
class TheoryReport:
    """What `headway theory` prints."""

    rounds: int
    replicas: int
    seed: int
    learner: str
    scenario: dict[str, Any]
    premises: Premises
    rows: tuple[Row, ...]
    one_job: dict[str, float | None]  # log10 of the horizon from which a bound is below one job
    measured: dict[str, dict[str, Any]]
    remarks: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """As JSON has it, once infinity and NaN are null."""
        return {
            **{name: getattr(self, name) for name in ("rounds", "replicas", "seed", "learner")},
            "scenario": self.scenario,
            "premises": {
                **dataclasses.asdict(self.premises), "kappa_needed": self.premises.kappa_needed
            },
            "rows": [each._asdict() for each in self.rows],
            "one_job_log10_from": self.one_job,
            "measured": self.measured,
            "remarks": list(self.remarks),
        }  # fmt: skip


def theory(
    world: World,
    *,
    rounds: int,
    replicas: int = 20,
    seed: int = 0,
    learner: str = "paper",
    threads: int | None = None,
    advance: Advance | None = None,
    **settings: Any,  # noqa: ANN401 - settings by name, checked one by one
) -> TheoryReport:
    """The bounds on this scenario, and runs of CQB-eps and CQB-Opt to put beside them.

    Contexts are divided into the unit ball, as Assumption 1 asks; success rates stay. `settings`
    are the policies' and the constants c_1, c_2, c_3 and `constant`.
    """
    scenario = in_unit_ball(world)
    check_size(world, rounds=rounds, replicas=replicas, seed=seed, every=1, threads=threads)
    log_of(rounds)
    check_settings(settings, learner)
    moment = least_moment(scenario, seed, replicas) if scenario.contexts in IID else 0.0
    premises = premises_of(scenario, moment, settings)
    given: dict[str, Any] = {"rounds": rounds, "replicas": replicas, "seed": seed}
    runs: dict[str, Run] = {}
    for name in (FIRST, SECOND) if scenario.contexts in IID else (SECOND,):
        names = setting_names(find_policy(name), learner)
        own = {key: value for key, value in settings.items() if key in names}
        runs[name] = simulate(
            name, scenario, learner=learner, record=True, threads=threads, advance=advance,
            **given, **own,
        )  # fmt: skip
    rows: list[Row] = []
    measured: dict[str, dict[str, Any]] = {}
    for name, run in runs.items():
        watched, regret = watch(run), regret_at_horizon(run, threads)
        measured[name] = measures(watched, regret)
        if name == FIRST:
            growth = eigenvalue_growth(run, premises)
            measured[name]["eigenvalue_growth"] = summary(growth)
            rows += first_rows(premises, run, watched, growth, regret)
        else:
            rows += second_rows(premises, rounds, watched, regret)
    one_job = {
        name: in_tens(bounds.log_horizon(bound, premises, bounds.below_one))
        for name, bound in ONE_JOB.items()
        if FIRST in runs or not name.startswith("theorem_1")
    }
    return TheoryReport(
        rounds=rounds, replicas=replicas, seed=seed, learner=learner,
        scenario=scenario.describe(), premises=premises, rows=tuple(rows), one_job=one_job,
        measured=measured, remarks=remarks_on(scenario, premises, rounds, settings, runs),
    )  # fmt: skip


ONE_JOB = {
    "theorem_1": bounds.log_theorem_1,
    "theorem_1_order": bounds.log_theorem_1_order,
    "theorem_2": bounds.log_theorem_2,
    "theorem_2_order": bounds.log_theorem_2_order,
}


# What is asked of the world.


def in_unit_ball(world: World) -> Scenario:
    """The scenario with contexts in the unit ball; where the paper's lemmas are void, an error."""
    if not isinstance(world, Scenario):
        raise HeadwayError(
            f"world {type(world).__name__} states no law of its jobs: the paper's bounds need a "
            "scenario"
        )
    if world.norm_bound is None:
        raise HeadwayError(
            f"contexts {world.contexts!r} have no bound, which Assumption 1 asks for: take ball"
        )
    if world.slack_by != "reject" or world.slack <= 0.0:
        asked = f"slack {world.slack:g}" if world.slack <= 0.0 else f"slack_by {world.slack_by!r}"
        raise HeadwayError(
            f"{asked}: Assumption 4 asks for a slack above 0 on every context (slack_by reject)"
        )
    if world.arrivals != "bernoulli":
        raise HeadwayError(
            f"arrivals {world.arrivals!r} are no coin of one rate: the drift that all bounds rest "
            "on is void, take bernoulli"
        )
    return dataclasses.replace(world, unit_norm=True)


def check_settings(settings: dict[str, Any], learner: str) -> None:
    """Refuse a learner without a confidence set, and a setting that nothing here has."""
    if learner not in PROVEN:
        raise HeadwayError(
            f"learner {learner!r} has no confidence set to look at: take {' or '.join(PROVEN)}"
        )
    known = {*CONSTANTS, *SHARED}
    for name in (FIRST, SECOND):
        known.update(setting_names(find_policy(name), learner))
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)


def premises_of(scenario: Scenario, moment: float, settings: dict[str, Any]) -> Premises:
    """The assumptions on this scenario, with what was given."""
    given = {name: settings[name] for name in (*CONSTANTS, *SHARED) if name in settings}
    stated: dict[str, Any] = {"norm_bound": scenario.norm_bound, **given}
    return Premises(
        servers=scenario.servers,
        dimension=scenario.dimension,
        arrival_rate=float(scenario.arrival_rate),
        slack=float(scenario.slack),
        least_moment=moment,
        **stated,
    )


def least_moment(scenario: Scenario, seed: int, replicas: int) -> float:
    """sigma_0^2 of Assumption 3: the least eigenvalue of E[x x'], in the worst of the replicas."""
    return min(replica_moment(scenario, seed, replica) for replica in range(replicas))


def replica_moment(scenario: Scenario, seed: int, replica: int) -> float:
    """The least eigenvalue of the mean of x x' over a replica's first jobs."""
    problem = scenario.instance(seed, replica).problem
    key = make_key(seed, replica)
    d = scenario.dimension
    x, nobody, nothing = np.empty((PROBES, d)), np.empty((0, d, d)), np.empty(0)
    for number in range(PROBES):
        draw_context(problem, nobody, nothing, key, 1, number, x[number])
    least = float(np.linalg.eigvalsh(x.T @ x / PROBES)[0])
    return least if least > SINGULAR else 0.0


def remarks_on(
    scenario: Scenario, premises: Premises, rounds: int, settings: dict[str, Any],
    runs: dict[str, Run],
) -> tuple[str, ...]:  # fmt: skip
    """What a reader of the table should know."""
    found = [remark for run in runs.values() for remark in run.remarks]
    if premises.kappa < premises.kappa_needed:
        found.append(
            f"kappa {premises.kappa:g} is below the {premises.kappa_needed:.6g} that Assumption 2 "
            f"asks for with |x| <= 1 and norm_bound {premises.norm_bound:g}: the bounds are "
            "theorems only from there on"
        )
    if premises.norm_bound < (scenario.norm_bound or 0.0):
        found.append(
            f"norm_bound {premises.norm_bound:g} is below the world's {scenario.norm_bound:g}"
        )
    if settings.get("beta_scale", 1.0) != 1.0:
        found.append(f"beta_scale {settings['beta_scale']:g}: the bounds are those of 1")
    if FIRST not in runs:
        found.append(
            f"Theorem 1 is left out: contexts {scenario.contexts!r} are not i.i.d. (Assumption 3)"
        )
    elif log_burn_in(premises, log_of(rounds)) == math.inf:
        found.append(
            "Theorem 1 is void here: "
            + ("some direction has no context (Assumption 3)" if not premises.least_moment else
               f"slack {premises.slack:g} is at most 2 explore_prob")
        )  # fmt: skip
    return tuple(found)


# What was measured.


def regret_at_horizon(run: Run, threads: int | None) -> Interval:
    """The paper's R_T = Q(T) - Q*(T) of each replica: column T-1, before round T."""
    lengths = run.queue_length[:, run.rounds - 1].astype(np.int64)
    return interval(lengths - yardstick(run, threads)[:, run.rounds - 1])


def yardstick(run: Run, threads: int | None) -> NDArray[np.int32]:
    """Queue lengths of `optimal` on the same draws; of an adaptive world, on the run's jobs."""
    given: dict[str, Any] = {"rounds": run.rounds, "threads": threads}
    if not run.world.adaptive:
        given |= {"seed": run.seed, "replicas": run.replicas}
        return simulate("optimal", run.world, **given).queue_length
    tapes = (run.tape(replica) for replica in range(run.replicas))
    return np.vstack([simulate("optimal", tape, **given).queue_length for tape in tapes])


def measures(watched: Watched, regret: Interval) -> dict[str, Any]:
    """All that was seen of one policy."""
    return {
        "regret": regret._asdict(),
        "widest_radius": float(watched.widest.max()),
        "bad_rounds": summary(bad_rounds(watched)),
        "drift": summary(drift(watched)),
        "tail": summary(tail(watched)),
        "rate_gap": summary(rate_gap(watched)),
    }


# Rows.


def in_tens(log: float | None) -> float | None:
    """A natural logarithm as one of base 10."""
    return None if log is None else log / math.log(10.0)


def bound_row(
    theorem: int, quantity: str, place: str, bound: bounds.LogBound, premises: Premises,
    rounds: int, measured: str = "", *, trivial: str = "T",
) -> Row:  # fmt: skip
    """A bound at this horizon and where it gets below the trivial one."""
    log = bound(premises, log_of(rounds))
    limit = {"T": bounds.below_rounds, "1": bounds.below_one}.get(trivial)
    since = None if limit is None else bounds.log_horizon(bound, premises, limit)
    return Row(
        theorem, quantity, place, value_of(log), in_tens(log), measured, trivial, in_tens(since)
    )


def used_radius(watched: Watched) -> str:
    """The largest one; only the paper's learner has one on its scale."""
    return f"{watched.widest.max():.3g} used" if watched.learner == "paper" else ""


def shown(value: Interval) -> str:
    """A mean with its half-width, where there is one."""
    half = value.high - value.mean
    return f"{value.mean:,.3g}" if math.isnan(half) else f"{value.mean:,.3g} ± {half:,.2g}"


def first_rows(
    premises: Premises, run: Run, watched: Watched, growth: Growth, regret: Interval
) -> list[Row]:
    """CQB-eps and Theorem 1."""
    last = growth.rows[-1]
    gap = rate_gap(watched).late
    coin = math.exp(log_explore(premises, log_of(run.rounds)))
    used = f"{run.settings['burn_in_rounds']:,} used"

    def row(quantity: str, place: str, bound: Any, measured: str = "", trivial: str = "T") -> Row:  # noqa: ANN401
        return bound_row(1, quantity, place, bound, premises, run.rounds, measured, trivial=trivial)

    left = margin(premises, log_of(run.rounds))
    wanted = 16.0 * (radius(premises, run.rounds) / left) ** 2 if left > 0.0 else math.inf
    needed = needed_samples(premises, wanted, run.rounds)
    grown = explored_growth(premises, float(run.rounds - growth.burn_in_rounds), coin)
    since = bounds.log_horizon(bounds.log_last_growth_failure, premises, bounds.below_one)
    return [
        row("confidence radius", "eq. (1)", log_radius, used_radius(watched), ""),
        row("burn-in, theorem", "eq. (2)", log_burn_in),
        row("burn-in, experiments", "section 7", log_experiment_burn_in, used),
        Row(1, "contexts a server needs", "eq. (5)", needed, in_tens(log_or_never(needed)),
            "", "", None),
        row("threshold omega", "Lemma 5.4", bounds.log_threshold),
        Row(1, "least eigenvalue grows by", "Lemma C.2", grown, in_tens(log_or_never(grown)),
            f"{last.least:.3g} or more", "1", in_tens(since)),
        row("rate gap M at T", "app. E.1", bounds.log_last_rate_gap, f"{gap:.3g}", "1"),
        row("long-term effect at T/2", "app. E.1", bounds.log_middle_long_term, "", "1"),
        row("regret R_T, as proved", "Thm. 5.5", bounds.log_theorem_1, shown(regret)),
        row("regret R_T, as stated", "Thm. 5.5", bounds.log_theorem_1_order, shown(regret)),
    ]  # fmt: skip


def second_rows(premises: Premises, rounds: int, watched: Watched, regret: Interval) -> list[Row]:
    """CQB-Opt and Theorem 2."""
    bad, fall, tails = bad_rounds(watched), drift(watched), tail(watched)
    long, speaks = tails.rows[-1], math.ceil(tails.speaks_from)
    seen = f"{fall.worst:+.3f} or less" if fall.good else "no good round"
    drifting = "" if math.isnan(fall.mean_bad) else f"mean {fall.mean_bad:+.3f}"
    counted = f"{bad.count.mean:,.0f} of {bad.chosen.mean:,.0f}"

    def row(quantity: str, place: str, bound: Any, measured: str = "", trivial: str = "T") -> Row:  # noqa: ANN401
        return bound_row(2, quantity, place, bound, premises, rounds, measured, trivial=trivial)

    return [
        row("confidence radius", "eq. (1)", log_radius, used_radius(watched), ""),
        row("bad rounds", "Prop. 6.1", bounds.log_bad_rounds, counted),
        Row(2, "drift in a good round", "Prop. D.1", fall.promised, None, seen, "", None),
        Row(2, "drift in a bad round", "", math.nan, None, drifting, "", None),
        row("threshold omega'", "eq. (3)", bounds.log_adversarial_threshold),
        Row(2, f"P(Q >= 2 bad + {math.ceil(long.beyond)})", "Lemma C.6", long.bound,
            math.log10(long.bound), f"{long.share:.2g}", "", None, f"from + {speaks}"),
        row("regret R_T, as proved", "Thm. 6.3", bounds.log_theorem_2, shown(regret)),
        row("regret R_T, as stated", "Thm. 6.3", bounds.log_theorem_2_order, shown(regret)),
    ]  # fmt: skip
