"""The figure of `headway regret`, drawn from its results: when regret is made, how long mistakes
live, how often the queues differ.
"""

from pathlib import Path
from typing import Any

import numpy as np

from headway.experiments.figures import LOOKS, headline
from headway.experiments.panel_figures import save
from headway.experiments.switching_results import SwitchResults
from headway.state import LEARN_NOTHING, Floats

BLUE, RED = LOOKS[0], LOOKS[1]  # solid and dark, dashed and lighter
STRETCHES = 100  # of rounds, over which the share of differing queues is averaged


def draw_switching(results: SwitchResults, path: Path) -> None:
    """Write the three frames as one PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.3), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    when, life, apart = figure.subplots(1, 3)
    summary = results.summary
    learns = summary["learner"] not in LEARN_NOTHING
    name = f"{summary['policy']} ({summary['learner']})" if learns else summary["policy"]
    text = f"{name}, {summary['rounds']:,} rounds: {headline(summary)}"
    figure.suptitle(text, fontsize=10.5, color="#333333")
    draw_when(when, results)
    draw_lives(life, results)
    draw_misalignment(apart, results)
    for axes in (when, life, apart):
        axes.grid(visible=True, color="#dddddd", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, path, "png")


def mean_band(values: Floats) -> tuple[Floats, Floats]:
    """Mean over replicas and half of its 95 % interval, column by column; 0 for one replica."""
    from scipy.special import stdtrit

    mean = values.mean(axis=0)
    replicas = values.shape[0]
    if replicas < 2:
        return mean, np.zeros_like(mean)
    half = values.std(axis=0, ddof=1) * stdtrit(replicas - 1, 0.975) / np.sqrt(replicas)
    return mean, half


def draw_when(axes: Any, results: SwitchResults) -> None:  # noqa: ANN401
    """Regret in the end if `optimal` takes over so many rounds before it, and its bound."""
    replicas, rounds = results.gap.shape
    left = np.arange(rounds, -1, -1)
    made = np.hstack([np.zeros((replicas, 1)), results.gap.cumsum(axis=1)])
    mean, half = mean_band(made)
    bound = np.concatenate([[0.0], results.bound.cumsum()])
    axes.plot(left, bound, color=RED[0], linestyle=RED[1], lw=1.6, label="bound: sum of m delta")
    axes.plot(left, mean, color=BLUE[0], linestyle=BLUE[1], lw=1.8, label="regret, 95 % band")
    axes.fill_between(left, mean - half, mean + half, color=BLUE[0], alpha=0.2, lw=0)
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.4)
    ticks = [0, *(10**power for power in range(8) if 10**power <= rounds)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(rounds, 0)
    axes.set_xlabel("rounds before the end at which optimal takes over")
    axes.set_ylabel("jobs beyond optimal in the end")
    low, high = min(0.0, float((mean - half).min())), max(float(bound[-1]), 0.01)
    axes.set_ylim(1.1 * low, 1.35 * max(high, float((mean + half).max())))
    axes.set_title("Where in time regret is made", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=9, loc="upper left")


def draw_lives(axes: Any, results: SwitchResults) -> None:  # noqa: ANN401
    """The share of mistakes that last longer than so many rounds."""
    kinds = (
        ("departure lost", results.lost, BLUE),
        ("another job served", results.swapped, RED),
    )
    longest = 1
    for name, mine, (colour, dash) in kinds:
        lives = np.sort(results.life[mine])
        if not lives.size:
            continue
        longest = max(longest, int(lives[-1]))
        share = 1.0 - np.arange(lives.size) / lives.size  # of those that live as long or longer
        axes.step(
            np.append(lives, lives[-1]), np.append(share, 0.5 / lives.size), where="pre",
            color=colour, linestyle=dash, lw=1.8,
            label=f"{name} ({mean_count(mine):,.0f} in a run)",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, 1.3 * longest + 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axes.set_xlabel("rounds until the queues are the same again")
    axes.set_ylabel("share of mistakes that live longer")
    axes.set_title("How long a mistake lives", fontsize=10, loc="left")
    if longest > 1:
        axes.legend(frameon=False, fontsize=9, loc="lower left")


def mean_count(mine: Any) -> float:  # noqa: ANN401 - flags
    """How many in a replica."""
    return float(mine.sum() / mine.shape[0])


def draw_misalignment(axes: Any, results: SwitchResults) -> None:  # noqa: ANN401
    """The share of rounds in which the policy's queue and `optimal`'s differ as sets."""
    rounds = results.misaligned.shape[1]
    starts = np.unique(
        np.linspace(0, rounds, min(STRETCHES, rounds), endpoint=False).astype(np.int64)
    )
    sizes = np.diff(np.append(starts, rounds))
    shares = np.add.reduceat(results.misaligned.astype(np.float64), starts, axis=1) / sizes
    mean, half = mean_band(shares)
    middle = starts + (sizes + 1) / 2.0
    axes.plot(middle, mean, color=BLUE[0], lw=1.6)
    axes.fill_between(
        middle, np.maximum(mean - half, 0.0), np.minimum(mean + half, 1.0), color=BLUE[0],
        alpha=0.2, lw=0,
    )  # fmt: skip
    axes.set_ylim(0.0, 1.02)
    axes.set_xlim(0, rounds)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("round")
    axes.set_ylabel("share of rounds, 95 % band")
    axes.set_title("How often the two queues hold different jobs", fontsize=10, loc="left")
