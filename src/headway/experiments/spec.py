"""An experiment as a person writes it: a TOML file of at most a screen, checked key by key."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from headway.errors import HeadwayError, unknown
from headway.learners import LEARNER_ABOUT
from headway.settings import find_policy

PAPER = Path(__file__).parent / "paper"
ORDER = (
    "baselines", "slack-cqb-eps", "slack-cqb-opt", "servers-cqb-eps", "servers-cqb-opt",
    "dimension-cqb-eps", "dimension-cqb-opt", "mnist", "heart", "coupon",
)  # fmt: skip
SCALED = 0.03  # the one beta_scale of version `scaled`, for all panels


class Version(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How policies learn: a learner, what those take that cannot use it, and its settings."""

    learner: str | None = None
    otherwise: str | None = None
    settings: dict[str, Any] = {}
    about: str = ""


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same experiment with something changed in the world or in policies' settings."""

    world: dict[str, Any] = {}
    settings: dict[str, dict[str, Any]] = {}
    about: str = ""


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything of one panel. `vary` gives one field of the world several values; `versions` and
    `variants` cross it.
    """

    title: str
    policies: list[str]
    id: str = ""
    figure: str = ""
    caption: str = ""
    rounds: int = 5000
    replicas: int = 10
    seed: int = 0
    world: dict[str, Any] = {}
    vary: dict[str, list[Any]] = {}
    settings: dict[str, dict[str, Any]] = {}
    versions: list[str] = []
    own_versions: dict[str, Version] = {}
    variants: dict[str, Variant] = {}

    @property
    def axis(self) -> str:
        """The field of the world that varies; empty = none."""
        return next(iter(self.vary), "")

    def version(self, name: str) -> Version:
        """A version by its name; "" = each policy's own learner."""
        return self.own_versions.get(name) or VERSIONS[name]


# The paper's formula as it stands, the same with one constant, and none at all.
VERSIONS = {
    "": Version(about="each policy with its default learner"),
    "literal": Version(
        learner="paper", settings={"beta_scale": 1.0},
        about="the paper's radius as printed (beta_scale 1)",
    ),
    "scaled": Version(
        learner="paper", settings={"beta_scale": SCALED},
        about=f"the paper's radius times {SCALED:g}, which no proof covers",
    ),
    "likelihood": Version(
        learner="likelihood", otherwise="laplace",
        about="the likelihood-ratio set, no constant; cqb-ts, which has no use for it: laplace",
    ),
}  # fmt: skip


def panel_ids() -> tuple[str, ...]:
    """The experiments of the paper, in its order."""
    return ORDER


def load_experiment(name: str) -> Experiment:
    """A panel of the paper by its id, or a person's own experiment by the path of its file."""
    own = name.endswith(".toml")
    if not own and name not in ORDER:
        raise unknown("panel", name, ORDER)
    path = Path(name) if own else PAPER / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise HeadwayError(f"cannot read experiment {str(path)!r} ({reason})") from None
    return parse_experiment(text, path)


def parse_experiment(text: str, path: Path) -> Experiment:
    """The experiment in a TOML text; every key is one that somebody reads."""
    where = f"experiment {str(path)!r}"
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise HeadwayError(f"{where} is not valid TOML: {problem}") from None
    known = Experiment.__struct_fields__
    for key in content:
        if key not in known:
            raise unknown(f"key in {where}", key, known)
    try:
        found = msgspec.convert(content, Experiment)
    except msgspec.ValidationError as problem:
        raise HeadwayError(f"{where}: {problem}") from None
    found = msgspec.structs.replace(found, id=found.id or path.stem)
    check_experiment(found, where)
    return found


def check_experiment(found: Experiment, where: str) -> None:
    """Refuse what cannot be run, before anything is."""
    if not found.policies:
        raise HeadwayError(f"{where} names no policy")
    if "/" in found.id or found.id.startswith("."):
        raise HeadwayError(f"{where}: id {found.id!r} must be a plain file name")
    names = [find_policy(policy).name for policy in found.policies]
    for name in names:
        if names.count(name) > 1:
            raise HeadwayError(f"{where}: policy {name!r} is listed {names.count(name)} times")
    if len(found.vary) > 1:
        raise HeadwayError(
            f"{where}: vary has {len(found.vary)} keys ({', '.join(found.vary)}): one at a time"
        )
    for key, values in found.vary.items():
        if not values or len({repr(value) for value in values}) < len(values):
            raise HeadwayError(f"{where}: vary.{key} = {values!r} must be different values")
    for name in found.versions:
        if name not in {**VERSIONS, **found.own_versions}:
            raise unknown(f"version in {where}", name, [*VERSIONS, *found.own_versions])
    for name, version in found.own_versions.items():
        for learner in (version.learner, version.otherwise):
            if learner is not None and learner not in LEARNER_ABOUT:
                raise unknown(f"learner of version {name!r} in {where}", learner, LEARNER_ABOUT)
    for settings in (found.settings, *(each.settings for each in found.variants.values())):
        for name in settings:
            if name not in names:
                raise unknown(f"policy in settings of {where}", name, names)
