"""One self-contained page: verdicts, figures, tables, and everything needed to do it again."""

import base64
import html
import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

import headway
from headway.experiments.claims import (
    FAILS,
    HOLDS,
    UNDECIDED,
    Claim,
    finite,
    gap,
    return_round,
    verdict_rows,
)
from headway.experiments.panels import Panel, label
from headway.experiments.results import plain
from headway.files import write_whole
from headway.sim.compare import Interval, interval

PACKAGES = (
    "numpy", "numba", "scipy", "matplotlib", "pyarrow", "scikit-learn", "imbalanced-learn",
)  # fmt: skip
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff;
       max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; }
p, li { max-width: 46rem; } .quiet { color: #595959; font-size: .93rem; }
img { max-width: 100%; height: auto; display: block; margin: .8rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid #e2e2e2;
         vertical-align: top; } th { font-weight: 600; } td.n { text-align: right;
         font-variant-numeric: tabular-nums; white-space: nowrap; }
.v { font-weight: 600; white-space: nowrap; } .holds { color: #17693a; } .fails { color: #a3232f; }
.open { color: #6a5b00; } code { background: #f3f3f3; padding: .1rem .3rem; border-radius: 3px; }
details { margin: .4rem 0; } summary { cursor: pointer; }
@media print { details { display: block; } .v { color: #000; } }
"""


def write_claims(path: Path, claims: list[Claim], panels: list[Panel]) -> dict[str, Any]:
    """claims.json: every verdict with its evidence."""
    content = {
        "headway": headway.__version__,
        "panels": {
            panel.experiment.id: {
                "rounds": panel.rounds, "replicas": panel.replicas, "seed": panel.experiment.seed,
            }
            for panel in panels
        },
        "claims": [plain(claim._asdict()) for claim in claims],
    }  # fmt: skip
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    write_whole(path, lambda target: target.write_text(text, encoding="utf-8"))
    return content


def write_report(path: Path, panels: list[Panel], claims: list[Claim]) -> None:
    """The page; figures are those that lie beside it."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>headway: experiments</title><style>{STYLE}</style>",
        "<h1>Experiments, and what becomes of each claim</h1>",
        introduction(panels),
        matrix(claims),
    ]
    for panel in panels:
        mine = [claim for claim in claims if claim.panel == panel.experiment.id]
        parts.append(section(panel, mine, path.parent))
    parts.append(colophon(panels))
    write_whole(path, lambda target: target.write_text("\n".join(parts), encoding="utf-8"))


def introduction(panels: list[Panel]) -> str:
    """What this is and how to read it."""
    versions: dict[str, str] = {}
    for panel in panels:
        for name in panel.names("version"):
            versions[name or "default"] = panel.experiment.version(name).about
    items = "".join(
        f"<li><b>{text(name)}</b>: {text(about)}</li>" for name, about in versions.items()
    )
    return (
        "<p>Each panel is run in versions that differ in how policies learn:</p>"
        f"<ul>{items}</ul>"
        "<p>All policies meet the same draws, replica by replica. A verdict rests on 95 % "
        f"intervals over replicas of coupled differences: <b>{HOLDS}</b> if every part of the "
        f"claim is on the right side of its interval, <b>{FAILS}</b> if one is on the wrong side, "
        f"<b>{UNDECIDED}</b> at this sample size otherwise. Lines are means, bands one standard "
        "deviation, a dot marks the end of a burn-in.</p>"
    )


def matrix(claims: list[Claim]) -> str:
    """Claims by version."""
    if not claims:
        return "<p class=quiet>No claims are attached to these experiments.</p>"
    versions, rows = verdict_rows(claims)
    lines = [
        f"<tr><td>{text(where)}</td><td>{text(sentence)}</td>"
        + "".join(f"<td>{verdict(each)}</td>" for each in verdicts)
        + "</tr>"
        for where, sentence, verdicts in rows
    ]
    head = "".join(f"<th>{text(version)}</th>" for version in versions)
    return (
        "<h2>Verdicts</h2><div class=scroll><table><tr><th>panel</th><th>claim</th>"
        f"{head}</tr>{''.join(lines)}</table></div>"
    )


def verdict(found: str) -> str:
    """A verdict in its colour, and in words."""
    kind = {HOLDS: "holds", FAILS: "fails", UNDECIDED: "open", "": ""}[found]
    return f"<span class='v {kind}'>{found}</span>"


def section(panel: Panel, claims: list[Claim], folder: Path) -> str:
    """One panel: figure, claims with their evidence, table."""
    found = panel.experiment
    figure = base64.b64encode((folder / f"{found.id}.png").read_bytes()).decode()
    about = f" ({text(found.figure)})" if found.figure else ""
    variants = [
        f"<li><b>{text(name)}</b>: {text(found.variants[name].about)}</li>"
        for name in panel.names("variant")
        if name
    ]
    return "".join(
        [
            f"<h2 id='{text(found.id)}'>{text(found.title)}</h2>",
            f"<p class=quiet><code>{text(found.id)}</code>{about}: {panel.rounds:,} rounds, "
            f"{panel.replicas} instances, seed {found.seed}. {text(found.caption)}</p>",
            f"<ul class=quiet>{''.join(variants)}</ul>" if variants else "",
            f"<img alt='{text(found.title)}' src='data:image/png;base64,{figure}'>",
            claim_list(claims),
            table(panel),
            remarks(panel),
        ]
    )


def claim_list(claims: list[Claim]) -> str:
    """Verdicts of one panel, each with what it rests on."""
    rows = []
    for claim in claims:
        where = ", ".join(part for part in (claim.variant, claim.version) if part)
        rows.append(
            f"<tr><td>{verdict(claim.verdict)}</td><td>{text(claim.text)}<br><span class=quiet>"
            f"{text(where)}: {text(words(claim.evidence))}</span></td></tr>"
        )
    if not rows:
        return ""
    return (
        "<details><summary>Claims and what they rest on</summary><div class=scroll>"
        f"<table>{''.join(rows)}</table></div></details>"
    )


def words(value: Any) -> str:  # noqa: ANN401 - evidence of any kind
    """Evidence in a line."""
    if isinstance(value, Interval):
        return f"{value.mean:.3g} [{value.low:.3g}, {value.high:.3g}]"
    if isinstance(value, dict):
        return "; ".join(f"{key.replace('_', ' ')}: {words(each)}" for key, each in value.items())
    if value is None:
        return "not within the run"
    return f"{value:g}" if isinstance(value, float) else str(value)


def table(panel: Panel) -> str:
    """Means with intervals, a row a line of the figure."""
    axis = panel.experiment.axis.replace("_", " ")
    head = [*(["variant"] if any(panel.names("variant")) else []), "version",
            *([axis] if axis else []), "policy", "mean queue", "queue at the end", "mean regret",
            "wait p50 / p99", "back after round"]  # fmt: skip
    rows = []
    for place, series in panel.series.items():
        cells = [text(place.variant)] if any(panel.names("variant")) else []
        cells.append(text(place.version or "default"))
        cells += [text(label(place.value))] if axis else []
        cells.append(text(place.policy))
        numbers = [
            amount(interval(series.measures["queue_mean"])),
            amount(interval(series.measures["queue_final"])),
            "-" if place.policy == "optimal" else amount(interval(gap(series).mean(axis=1))),
            f"{np.mean(series.measures['wait_p50']):,.0f} / "
            f"{np.mean(series.measures['wait_p99']):,.0f}",
            words(finite(return_round(series))) if place.policy != "optimal" else "-",
        ]
        rows.append(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells)
            + "".join(f"<td class=n>{number}</td>" for number in numbers) + "</tr>"
        )  # fmt: skip
    heads = "".join(f"<th>{name}</th>" for name in head)
    return (
        f"<details><summary>Numbers</summary><div class=scroll><table><tr>{heads}</tr>"
        f"{''.join(rows)}</table></div></details>"
    )


def amount(value: Interval) -> str:
    """Mean and half-width."""
    half = value.high - value.mean
    if not np.isfinite(half):
        return f"{value.mean:,.3g}"
    digits = 2 if half < 1 else 1 if half < 10 else 0
    return f"{value.mean:,.{digits}f} ± {half:,.{digits}f}"


def remarks(panel: Panel) -> str:
    """Defaults that a reader should know of, and how slack shaped the instances."""
    lines = list(panel.remarks)
    shares = {
        (place.variant, label(place.value)): series.measures
        for place, series in panel.series.items()
        if place.policy == "optimal"
    }
    for (variant, value), measures in shares.items():
        share, redraws = np.mean(measures["acceptance"]), np.sum(measures["redraws"])
        if share < 1.0:
            named = ", ".join(
                part for part in (variant, f"{panel.experiment.axis} {value}" if value else "")
                if part
            )  # fmt: skip
            lines.append(
                f"{named + ': ' if named else ''}{share:.1%} of contexts have the slack, "
                f"{redraws:.0f} redraws of theta_star"
            )
    if not lines:
        return ""
    items = "".join(f"<li>{text(line)}</li>" for line in dict.fromkeys(lines))
    return f"<details><summary>Remarks</summary><ul class=quiet>{items}</ul></details>"


def colophon(panels: list[Panel]) -> str:
    """Commands, versions, hardware."""
    ids = " ".join(panel.experiment.id for panel in panels)
    sizes = sorted({panel.replicas for panel in panels})
    command = f"headway reproduce {ids}"
    if len(sizes) == 1:
        command += f" --replicas {sizes[0]}"
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    return (
        f"<h2>Do it again</h2><p><code>{text(command)}</code></p>"
        f"<p class=quiet>headway {text(headway.__version__)}, Python "
        f"{platform.python_version()}, {text(packages)}; {text(hardware())}. Results do not depend "
        "on the number of threads.</p></html>"
    )


def versions() -> dict[str, str]:
    """The packages that results can depend on."""
    from importlib import metadata

    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def hardware() -> str:
    """The processor that it ran on."""
    from llvmlite import binding

    return f"{os.cpu_count()} cores of {binding.get_host_cpu_name()} ({platform.machine()})"


def text(value: object) -> str:
    """Safe in a page."""
    return html.escape(str(value))
