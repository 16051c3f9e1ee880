"""Benchmarks of the policies: their steps, calls from Python, ranking, all of them at once."""

import statistics
import time
from collections.abc import Callable

import numpy as np

import headway
from headway.handle import Handle, decide, enter, score, update
from headway.learners import new_model
from headway.policies import POLICIES
from headway.rng import make_key
from headway.settings import resolve
from headway.state import new_clock, new_queue, roomier_model

ROUNDS = 5000


def each(work: Callable[[], object], count: int) -> float:
    """CPU microseconds of one call."""
    start = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - start) / count * 1e6


def bench_steps() -> None:
    """Every policy's step against random's: CPU time of a round, main setting, 7 seeds."""
    names = [*POLICIES, *(f"{name} paper" for name in ("cqb-opt", "cqb-eps", "acqb"))]
    spent: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(7):
        for name in names:
            policy, _, learner = name.partition(" ")
            run = headway.simulate(
                policy, headway.Scenario(), rounds=ROUNDS, seed=seed, threads=1,
                learner=learner or None, every="final",
            )  # fmt: skip
            spent[name].append(1e6 / run.rounds_per_second)
    yardstick = statistics.median(spent["random"])
    for name in sorted(names, key=lambda name: statistics.median(spent[name])):
        middle = statistics.median(spent[name])
        print(f"steps: {name:14} {middle:7.2f} us a round, {middle / yardstick:6.2f}x random")


class NumpyLogisticUcb:
    """The straightforward online program: logistic UCB in numpy, 15 lines."""

    def __init__(self, servers: int, dimension: int) -> None:
        self.inverse = np.stack([np.eye(dimension)] * servers)
        self.theta = np.zeros((servers, dimension))

    def decide(self, contexts):
        spread = np.sqrt(((contexts @ self.inverse) * contexts).sum(-1)).T
        score = contexts @ self.theta.T + spread
        return divmod(int(score.argmax()), score.shape[1])

    def update(self, x, server, success):
        mean = 1.0 / (1.0 + np.exp(-(x @ self.theta[server])))
        push = self.inverse[server] @ x
        slope = mean * (1.0 - mean)
        self.inverse[server] -= np.outer(push, push) * (slope / (1.0 + slope * (x @ push)))
        self.theta[server] += self.inverse[server] @ x * (success - mean)


def at_work(dimension: int, learner: str, jobs: int = 20, servers: int = 5):
    """A handle with jobs that wait, and their contexts."""
    world = headway.Scenario(servers=servers, dimension=dimension, slack_by="none")
    params = resolve("cqb-opt", world.situation(ROUNDS), learner=learner, given={}).params
    model = roomier_model(new_model(params, servers, dimension), 10_000)
    handle = Handle(params, model, new_clock(), new_queue(servers, dimension, jobs), make_key(0))
    contexts = np.random.default_rng(0).uniform(-1.0, 1.0, (jobs, dimension)) / dimension**0.5
    for i in range(jobs):
        enter(handle, contexts[i], i, 0)
    return handle, contexts


def bench_calls() -> None:
    """One decision and one update called from Python, 20 jobs x 5 servers, against numpy."""
    none = np.zeros(5, np.int64)
    for dimension, aim in ((5, 2.0), (64, 1.5)):
        for learner in ("likelihood", "laplace"):
            ratios, mine_all = [], []
            handle, contexts = at_work(dimension, learner)
            theirs = NumpyLogisticUcb(5, dimension)

            def ours(handle=handle, contexts=contexts):
                job, server = decide(handle)
                update(handle, contexts[job], none, server, True)

            def numpy_way(theirs=theirs, contexts=contexts):
                job, server = theirs.decide(contexts)
                theirs.update(contexts[job], server, 1.0)

            ours()
            for _ in range(9):
                mine = each(ours, 400)
                ratios.append(each(numpy_way, 400) / mine)
                mine_all.append(mine)
            print(
                f"calls: d={dimension}, {learner}: {statistics.median(mine_all):.1f} us, "
                f"numpy logistic UCB {statistics.median(ratios):.1f}x (aim {aim}x)"
            )


def bench_ranking() -> None:
    """1,000 jobs x 5 servers scored afresh and ranked in one call, against numpy."""
    for dimension in (5, 64):
        handle, _ = at_work(dimension, "likelihood")
        rng = np.random.default_rng(1)
        for i in range(200):
            x = rng.uniform(-1.0, 1.0, dimension) / dimension**0.5
            update(handle, x, np.zeros(5, np.int64), i % 5, i % 3 > 0)
        contexts = rng.uniform(-1.0, 1.0, (1000, dimension)) / dimension**0.5
        model = handle.model

        def ours(handle=handle, contexts=contexts):
            return np.argsort(-score(handle, contexts), axis=None)

        def einsum(model=model, contexts=contexts):
            spread = np.sqrt(np.einsum("nd,kde,ne->nk", contexts, model.inverse, contexts))
            return np.argsort(-(contexts @ model.theta.T + model.radius * spread), axis=None)

        def blas(model=model, contexts=contexts):
            spread = np.sqrt(((contexts @ model.inverse) * contexts).sum(-1)).T
            return np.argsort(-(contexts @ model.theta.T + model.radius * spread), axis=None)

        assert (ours()[:20] == einsum()[:20]).all()
        spent: dict[str, list[float]] = {"ours": [], "einsum": [], "blas": []}
        for _ in range(9):
            for name, way in (("ours", ours), ("einsum", einsum), ("blas", blas)):
                spent[name].append(each(way, 20))
        middle = {name: statistics.median(times) for name, times in spent.items()}
        print(
            f"ranking: d={dimension}: {middle['ours']:.0f} us; "
            f"einsum {middle['einsum'] / middle['ours']:.1f}x, "
            f"matrix product {middle['blas'] / middle['ours']:.2f}x"
        )


def bench_zoo() -> None:
    """Ten policies compared at T=5000, 100 replicas, two threads: CPU minutes."""
    start = time.process_time()
    found = headway.compare(rounds=ROUNDS, replicas=100, threads=2)
    spent = time.process_time() - start
    print(f"zoo: {len(found.runs)} policies x 100 replicas: {spent / 60.0:.2f} CPU-minutes")


BENCHES = {
    "steps": bench_steps,
    "calls": bench_calls,
    "ranking": bench_ranking,
    "zoo": bench_zoo,
}
