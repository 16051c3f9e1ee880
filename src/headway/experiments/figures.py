"""Figures, drawn from results on disk. Nothing here simulates."""

from pathlib import Path
from typing import Any

import numpy as np

from headway.experiments.results import Results, Trajectories
from headway.files import write_whole

# Colours that differ in lightness too, and a dash of its own for each: they survive grey print.
LOOKS = (
    ("#0b3c8c", "-"), ("#d1495b", "--"), ("#2f9e6e", "-."), ("#8f6bb3", (0, (5, 1, 1, 1, 1, 1))),
    ("#b3721b", (0, (8, 2))), ("#3aa0c9", (0, (3, 1, 1, 1))),
    ("#6b6b6b", (0, (6, 1, 1, 1, 1, 1, 1, 1))), ("#a83279", (0, (4, 2))),
    ("#586f1c", (0, (6, 1, 1, 1))),
)  # fmt: skip
OPTIMAL_LOOK = ("#111111", ":")


def looks(names: list[str]) -> dict[str, tuple[str, Any]]:
    """A colour and a dash for each policy; the yardstick is black and dotted."""
    others = [name for name in names if name != "optimal"]
    chosen = {name: LOOKS[i % len(LOOKS)] for i, name in enumerate(others)}
    return {name: chosen.get(name, OPTIMAL_LOOK) for name in names}


def band(trajectory: Trajectories) -> tuple[Any, Any, Any]:
    """Mean over replicas and its 95 % band, column by column."""
    from scipy.special import stdtrit

    values = trajectory.queue_length
    mean = values.mean(axis=0)
    if values.shape[0] < 2:
        return mean, mean, mean
    half = values.std(axis=0, ddof=1) * stdtrit(values.shape[0] - 1, 0.975)
    half /= np.sqrt(values.shape[0])
    return mean, np.maximum(mean - half, 0.0), mean + half


def draw_comparison(results: Results, path: Path) -> None:
    """Queue length by round, and what each policy costs beyond the optimal one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1.0))
    style = looks(list(results.trajectories))
    figure.suptitle(headline(results.summary), fontsize=10.5, color="#333333")
    draw_queues(left, results, style)
    draw_regret(right, results, style)
    write_whole(path, lambda target: figure.savefig(target, dpi=150, format="png"))


def headline(summary: dict[str, Any]) -> str:
    """What was run, in one line."""
    world = summary["scenario"]
    parts = [f"{world['servers']} servers", f"dimension {world['dimension']}"]
    if "arrival_rate" in world:
        parts.append(f"arrival rate {world['arrival_rate']:g}")
    if world.get("slack_by") == "reject":
        parts.append(f"slack {world['slack']:g}")
    replicas = summary["replicas"]
    parts.append(f"{replicas} replica{'s' if replicas != 1 else ''} of seed {summary['seed']}")
    return ", ".join(parts)


def draw_queues(axes: Any, results: Results, style: dict[str, tuple[str, Any]]) -> None:  # noqa: ANN401
    """Mean queue length with its band; linear below 1 and logarithmic above."""
    tallest = 1.0
    order = sorted(
        results.trajectories,
        key=lambda name: -results.trajectories[name].queue_length[:, -1].mean(),
    )
    for name in order:
        trajectory = results.trajectories[name]
        colour, dash = style[name]
        mean, low, high = band(trajectory)
        tallest = max(tallest, float(high.max()))
        axes.plot(trajectory.round, mean, color=colour, linestyle=dash, lw=1.6, label=name)
        axes.fill_between(trajectory.round, low, high, color=colour, alpha=0.15, lw=0)
    axes.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    ticks = [0, 1, *(10**power for power in range(1, 8) if 10**power <= 1.5 * tallest)]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_ylim(0, 1.5 * tallest)
    axes.set_xlim(0, results.summary["rounds"])
    axes.set_xlabel("round")
    axes.set_ylabel("jobs waiting (mean over replicas)")
    axes.set_title("Queue length, with 95 % bands", fontsize=10, loc="left")
    axes.grid(visible=True, axis="y", color="#dddddd", lw=0.6)
    axes.legend(
        frameon=True, framealpha=0.9, edgecolor="none", fontsize=9, loc="best",
        ncols=1 if len(order) <= 5 else 2,
    )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)


def draw_regret(axes: Any, results: Results, style: dict[str, tuple[str, Any]]) -> None:  # noqa: ANN401
    """Time-average queue length beyond the optimal policy's, on a logarithmic axis."""
    rows = results.summary["policies"]
    names = sorted(
        (name for name in rows if name != "optimal"),
        key=lambda name: rows[name]["regret_mean"]["mean"],
    )
    for place, name in enumerate(names):
        measure = rows[name]["regret_mean"]
        colour, _ = style[name]
        mean = measure["mean"]
        if measure["low"] is not None:
            axes.plot([measure["low"], measure["high"]], [place, place], color=colour, lw=2.2)
        axes.plot([mean], [place], "o", color=colour, ms=6)
        axes.annotate(
            f"{mean:.3g}", (mean, place), textcoords="offset points", xytext=(0, 7),
            ha="center", fontsize=8.5, color="#333333",
        )  # fmt: skip
    values = [rows[name]["regret_mean"]["mean"] for name in names]
    if values and min(values) > 0.0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.set_xlim(min(values) / 4.0, max(values) * 4.0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.3)
    axes.invert_yaxis()
    axes.set_xlabel("jobs beyond optimal (same draws)")
    axes.set_title("Time-average queue length regret", fontsize=10, loc="left")
    axes.grid(visible=True, axis="x", color="#dddddd", lw=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
