"""From what a person asks for to the `Params` that compiled code reads: names, defaults, checks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from headway.errors import HeadwayError, unknown
from headway.learners import LEARNER_ABOUT, LEARNER_SETTINGS
from headway.policies import POLICIES
from headway.policy import Policy, Rule, Settings, Situation
from headway.policy_file import is_file_reference, load_policy
from headway.rules import FRESH_PRIOR, FRESH_PRIORS, NoHorizon, is_cutoff
from headway.state import KNOWING, LEARNERS, MEMORIES, Params

DEFAULTS: Settings = {
    "kappa": 10.0,
    "ridge": 1.0,
    "beta_scale": 1.0,
    "projection": "paper",
    "width": 1.0,
}
PROJECTIONS = ("paper", "with_ridge")
MAY_BE_NONE = ("assumed_slack", "fresh_prior", "half_life")
LARGEST = 1e100  # of a setting
MOST_DRAWS = 2**44  # rounds and jobs that draws tell apart (rng.block)
MOST_REPLICAS = 2**32
# What a numerical setting must be, beyond finite. Beyond these limits the kernels' sums lose all
# their digits.
LIMITS: dict[str, tuple[Callable[[float], bool], str]] = {
    "norm_bound": (lambda value: 1e-6 <= value <= 1e6, "between 1e-6 and 1e6"),
    "kappa": (lambda value: value >= 1e-12, "at least 1e-12"),
    "ridge": (lambda value: value >= 1e-12, "at least 1e-12"),
    "slope_max": (lambda value: value >= 1e-12, "at least 1e-12"),
    "beta_scale": (lambda value: value >= 0.0, "at least 0"),
    "width": (lambda value: value >= 0.0, "at least 0"),
    "assumed_slack": (lambda value: value >= 0.0, "at least 0"),
    "burn_in_constant": (lambda value: value > 0.0, "above 0"),
    "forced_rate": (lambda value: value >= 0.0, "at least 0"),
    "failure_prob": (lambda value: 1e-300 <= value < 1.0, "at least 1e-300 and below 1"),
    "explore_prob": (lambda value: 0.0 <= value <= 1.0, "in [0, 1]"),
    "penalty": (lambda value: value >= 0.0, "at least 0"),
    "fresh_prior": (lambda value: 0.0 < value < 1.0, "between 0 and 1"),
    "half_life": (lambda value: value > 0.0, "above 0 repeats"),
    "burn_in_rounds": (
        lambda value: value >= 0 and value == int(value),
        "a whole number >= 0",
    ),
}


class Resolved(NamedTuple):
    """A policy ready to run."""

    policy: Policy
    learner: str
    settings: Settings  # every setting with its value, given or default
    params: Params
    remarks: tuple[str, ...]  # what a person should know about a default


def find_policy(name: str | Policy) -> Policy:
    """A policy by its id or as FILE.py:NAME, or the policy itself."""
    if isinstance(name, Policy):
        found = name
    elif not isinstance(name, str):
        raise HeadwayError(f"policy {name!r} must be a name, FILE.py:NAME or a headway.Policy")
    elif is_file_reference(name):
        found = load_policy(name)
    elif name in POLICIES:
        return POLICIES[name]
    else:
        raise unknown("policy", name, POLICIES)
    if found.name in POLICIES and found is not POLICIES[found.name]:
        raise HeadwayError(f"policy name {found.name!r} is a built-in one: choose another name")
    return found


def policy_code(policy: Policy) -> int:
    """Its place in the table of built-in policies; -1 = a person's own."""
    return list(POLICIES).index(policy.name) if policy.name in POLICIES else -1


def choose_learner(policy: Policy, learner: str | None) -> str:
    """The learner asked for, if the policy can use it; its default otherwise."""
    if learner is None:
        return policy.learners[0]
    if not isinstance(learner, str) or learner not in LEARNER_ABOUT:
        raise unknown("learner", learner, LEARNER_ABOUT)
    if learner not in policy.learners:
        usable = " or ".join(policy.learners) if policy.learners[0] not in KNOWING else "none"
        raise HeadwayError(
            f"policy {policy.name} cannot use learner {learner!r}: it takes {usable}"
        )
    return learner


def setting_names(policy: Policy, learner: str) -> tuple[str, ...]:
    """The settings that this policy has with this learner."""
    foreign = {name for each in LEARNER_SETTINGS.values() for name in each}
    foreign -= set(LEARNER_SETTINGS[learner])
    own = [name for name in policy.defaults if name not in foreign]
    return tuple(dict.fromkeys([*LEARNER_SETTINGS[learner], *own]))


def all_setting_names() -> set[str]:
    """Every setting of any built-in policy with any learner."""
    names = {name for settings in LEARNER_SETTINGS.values() for name in settings}
    return names | {name for policy in POLICIES.values() for name in policy.defaults}


def resolve(
    policy: str | Policy, situation: Situation, *, learner: str | None = None, given: Settings
) -> Resolved:
    """Check what was given, fill in the rest, and say what a default rests on."""
    found = find_policy(policy)
    chosen = choose_learner(found, learner)
    names = setting_names(found, chosen)
    for name in given:
        if name not in names:
            raise foreign_setting(found, chosen, name, names)
    settings: Settings = {}
    remarks: list[str] = []
    for name in names:
        if name in given:
            settings[name] = given[name]
        else:
            settings[name], remark = default(found, name, situation, settings)
            if remark:
                remarks.append(f"{found.name}: {remark}")
        settings[name] = checked(name, settings[name])
    for name, rule in found.derived.items():
        settings[name], remark = follow(
            found, name.removesuffix("_round"), rule, situation, settings
        )
        if remark:
            remarks.append(f"{found.name}: {remark}")
    params = make_params(found, chosen, settings)
    return Resolved(found, chosen, settings, params, tuple(remarks))


def foreign_setting(policy: Policy, learner: str, name: str, names: tuple[str, ...]) -> Exception:
    """Why this policy does not take this setting, and what would help."""
    owners = [each for each in policy.learners if name in LEARNER_SETTINGS[each]]
    if owners:
        return HeadwayError(
            f"setting {name!r} belongs to learner {owners[0]}, and {policy.name} runs with "
            f"{learner}: choose learner {owners[0]} or leave it out"
        )
    if name in all_setting_names():
        mine = ", ".join(names) or "none"
        return HeadwayError(f"policy {policy.name} has no setting {name!r}; it has: {mine}")
    return unknown("setting", name, names)


def default(
    policy: Policy, name: str, situation: Situation, settings: Settings
) -> tuple[Any, str | None]:
    """The value of a setting that was not given, and a remark where one is due."""
    if name in policy.defaults:
        rule = policy.defaults[name]
        if not callable(rule):
            return rule, None
        return follow(policy, name, rule, situation, settings)
    if name == "norm_bound":
        if situation.norm_bound is None:
            raise HeadwayError(f"{policy.name}: norm_bound has no default here, give it")
        return situation.norm_bound, None
    if name == "failure_prob":
        if situation.rounds is None:
            raise HeadwayError(f"{policy.name} without a horizon needs failure_prob to be given")
        return 1.0 / max(situation.rounds, 2) ** 2, None
    return DEFAULTS[name], None


def follow(
    policy: Policy, name: str, rule: Rule, situation: Situation, settings: Settings
) -> tuple[Any, str | None]:
    """What a rule says, where it needs no horizon or there is one."""
    try:
        return rule(situation, settings)
    except NoHorizon:
        raise HeadwayError(f"{policy.name} without a horizon needs {name} to be given") from None


def horizon_settings(policy: Policy) -> list[str]:
    """The settings whose defaults need a horizon."""
    nowhere = Situation(servers=2, dimension=2)
    needing: list[str] = []
    settings: Settings = {"assumed_slack": None, "explore_prob": 0.0, "burn_in_rounds": 0}
    for name, rule in {**policy.defaults, **policy.derived}.items():
        if callable(rule):
            try:
                rule(nowhere, {**policy.defaults, **settings})
            except NoHorizon:
                needing.append(name.removesuffix("_round"))
    return needing


def as_number(value: Any) -> int | float | None:  # noqa: ANN401 - it is what is being checked
    """Python's number for one of Python's or numpy's; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    return float(value) if isinstance(value, float | np.floating) else None


def whole_number(
    name: str,
    value: Any,  # noqa: ANN401 - it is what is being checked
    least: int = 1,
    below: int = MOST_DRAWS,
) -> int:
    """The value as a whole number in range, or an error that names it."""
    number = as_number(value)
    if not isinstance(number, int) or number < least:
        raise HeadwayError(f"{name} {value!r} must be a whole number of at least {least}")
    if number >= below:
        raise HeadwayError(f"{name} {number} must be below 2**{below.bit_length() - 1}")
    return number


def checked(name: str, value: Any) -> Any:  # noqa: ANN401 - it is what is being checked
    """The value as it is kept, or an error where the setting cannot have it."""
    if name == "projection":
        if value not in PROJECTIONS:
            raise unknown("projection", value, PROJECTIONS)
        return value
    if name == "memory":
        if value not in MEMORIES:
            raise unknown("memory", value, MEMORIES)
        return value
    if name in MAY_BE_NONE and value is None:
        return value
    number = as_number(value)
    if name == "cutoff":
        kept = value if isinstance(value, str) else number
        if not is_cutoff(kept):
            raise HeadwayError(f"setting cutoff = {value!r} must be a round, 'theory' or 'log:50'")
        return kept
    if number is None or not -LARGEST <= number <= LARGEST:
        raise HeadwayError(f"setting {name} = {value!r} must be a finite number")
    allowed, phrase = LIMITS.get(name, (lambda _: True, ""))
    if not allowed(number):
        raise HeadwayError(f"setting {name} = {value!r} must be {phrase}")
    return number


def memory_values(policy: Policy, learner: str, settings: Settings) -> Settings:
    """The memory as the record has it; only the penalty that is used is not 0."""
    memory = settings.get("memory", "none")
    if memory != "none" and learner == "paper":
        raise HeadwayError(
            f"policy {policy.name} with memory {memory!r} needs learner likelihood or laplace: "
            "the paper's learner scores another quantity"
        )
    values: Settings = {"memory": MEMORIES[memory], "penalty": 0.0}
    if memory == "penalty":
        values["penalty"] = float(settings["penalty"])
    if memory == "learned":
        given = settings["fresh_prior"]
        default_prior = FRESH_PRIORS.get(learner, FRESH_PRIOR)
        values["fresh_prior"] = default_prior if given is None else float(given)
        if settings["half_life"] is not None:
            values["keep"] = 2.0 ** (-1.0 / float(settings["half_life"]))
    return values


def make_params(policy: Policy, learner: str, settings: Settings) -> Params:
    """The record; what the policy does not have stays NaN."""
    places = {name: f"own_{i + 1}" for i, name in enumerate(policy.own)}
    values: Settings = {
        places.get(name, name): float(value)
        for name, value in settings.items()
        if (name in Params._fields or name in places)
        and value is not None
        and not isinstance(value, str)
    }
    values.update(memory_values(policy, learner, settings))
    if "projection" in settings:
        kept = settings["projection"] == "with_ridge"
        values["projection_ridge"] = values["ridge"] if kept else 0.0
    return Params(learner=LEARNERS[learner], policy=policy_code(policy), **values)
