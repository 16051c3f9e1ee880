"""Writes the verdicts of the committed reports into README.md and docs/reproduction.md."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reproduction"
PAGES = (ROOT / "README.md", ROOT / "docs" / "reproduction.md")
VERSIONS = ("literal", "scaled", "likelihood")
BEGIN, END = "<!-- verdicts -->\n", "<!-- end of verdicts -->"

# What the text claims, and the judgements that make it up: (panels, claim id, variants).
SENTENCES = {
    "the random policy's queue grows linearly": (("baselines",), "random-grows-linearly"),
    "CQB-eps comes back to the optimal level": (("baselines",), "cqb-eps-comes-back"),
    "CQB-Opt comes back to the optimal level": (("baselines",), "cqb-opt-comes-back"),
    "CQB-eps: back sooner with more slack": (("slack-cqb-eps",), "cqb-eps-sooner-with-slack"),
    "CQB-Opt: back sooner with more slack": (("slack-cqb-opt",), "cqb-opt-sooner-with-slack"),
    "CQB-eps: longer burn-in with less slack, then a sharp fall": (
        ("slack-cqb-eps",),
        "cqb-eps-burn-in-then-fall",
    ),
    "CQB-eps: coupled regret grows with every step of K": (
        ("servers-cqb-eps",),
        "cqb-eps-worse-with-servers-by-regret",
    ),
    "CQB-Opt: coupled regret grows with every step of K": (
        ("servers-cqb-opt",),
        "cqb-opt-worse-with-servers-by-regret",
    ),
    "CQB-eps: coupled regret grows with every step of d": (
        ("dimension-cqb-eps",),
        "cqb-eps-worse-with-dimension-by-regret",
    ),
    "CQB-Opt: coupled regret grows with every step of d": (
        ("dimension-cqb-opt",),
        "cqb-opt-worse-with-dimension-by-regret",
    ),
    **{
        f"CQB-eps is the best on {name} (time average)": ((name,), "cqb-eps-best-by-queue-mean")
        for name in ("mnist", "heart", "coupon")
    },
}


def load_claims():
    """All committed judgements."""
    found = []
    for name in ("claims.json", "data-claims.json"):
        found += json.loads((FOLDER / name).read_text())["claims"]
    return found


def cell(claims, panels, name, version):
    """The verdict of one version; where variants differ, each by its name."""
    verdicts = {}
    for claim in claims:
        if (
            claim["id"] == name
            and claim["panel"] in panels
            and claim["version"] in (version, "any")
        ):
            verdicts[claim["variant"]] = claim["verdict"]
    if len(set(verdicts.values())) == 1:
        return next(iter(verdicts.values()))
    return "; ".join(f"{where}: {verdict}" for where, verdict in verdicts.items())


def table():
    """The verdicts as Markdown."""
    claims = load_claims()
    lines = ["| the paper's text | " + " | ".join(VERSIONS) + " |", "|---" * 4 + "|"]
    for sentence, (panels, name) in SENTENCES.items():
        cells = [cell(claims, panels, name, version) for version in VERSIONS]
        lines.append(f"| {sentence} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def published(text):
    """The page with the table as it is now."""
    return re.sub(
        re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: BEGIN + table() + END, text, flags=re.S
    )


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(published(page.read_text()))
