"""The conformance kit: does a policy keep the rules that both drivers rest on?

    headway.check_policy(policy) -> Report

Every rule is a function that plays the policy and says what broke, or nothing. The loop is the
simulator's own, in plain Python, so that each call can be looked at.
"""

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.errors import HeadwayError
from headway.learners import new_model
from headway.policy import Policy
from headway.queue import add_job, remove_job
from headway.rng import make_key
from headway.settings import Resolved, find_policy, policy_code, resolve
from headway.sim.compare import compare
from headway.sim.drive import in_plain_python, player
from headway.sim.rollout import Tally, new_tally, play
from headway.state import (
    KNOWING,
    LEARN_NOTHING,
    Clock,
    Model,
    Queue,
    new_clock,
    new_queue,
    roomier_model,
    roomier_queue,
    to_bytes,
)
from headway.state import from_bytes as record_from_bytes
from headway.world.problem import Problem
from headway.world.scenario import Scenario

ROUNDS = 240
SEEDS = 20  # of the comparison with `random`
COMPARED_ROUNDS = 2000
OUTSTANDING = 100
WORLD = Scenario(servers=4, dimension=3, arrival_rate=0.8, slack_by="none")
# A person's policy needs no world's numbers: what has no default there is given.
GIVEN = {"burn_in_rounds": 60, "explore_prob": 0.2}

step_by_step: Callable[..., None] = getattr(play, "py_func", play)


class Finding(NamedTuple):
    """One rule and how the policy did: kept, warning or broken."""

    rule: str
    state: str
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """What `check_policy` found."""

    policy: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Is no rule broken? Warnings do not count."""
        return all(each.state != "broken" for each in self.findings)

    @property
    def verdict(self) -> str:
        """In words."""
        counts = {state: sum(each.state == state for each in self.findings)
                  for state in ("kept", "warning", "broken")}  # fmt: skip
        text = f"{counts['kept']} rules kept"
        if counts["warning"]:
            text += f", {counts['warning']} warning{'s' if counts['warning'] > 1 else ''}"
        return text + (f", {counts['broken']} broken" if counts["broken"] else "")

    def summary(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "policy": self.policy,
            "passed": self.passed,
            "findings": [each._asdict() for each in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{each.state:8} {each.rule}" + (f": {each.detail}" if each.detail else "")
                 for each in self.findings]  # fmt: skip
        return "\n".join([*lines, f"{self.policy}: {self.verdict}"])


class Stage(NamedTuple):
    """All records of a run in progress."""

    resolved: Resolved
    problem: Problem
    model: Model
    clock: Clock
    queue: Queue
    tally: Tally
    key: Any

    def go(self, last: int, *, choose: Any = None, learn: Any = None) -> None:
        """Play on to this round, in plain Python, with watched functions where given."""
        policy = self.resolved.policy
        step_by_step(
            choose or policy.choose, learn or policy.learn, self.resolved.params, self.model,
            self.clock, self.queue, self.key, self.problem, self.tally, last,
        )  # fmt: skip
        if self.tally.refused[0]:
            t, job, server = self.tally.refused
            raise Broken(f"round {t}: stopped at job {job}, server {server}")


def begin(policy: Policy, learner: str, seed: int = 0, rounds: int = ROUNDS) -> Stage:
    """A fresh run with room for all its rounds."""
    chosen = None if learner in LEARN_NOTHING else learner
    given = {name: value for name, value in GIVEN.items() if name in policy.defaults}
    resolved = resolve(policy, WORLD.situation(rounds), learner=chosen, given=given)
    problem = WORLD.instance(seed, 0, rounds).problem
    model = roomier_model(new_model(resolved.params, WORLD.servers, WORLD.dimension), rounds)
    if resolved.learner in KNOWING:
        model.theta[:] = problem.theta_star
    queue = roomier_queue(new_queue(WORLD.servers, WORLD.dimension), rounds)
    tally = new_tally(rounds=rounds, every=1, record=True, dimension=WORLD.dimension)
    return Stage(resolved, problem, model, new_clock(), queue, tally, make_key(seed))


def differing(before: tuple[Any, ...], after: tuple[Any, ...]) -> list[str]:
    """The fields of two records that are not the same bytes."""
    names = before._fields  # type: ignore[attr-defined]
    return [
        name
        for name, one, other in zip(names, before, after, strict=True)
        if np.asarray(one).tobytes() != np.asarray(other).tobytes()
    ]


def copied(record: Any) -> Any:
    """A record with arrays of its own."""
    return type(record)(
        *(each.copy(order="K") if isinstance(each, np.ndarray) else each for each in record)
    )


class Broken(Exception):
    """A rule was broken; the message says how."""


# The rules. Each takes a policy and the name of a learner.


def valid_pairs(policy: Policy, learner: str) -> None:
    """Choose returns a waiting job and a free server."""
    stage = begin(policy, learner)
    rng = np.random.default_rng(0)

    def watched(params: Any, model: Any, clock: Any, queue: Any, key: Any) -> Any:
        queue.free[:] = rng.random(WORLD.servers) < 0.5
        queue.free[rng.integers(WORLD.servers)] = True
        pair = policy.choose(params, model, clock, queue, key)
        check_pair(pair, queue, int(clock.round[0]))
        return int(pair[0]), int(pair[1])

    stage.go(ROUNDS, choose=watched)


def check_pair(pair: Any, queue: Queue, t: int) -> None:
    """A tuple of two whole numbers: a row in use, a server that is free."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise Broken(f"round {t}: {pair!r} is not a pair (job, server)")
    job, server = pair
    if not all(isinstance(each, int | np.integer) for each in pair):
        raise Broken(f"round {t}: {pair!r} must be whole numbers")
    if not 0 <= job < queue.length[0]:
        raise Broken(f"round {t}: job {job} is no row of the {queue.length[0]} that wait")
    if not 0 <= server < queue.free.shape[0] or not queue.free[server]:
        free = np.flatnonzero(queue.free).tolist()
        raise Broken(f"round {t}: server {server} is not among the free ones {free}")


def same_inputs_same_pair(policy: Policy, learner: str) -> None:
    """The same inputs give the same pair."""
    stage = begin(policy, learner)

    def watched(params: Any, model: Any, clock: Any, queue: Any, key: Any) -> Any:
        twin = copied(clock)
        first = policy.choose(params, model, twin, queue, key)
        second = policy.choose(params, model, clock, queue, key)
        if first != second or differing(twin, clock):
            raise Broken(f"round {clock.round[0]}: {first} at first, then {second}")
        return second

    stage.go(ROUNDS, choose=watched)


def same_in_another_process(policy: Policy, learner: str) -> None:
    """The same inputs give the same pairs in another process."""
    reference = reference_of(policy)
    if reference is None:
        raise Unchecked("the policy is not a name in a file or a module that can be imported")
    program = (
        "import sys; from headway.check import recorded_pairs; "
        "print(recorded_pairs(sys.argv[1], sys.argv[2]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, reference, learner],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode:
        raise Broken(found.stderr.strip().splitlines()[-1])
    if found.stdout.strip() != recorded_pairs(policy, learner):
        raise Broken("the pairs of a run differ between two processes")


def recorded_pairs(policy: str | Policy, learner: str) -> str:
    """The pairs of a run as text."""
    stage = begin(find_policy(policy), learner)
    stage.go(ROUNDS)
    return repr(list(zip(stage.tally.job.tolist(), stage.tally.server.tolist(), strict=True)))


def reference_of(policy: Policy) -> str | None:
    """How another process finds the policy: its id, or FILE.py:NAME."""
    if policy_code(policy) >= 0:
        return policy.name
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and Path(path).suffix == ".py":
            for name, value in list(vars(module).items()):
                if value is policy:
                    return f"{path}:{name}"
    return None


def choose_writes_the_clock_only(policy: Policy, learner: str) -> None:
    """Choose writes nothing but the clock, and never its round."""
    stage = begin(policy, learner)

    def watched(params: Any, model: Any, clock: Any, queue: Any, key: Any) -> Any:
        before = copied(model), copied(queue), key.copy(), clock.round.copy()
        pair = policy.choose(params, model, clock, queue, key)
        written = [f"model.{name}" for name in differing(before[0], model)]
        written += [f"queue.{name}" for name in differing(before[1], queue)]
        written += ["key"] if (before[2] != key).any() else []
        written += ["clock.round"] if (before[3] != clock.round).any() else []
        if written:
            raise Broken(f"round {before[3][0]}: choose wrote {', '.join(written)}")
        return pair

    stage.go(ROUNDS, choose=watched)


def learn_writes_the_model_only(policy: Policy, learner: str) -> None:
    """Learn writes nothing but the model, and counts its outcome."""
    stage = begin(policy, learner)

    def watched(
        params: Any,
        model: Any,
        x: Any,
        tries: Any,
        server: Any,
        success: Any,
    ) -> None:
        before = copied(stage.clock), copied(stage.queue), x.copy(), tries.copy()
        counted = model.updates.copy(), model.successes.copy()
        policy.learn(params, model, x, tries, server, success)
        written = [f"clock.{name}" for name in differing(before[0], stage.clock)]
        written += [f"queue.{name}" for name in differing(before[1], stage.queue)]
        written += ["x"] if (before[2] != x).any() else []
        written += ["tries"] if (before[3] != tries).any() else []
        t = int(stage.clock.round[0])
        if written:
            raise Broken(f"round {t}: learn wrote {', '.join(written)}")
        counted[0][server] += 1
        counted[1][server] += 1 if success else 0
        if (counted[0] != model.updates).any() or (counted[1] != model.successes).any():
            raise Broken(f"round {t}: learn must add 1 to model.updates[server], and to successes")

    stage.go(ROUNDS, learn=watched)


def rows_in_any_order(policy: Policy, learner: str) -> None:
    """The order in which rows are stored does not matter."""
    stage = begin(policy, learner)
    rng = np.random.default_rng(1)

    def watched(params: Any, model: Any, clock: Any, queue: Any, key: Any) -> Any:
        shuffled = copied(queue)
        n = int(queue.length[0])
        order = rng.permutation(n)
        for name in ("context", "arrival", "entered", "attempts", "failures", "mean", "spread"):
            getattr(shuffled, name)[:n] = getattr(queue, name)[:n][order]
        if queue.newest[0] >= 0:
            shuffled.newest[0] = np.flatnonzero(order == queue.newest[0])[0]
        other = policy.choose(params, model, copied(clock), shuffled, key)
        pair = policy.choose(params, model, clock, queue, key)
        if (order[other[0]], other[1]) != (pair[0], pair[1]):
            raise Broken(f"round {clock.round[0]}: other rows, another job or server")
        return pair

    stage.go(ROUNDS, choose=watched)


def resumes(policy: Policy, learner: str) -> None:
    """A run saved, loaded and continued equals an uninterrupted one."""
    whole = begin(policy, learner)
    whole.go(ROUNDS)
    half = begin(policy, learner)
    half.go(ROUNDS // 2)
    saved = [to_bytes(each) for each in (half.model, half.clock, half.queue)]
    begin(policy, learner, seed=1).go(ROUNDS // 3)  # what a policy remembers elsewhere is lost
    model = record_from_bytes(Model, saved[0])
    clock = record_from_bytes(Clock, saved[1])
    queue = record_from_bytes(Queue, saved[2])
    half._replace(model=model, clock=clock, queue=queue).go(ROUNDS)
    for name in ("job", "server"):
        one, other = getattr(whole.tally, name), getattr(half.tally, name)
        if (one != other).any():
            raise Broken(f"another {name} from round {np.flatnonzero(one != other)[0] + 1} on")
    changed = differing(whole.model, model)
    if changed:
        raise Broken(f"another model at the end: {', '.join(changed)}")


def outcomes_outstanding(policy: Policy, learner: str) -> None:
    """100 outcomes may be outstanding."""
    stage = begin(policy, learner, rounds=4 * OUTSTANDING)
    silent = stage._replace(problem=stage.problem._replace(arrival_rate=1.0))
    leased: list[tuple[Any, Any, int]] = []

    def lease(params: Any, model: Any, clock: Any, queue: Any, key: Any) -> Any:
        pair = policy.choose(params, model, clock, queue, key)
        check_pair(pair, queue, int(clock.round[0]))
        row = int(pair[0])
        leased.append((np.array(queue.context[row]), queue.attempts[row].copy(), int(pair[1])))
        return pair

    silent.go(OUTSTANDING, choose=lease, learn=lambda *_: None)
    for i, (x, tries, server) in enumerate(leased):
        policy.learn(stage.resolved.params, stage.model, x, tries, server, i % 3 > 0)
    for name, value in zip(stage.model._fields, stage.model, strict=True):
        if value.dtype == np.float64 and not np.isfinite(value).all():
            raise Broken(f"model.{name} is not finite after {len(leased)} outcomes at once")
    while stage.queue.length[0] > 0:  # the cached columns are those of before the outcomes
        remove_job(stage.queue, int(stage.queue.length[0]) - 1)
    silent.go(3 * OUTSTANDING, choose=lease)


def propensities(policy: Policy, learner: str) -> None:
    """The reported propensity is how often the pair is chosen, or NaN."""
    stage = begin(policy, learner)
    stage.go(ROUNDS // 2)
    params, model, queue = stage.resolved.params, stage.model, stage.queue
    number = int(stage.tally.arrived[0])
    while queue.length[0] < 3:
        x = np.cos(np.arange(WORLD.dimension) + number)
        queue.newest[0] = add_job(params, model, queue, x, number, ROUNDS // 2)
        number += 1
    counts: dict[tuple[int, int], int] = {}
    reported: dict[tuple[int, int], float] = {}
    draws = 2000
    for i in range(draws):
        clock = copied(stage.clock)
        pair = policy.choose(params, model, clock, queue, make_key(1000 + i))
        share = float(clock.propensity[0])
        if math.isnan(share):
            return
        if not 0.0 < share <= 1.0 + 1e-9:
            raise Broken(f"propensity {share} is no probability")
        if abs(reported.setdefault(pair, share) - share) > 1e-9:
            raise Broken(f"pair {pair} has propensity {reported[pair]:.4f} and {share:.4f}")
        counts[pair] = counts.get(pair, 0) + 1
    for pair, share in reported.items():
        width = 5.0 * math.sqrt(share * (1.0 - share) / draws) + 1e-9
        if abs(counts[pair] / draws - share) > width:
            raise Broken(
                f"pair {pair} has propensity {share:.4f}, chosen in {counts[pair] / draws:.4f}"
            )


def compiled_as_called(policy: Policy, learner: str) -> None:
    """The compiled loop does what calls from Python do."""
    if in_plain_python(policy):
        return
    called = begin(policy, learner)
    called.go(ROUNDS)
    looped = begin(policy, learner)
    player(policy)(
        looped.resolved.params, looped.model, looped.clock, looped.queue, looped.key,
        looped.problem, looped.tally, ROUNDS,
    )  # fmt: skip
    for name in ("job", "server", "success"):
        one, other = getattr(called.tally, name), getattr(looped.tally, name)
        if (one != other).any():
            raise Broken(f"another {name} from round {np.flatnonzero(one != other)[0] + 1} on")
    changed = differing(called.model, looped.model)
    if changed:
        raise Broken(f"another model at the end: {', '.join(changed)}")


def no_worse_than_random(policy: Policy, learner: str) -> None:
    """On 20 fixed problems of the main setting its queue is no longer than random's."""
    if policy.name == "random":
        return
    chosen = None if learner in LEARN_NOTHING else learner
    try:
        found = compare(
            [policy, "random"], Scenario(), rounds=COMPARED_ROUNDS, replicas=SEEDS, every="final",
            learner=chosen,
        ).runs  # fmt: skip
    except HeadwayError as problem:  # the run stopped at what the policy did
        raise Broken(str(problem)) from None
    mine, theirs = (found[name].queue_mean.mean() for name in (policy.name, "random"))
    if mine > theirs:
        raise Warned(f"{mine:.1f} jobs waiting on average, random has {theirs:.1f}")


class Warned(Broken):
    """A person's own policy is only warned."""


class Unchecked(Broken):
    """The rule could not be tried here."""


RULES: dict[str, Callable[[Policy, str], None]] = {
    "choose returns a waiting job and a free server": valid_pairs,
    "the same inputs give the same pair": same_inputs_same_pair,
    "the same inputs give the same pairs in another process": same_in_another_process,
    "choose writes nothing but the clock, and never its round": choose_writes_the_clock_only,
    "learn writes nothing but the model, and counts its outcome": learn_writes_the_model_only,
    "the order in which rows are stored does not matter": rows_in_any_order,
    "a run saved, loaded and continued equals an uninterrupted one": resumes,
    "100 outcomes may be outstanding": outcomes_outstanding,
    "the reported propensity is how often the pair is chosen, or NaN": propensities,
    "the compiled loop does what calls from Python do": compiled_as_called,
    "its queue is no longer than random's on 20 fixed problems": no_worse_than_random,
}


def check_policy(policy: str | Policy, *, learner: str | None = None) -> Report:
    """Try every rule on a policy, with each of its learners or the one given."""
    found = find_policy(policy)
    learners = found.learners
    if learner is not None:
        learners = (resolve(found, WORLD.situation(ROUNDS), learner=learner, given={}).learner,)
    findings = []
    for sentence, rule in RULES.items():
        finding = Finding(sentence, "kept")
        for each in learners:
            state, detail = judge(rule, found, each)
            if state != "kept":
                named = f"with learner {each}: {detail}" if len(learners) > 1 else detail
                finding = finding._replace(state=state, detail=named)
                break
        findings.append(finding)
    return Report(found.name, tuple(findings))


def judge(rule: Callable[[Policy, str], None], policy: Policy, learner: str) -> tuple[str, str]:
    """How the policy did on one rule. What its own code raises breaks the rule."""
    try:
        rule(policy, learner)
    except Broken as problem:
        own = policy_code(policy) < 0
        lenient = isinstance(problem, Unchecked) or (isinstance(problem, Warned) and own)
        return ("warning" if lenient else "broken"), str(problem)
    except HeadwayError:
        raise
    except Exception as problem:  # whatever a person's code does is a finding
        return "broken", f"{type(problem).__name__}: {problem}"
    return "kept", ""
