"""What the paper's text claims of its figures, judged from results: holds, does not hold, or
undecided at this sample size. Nothing here simulates.

Every judgement rests on an interval over replicas of a difference that is coupled: the same
problems, the same draws. A claim of several parts holds if all of them do, and does not hold if
one of them does not.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from headway.experiments.panels import Panel, Series, label
from headway.sim.compare import Interval, interval
from headway.state import Floats, Integers

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
WINDOW = 100  # rounds of the moving average that says when a policy is back
NEAR = 1.0  # jobs above optimal that count as its level
RESAMPLES = 400
ALIKE = 0.15  # how far growth may be from linear


class Claim(NamedTuple):
    """One sentence of the paper, in one version and variant, with the verdict."""

    id: str
    panel: str
    version: str
    variant: str
    text: str
    verdict: str
    evidence: dict[str, Any]


def judge(parts: Iterable[Interval]) -> str:
    """Each part claims a number above 0."""
    found = list(parts)
    if any(each.high < 0.0 for each in found):
        return FAILS
    if all(each.low > 0.0 for each in found):
        return HOLDS
    return UNDECIDED


def worst(verdicts: Iterable[str]) -> str:
    """The verdict of all together."""
    found = list(verdicts)
    for each in (FAILS, UNDECIDED):
        if each in found:
            return each
    return HOLDS


def gap(series: Series) -> Floats:
    """Q - Q* by replica and column, coupled."""
    return np.asarray(series.queue_length - series.optimal_length)


def moving_mean(values: Floats, series: Series) -> Floats:
    """Means over the last WINDOW rounds, column by column, from the first full window on."""
    step = float(series.round[1] - series.round[0]) if series.round.size > 1 else 1.0
    width = max(1, round(WINDOW / step))
    total = np.cumsum(np.insert(values, 0, 0.0, axis=-1), axis=-1)
    if values.shape[-1] <= width:
        return np.asarray(values.mean(axis=-1, keepdims=True))
    return np.asarray((total[..., width:] - total[..., :-width]) / width)


def return_round(series: Series, chosen: Integers | None = None) -> float:
    """The first round after which the mean moving average of Q - Q* stays below one job: 0 where
    it never left, infinite where it does not come back. `chosen` = replicas, for resampling.
    """
    values = gap(series) if chosen is None else gap(series)[chosen]
    smooth = moving_mean(values.mean(axis=0), series)
    above = np.flatnonzero(smooth >= NEAR)
    if above.size == 0:
        return 0.0
    if above[-1] == smooth.size - 1:
        return float("inf")
    return float(series.round[series.round.size - smooth.size + above[-1] + 1])


def last_window(series: Series) -> Interval:
    """Q - Q* over the last WINDOW rounds."""
    return interval(moving_mean(gap(series), series)[:, -1])


def earlier(one: Series, other: Series) -> Interval:
    """By how many rounds `one` is back before `other`: a bootstrap over replicas, in pairs. A
    policy that does not come back counts as back at the end of the run.
    """
    rng = np.random.default_rng(0)
    replicas = one.queue_length.shape[0]
    last = float(one.round[-1])
    draws = []
    for _ in range(RESAMPLES):
        chosen = np.asarray(rng.integers(0, replicas, replicas), np.int64)
        draws.append(min(return_round(other, chosen), last) - min(return_round(one, chosen), last))
    mean = min(return_round(other), last) - min(return_round(one), last)
    low, high = np.quantile(draws, (0.025, 0.975))
    return Interval(mean, float(np.std(draws)), float(low), float(high))


def frames(panel: Panel) -> Iterator[tuple[str, str]]:
    """Every version and variant."""
    for variant in panel.names("variant"):
        for version in panel.names("version"):
            yield version, variant


# The claims. Each yields what it found in every version and variant.


def grows_linearly(panel: Panel) -> Iterator[Claim]:
    """A linear increase in queue length under the random policy."""
    seen = set()
    for version, variant in frames(panel):
        if variant in seen:  # it learns nothing: the same in every version
            continue
        seen.add(variant)
        lengths = panel.find(version=version, variant=variant, policy="random").queue_length
        half = lengths[:, lengths.shape[1] // 2]
        final = lengths[:, -1]
        ratio = interval((final - 2.0 * half) / max(float(final.mean()), 1.0))
        verdict = UNDECIDED
        if final.mean() < 10.0 or ratio.low > ALIKE or ratio.high < -ALIKE:
            verdict = FAILS
        elif ratio.low > -ALIKE and ratio.high < ALIKE:
            verdict = HOLDS
        evidence = {"final": interval(final), "final_minus_twice_half_by_final": ratio}
        yield Claim(
            "random-grows-linearly", panel.experiment.id, "any", variant,
            "the random policy's queue grows linearly", verdict, evidence,
        )  # fmt: skip


def comes_back(panel: Panel) -> Iterator[Claim]:
    """Both algorithms decrease toward the optimal level after a certain time."""
    for version, variant in frames(panel):
        for policy in ("cqb-eps", "cqb-opt"):
            series = panel.find(version=version, variant=variant, policy=policy)
            end = last_window(series)
            verdict = HOLDS if end.high < NEAR else FAILS if end.low > NEAR else UNDECIDED
            yield Claim(
                f"{policy}-comes-back", panel.experiment.id, version, variant,
                f"{policy} comes back to the optimal level", verdict,
                {"back_after_round": finite(return_round(series)), "gap_at_the_end": end},
            )  # fmt: skip


def better_than_baselines(panel: Panel) -> Iterator[Claim]:
    """Both algorithms are compared against four additional baselines: are they ahead?"""
    for version, variant in frames(panel):
        for policy in ("cqb-eps", "cqb-opt"):
            mine = panel.find(version=version, variant=variant, policy=policy)
            leads = {
                other: interval(
                    panel.find(version=version, variant=variant, policy=other).measures[
                        "queue_mean"
                    ]
                    - mine.measures["queue_mean"]
                )
                for other in ("cqb-eps-opt", "cqb-ts", "q-ucb", "q-ths", "random")
            }
            yield Claim(
                f"{policy}-ahead-of-baselines", panel.experiment.id, version, variant,
                f"{policy} has a shorter time-average queue than every baseline",
                judge(leads.values()), {"lead": leads},
            )  # fmt: skip


def order_of_policies(panel: Panel) -> Iterator[Claim]:
    """Who is ahead of whom: neighbours in the order found, shortest first."""
    for version, variant in frames(panel):
        names = [policy for policy in panel.names("policy") if policy != "optimal"]
        mean = {
            policy: panel.find(version=version, variant=variant, policy=policy).measures[
                "queue_mean"
            ]
            for policy in names
        }
        names.sort(key=lambda name: float(mean[name].mean()))
        steps = {
            f"{other} - {one}": interval(mean[other] - mean[one])
            for one, other in itertools.pairwise(names)
        }
        apart = [each.low > 0.0 for each in steps.values()]
        text = " ".join(
            f"{name} {'<' if clear else '~'}" for name, clear in zip(names, apart, strict=False)
        )
        yield Claim(
            "order-of-baselines", panel.experiment.id, version, variant,
            f"order by time-average queue (~ = not told apart): {text} {names[-1]}",
            HOLDS if all(apart) else UNDECIDED, {"steps": steps},
        )  # fmt: skip


def sooner_with_slack(panel: Panel) -> Iterator[Claim]:
    """As slack increases, the algorithms converge faster toward the optimal queue length."""
    policy = panel.experiment.policies[0]
    values = sorted(panel.names("value"))
    for version, variant in frames(panel):
        series = {
            value: panel.find(version=version, variant=variant, value=value, policy=policy)
            for value in values
        }
        leads = {
            f"{label(more)} before {label(less)}": earlier(series[more], series[less])
            for less, more in itertools.pairwise(values)
        }
        back = {label(value): finite(return_round(each)) for value, each in series.items()}
        yield Claim(
            f"{policy}-sooner-with-slack", panel.experiment.id, version, variant,
            f"{policy} is back at the optimal level sooner with more slack",
            judge(leads.values()), {"back_after_round": back, "rounds_earlier": leads},
        )  # fmt: skip


def burn_in_then_fall(panel: Panel) -> Iterator[Claim]:
    """Longer pure exploration for small slack, followed by a sharp decrease in queue length."""
    policy = panel.experiment.policies[0]
    values = sorted(panel.names("value"))
    for version, variant in frames(panel):
        ends, left = [], {}
        for value in values:
            series = panel.find(version=version, variant=variant, value=value, policy=policy)
            end = float(series.measures["burn_in"][0])
            ends.append(end)
            left[label(value)] = share_left(series, end, panel.rounds)
        ordered = all(one > other for one, other in itertools.pairwise(ends))
        halves = [
            Interval(0.5 - each.mean, each.se, 0.5 - each.high, 0.5 - each.low)
            for each in left.values()
            if each is not None
        ]
        verdict = judge(halves) if ordered else FAILS
        if verdict == HOLDS and None in left.values():
            verdict = UNDECIDED
        yield Claim(
            f"{policy}-burn-in-then-fall", panel.experiment.id, version, variant,
            f"{policy} explores longer with less slack, then its queue falls sharply (by half or "
            "more within a quarter of the run)",
            verdict,
            {"burn_in_rounds": dict(zip(map(label, values), ends, strict=True)),
             "share_left_after_a_quarter": left},
        )  # fmt: skip


def share_left(series: Series, end: float, rounds: int) -> Interval | None:
    """The queue a quarter of the run after the burn-in by the queue at its end; None = no room."""
    later = end + rounds / 4
    if later > rounds:
        return None
    before = series.queue_length[:, np.searchsorted(series.round, end)]
    after = series.queue_length[:, np.searchsorted(series.round, later)]
    return interval(after / max(float(before.mean()), 1.0))


def worse_with_size(panel: Panel) -> Iterator[Claim]:
    """Performance deteriorates as K and d increase: by queue as plotted and by coupled regret."""
    policy = panel.experiment.policies[0]
    axis = panel.experiment.axis
    values = sorted(panel.names("value"))
    measures: dict[str, tuple[str, Callable[[Series], Floats]]] = {
        "queue": ("queue as plotted", lambda series: series.measures["queue_mean"]),
        "regret": ("coupled regret", lambda series: gap(series).mean(axis=1)),
    }
    for version, variant in frames(panel):
        for name, (words, measure) in measures.items():
            found = [
                measure(panel.find(version=version, variant=variant, value=value, policy=policy))
                for value in values
            ]
            steps = {
                f"{label(less)} to {label(more)}": interval(found[i + 1] - found[i])
                for i, (less, more) in enumerate(itertools.pairwise(values))
            }
            ends = interval(found[-1] - found[0])
            means = {
                label(value): interval(each) for value, each in zip(values, found, strict=True)
            }
            verdict = judge([*steps.values(), ends])
            yield Claim(
                f"{policy}-worse-with-{axis}-by-{name}", panel.experiment.id, version, variant,
                f"{policy}'s {words} (time average) gets longer with every step of {axis}",
                verdict, {"means": means, "steps": steps, "last_minus_first": ends},
            )  # fmt: skip


def best_on_data(panel: Panel) -> Iterator[Claim]:
    """Algorithm 1 achieves the best performance on all three data sets."""
    for version, variant in frames(panel):
        mine = panel.find(version=version, variant=variant, policy="cqb-eps")
        for measure, words in (("queue_mean", "time-average"), ("queue_final", "final")):
            leads = {
                other: interval(
                    panel.find(version=version, variant=variant, policy=other).measures[measure]
                    - mine.measures[measure]
                )
                for other in panel.names("policy")
                if other not in ("cqb-eps", "optimal")
            }
            yield Claim(
                f"cqb-eps-best-by-{measure.replace('_', '-')}", panel.experiment.id, version,
                variant, f"cqb-eps has the shortest {words} queue of all policies",
                judge(leads.values()), {"lead": leads},
            )  # fmt: skip


def finite(value: float) -> float | None:
    """A round, or None for never."""
    return value if np.isfinite(value) else None


Judge = Callable[[Panel], Iterator[Claim]]
DATA = (best_on_data, order_of_policies)
SIZES = (worse_with_size,)
CLAIMS: dict[str, tuple[Judge, ...]] = {
    "baselines": (grows_linearly, comes_back, better_than_baselines, order_of_policies),
    "slack-cqb-eps": (sooner_with_slack, burn_in_then_fall),
    "slack-cqb-opt": (sooner_with_slack,),
    "servers-cqb-eps": SIZES,
    "servers-cqb-opt": SIZES,
    "dimension-cqb-eps": SIZES,
    "dimension-cqb-opt": SIZES,
    "mnist": DATA,
    "heart": DATA,
    "coupon": DATA,
}


def claims_of(panel: Panel) -> list[Claim]:
    """Every claim that the paper makes of this panel; none of a person's own experiment."""
    judges = CLAIMS.get(panel.experiment.id, ())
    if panel.replicas < 2:  # no interval, no verdict
        return []
    return [claim for each in judges for claim in each(panel)]


def verdict_rows(claims: list[Claim]) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """The versions, and for each claim where it is made, its words and a verdict by version."""
    versions = list(dict.fromkeys(each.version for each in claims if each.version != "any"))
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for claim in claims:
        words = claim.text.partition(" (~")[0]  # the order itself differs by version
        found.setdefault((claim.panel, claim.variant, words), {})[claim.version] = claim.verdict
    rows = []
    for (panel, variant, words), verdicts in found.items():
        everywhere = verdicts.get("any", "")
        where = f"{panel}, {variant}" if variant else panel
        rows.append((where, words, [verdicts.get(name, everywhere) for name in versions]))
    return versions, rows
