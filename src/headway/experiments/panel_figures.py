"""Figures of experiments, drawn from results: versions side by side, variants below each other."""

from pathlib import Path
from typing import Any

import numpy as np

from headway.experiments.figures import LOOKS, looks
from headway.experiments.grid import Place
from headway.experiments.panels import Panel, Series, label
from headway.files import write_whole

WIDTH, HEIGHT, LEGEND = 4.1, 3.3, 0.55  # inches of a frame; of a line of the legend


def draw_panel(panel: Panel, stem: Path) -> None:
    """Write STEM.png and STEM.svg: mean queue length by round with a band of one deviation."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    variants, versions = panel.names("variant"), panel.names("version")
    size = (WIDTH * max(len(versions), 2), HEIGHT * len(variants) + LEGEND + 0.6)
    with mpl.rc_context({"svg.hashsalt": "headway", "font.size": 9.5}):
        figure = Figure(figsize=size, dpi=130, layout="constrained")
        FigureCanvasAgg(figure)
        frames = figure.subplots(
            len(variants), len(versions), sharex=True, sharey=True, squeeze=False
        )
        tallest = 1.0
        for row, variant in enumerate(variants):
            for column, version in enumerate(versions):
                tallest = max(tallest, draw_frame(frames[row][column], panel, variant, version))
        for row, variant in enumerate(variants):
            name_row(frames[row], variant)
        for column, version in enumerate(versions):
            frames[0][column].set_title(version or "default learners", fontsize=11, loc="left")
            frames[-1][column].set_xlabel("round")
        shape_axes(frames, tallest, panel.rounds)
        figure.suptitle(headline(panel), fontsize=11, color="#333333")
        handles, labels = frames[0][0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=min(len(labels), 8), frameon=False,
            handlelength=3.0,
        )  # fmt: skip
        for form in ("png", "svg"):
            save(figure, stem.with_suffix(f".{form}"), form)


def save(figure: Any, path: Path, form: str) -> None:  # noqa: ANN401
    """The same bytes whenever it is drawn: no date, no version. PNGs have a palette: bands are
    smooth and many, and a page holds ten of them.
    """
    if form == "svg":
        write_whole(
            path, lambda target: figure.savefig(target, format=form, metadata={"Date": None})
        )
        return
    from PIL import Image

    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    flat = picture.quantize(colors=128, dither=Image.Dither.NONE)
    write_whole(path, lambda target: flat.save(target, format="PNG", optimize=True))


def headline(panel: Panel) -> str:
    """The title, and how much was run."""
    replicas = f"{panel.replicas} instance{'s' if panel.replicas != 1 else ''}"
    return f"{panel.experiment.title}\nmean ± 1 standard deviation over {replicas}"


def line_names(panel: Panel) -> dict[tuple[Any, str], str]:
    """Each line by (value, policy) and its name in the legend."""
    axis = panel.experiment.axis.replace("_", " ")
    policies = [policy for policy in panel.names("policy") if policy != "optimal"]
    names: dict[tuple[Any, str], str] = {}
    for value in panel.names("value"):
        for policy in policies:
            parts = [policy] if len(policies) > 1 or not axis else []
            parts += [f"{axis} {label(value)}"] if axis else []
            names[value, policy] = ", ".join(parts)
    return names


def line_looks(panel: Panel) -> dict[tuple[Any, str], tuple[str, Any]]:
    """A colour and a dash for each line: by value where one varies, else by policy."""
    names = line_names(panel)
    if not panel.experiment.axis:
        by_policy = looks([policy for _, policy in names])
        return {key: by_policy[key[1]] for key in names}
    return {key: LOOKS[i % len(LOOKS)] for i, key in enumerate(names)}


def draw_frame(axes: Any, panel: Panel, variant: str, version: str) -> float:  # noqa: ANN401
    """One variant in one version. Returns the height of the highest line."""
    names, style = line_names(panel), line_looks(panel)
    tallest = 1.0
    for key, name in names.items():
        value, policy = key
        series = panel.series[Place(version, variant, value, policy)]
        colour, dash = style[key]
        mean = series.queue_length.mean(axis=0)
        spread = series.queue_length.std(axis=0)
        tallest = max(tallest, float(mean.max()))
        axes.plot(series.round, mean, color=colour, linestyle=dash, lw=1.5, label=name, zorder=3)
        axes.fill_between(
            series.round, np.maximum(mean - spread, 0.0), mean + spread, color=colour, alpha=0.13,
            lw=0, zorder=1,
        )  # fmt: skip
        mark_burn_in(axes, series, colour, panel.rounds, mean)
    draw_optimal(axes, panel, variant, version, style)
    return tallest


def mark_burn_in(axes: Any, series: Series, colour: str, rounds: int, mean: Any) -> None:  # noqa: ANN401
    """A dot where pure exploration ends."""
    end = float(series.measures["burn_in"][0])
    if 0.0 < end < rounds:
        axes.plot(
            [end], [np.interp(end, series.round, mean)], "o", color=colour, ms=5,
            markeredgecolor="white", zorder=4,
        )  # fmt: skip


def draw_optimal(
    axes: Any,  # noqa: ANN401
    panel: Panel,
    variant: str,
    version: str,
    style: dict[tuple[Any, str], tuple[str, Any]],
) -> None:
    """The yardstick: one black dotted line, or one in the colour of each value."""
    values = panel.names("value")
    policies = [policy for policy in panel.names("policy") if policy != "optimal"]
    for value in values:
        series = panel.series[Place(version, variant, value, "optimal")]
        colour = "#111111" if len(values) == 1 else style[value, policies[0]][0]
        name = "optimal" if value == values[-1] else None
        if len(values) > 1 and name:
            name = "optimal (dotted, same colour)"
        axes.plot(
            series.round, series.queue_length.mean(axis=0), color=colour, linestyle=":", lw=1.1,
            label=name, zorder=2,
        )  # fmt: skip


def name_row(frames: Any, variant: str) -> None:  # noqa: ANN401
    """What the row is, before its own axis."""
    text = "jobs waiting"
    frames[0].set_ylabel(f"{variant}\n{text}" if variant else text)


def shape_axes(frames: Any, tallest: float, rounds: int) -> None:  # noqa: ANN401
    """One scale for all frames: linear below 1 and logarithmic above."""
    for axes in frames.flat:
        axes.set_yscale("symlog", linthresh=1.0, linscale=0.5)
        ticks = [0, 1, *(10**power for power in range(1, 8) if 10**power <= 1.6 * tallest)]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(0, 1.6 * tallest)
        axes.set_xlim(0, rounds)
        axes.grid(visible=True, axis="y", color="#dddddd", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
