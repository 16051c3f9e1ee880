"""The benchmarks: ratios inside one run, CPU time, interleaved, medians. `run.py [NAME ...]`."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import laboratory
import numpy as np
import reference
import zoo
from numba import njit

import headway
from headway.choosing import optimistic_pair
from headway.compiled import borrowed
from headway.kernel.ellipsoid import uncertainty
from headway.kernel.linear import dot
from headway.kernel.optimism import best_pair
from headway.learners import learn, new_model
from headway.queue import add_job, refresh_server
from headway.settings import resolve
from headway.state import new_queue, roomier_model, roomier_queue

ROUNDS = 5000


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of the process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def on_tape(tape, **given):
    """The reference on a tape."""
    return reference.run(tape.theta_star, tape.contexts, tape.arrivals, tape.service, **given)


def newton_only(start, signed, ridge):
    """The reference's MLE by hand-written Newton steps alone: quicker than scipy's minimize."""
    theta = start
    identity = np.eye(len(theta))
    for _ in range(50):
        rate = reference.expit(signed @ theta)
        gradient = ridge * theta - (1.0 - rate) @ signed
        hessian = (signed.T * (rate * (1.0 - rate))) @ signed + ridge * identity
        step = np.linalg.solve(hessian, gradient)
        theta = theta - step
        if np.abs(step).max() < 1e-6:
            return theta
    raise ArithmeticError("Newton's method did not converge")


def bench_reference() -> None:
    """cqb-opt against the straightforward implementation, K=d=5, T=5000."""
    world = headway.Scenario()
    rows: dict[str, list[float]] = {"paper": [], "newton": [], "likelihood": []}
    speeds: list[float] = []
    solver = reference.fit_mle
    for seed in range(7):
        tape = world.tape(rounds=ROUNDS, seed=seed)
        slow = cpu(lambda tape=tape: on_tape(tape))
        reference.fit_mle = newton_only
        newton = cpu(lambda tape=tape: on_tape(tape))
        reference.fit_mle = solver
        for learner in ("paper", "likelihood"):
            mine = min(
                cpu(
                    lambda seed=seed, learner=learner: headway.simulate(
                        "cqb-opt", world, rounds=ROUNDS, seed=seed, learner=learner, threads=1
                    )
                )
                for _ in range(3)
            )
            rows[learner].append(slow / mine)
            if learner == "paper":
                rows["newton"].append(newton / mine)
                speeds.append(ROUNDS / mine)
    print(f"reference: paper {statistics.median(rows['paper']):.0f}x", end=" ")
    print(f"({min(rows['paper']):.0f}-{max(rows['paper']):.0f}, 7 seeds),", end=" ")
    print(f"against hand-written Newton {statistics.median(rows['newton']):.0f}x;", end=" ")
    print(f"likelihood {statistics.median(rows['likelihood']):.0f}x;", end=" ")
    print(f"paper {statistics.median(speeds):,.0f} rounds per CPU-second")


def bench_actions() -> None:
    """The same actions as the reference over whole runs, 20 seeds, two kinds of contexts."""
    same = {"continuous": 0, "40 vectors": 0}
    for seed in range(20):
        drawn = headway.Scenario().tape(rounds=ROUNDS, seed=seed)
        pick = np.random.default_rng(seed).integers(0, 40, len(drawn.contexts))
        repeated = headway.Tape(
            theta_star=drawn.theta_star,
            contexts=drawn.contexts[:40][pick],
            arrivals=drawn.arrivals,
            service=drawn.service,
        )
        for name, tape in (("continuous", drawn), ("40 vectors", repeated)):
            run = headway.simulate("cqb-opt", tape, rounds=ROUNDS, learner="paper", record=True)
            found = on_tape(tape)
            same[name] += all(
                np.array_equal(getattr(run, field)[0], found[field])
                for field in ("job", "server", "success", "queue_length")
            )
    print("actions:", ", ".join(f"{name} {count} of 20" for name, count in same.items()))


def resident() -> float:
    """Megabytes in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def bench_long_run() -> None:
    """likelihood, T = 1,000,000: time of the last tenth against the first, and memory."""
    rounds = 1_000_000
    marks: list[tuple[float, float]] = []
    done = [0]

    def advance(more: int) -> None:
        done[0] += more
        if done[0] // (rounds // 10) > len(marks) - 1:
            marks.append((time.thread_time(), resident()))

    ratios: list[float] = []
    grown: list[float] = []
    for seed in range(9):
        marks.clear()
        done[0] = 0
        headway.simulate(
            "cqb-opt", headway.Scenario(), rounds=rounds, every="final", seed=seed, threads=1,
            advance=advance,
        )  # fmt: skip
        spent = np.diff([mark[0] for mark in marks])
        ratios.append(spent[-1] / spent[0])
        grown.append(marks[-1][1] - marks[1][1])
    print(f"long run: last tenth / first tenth {statistics.median(ratios):.2f}x", end=" ")
    print(f"({min(ratios):.2f}-{max(ratios):.2f}, 9 seeds); memory at most {max(grown):+.1f} MB")


@njit(error_model="numpy")
def rescored(params, model, queue):
    """The best pair with every score computed afresh: job by job, server by server."""
    mean = queue.mean
    spread = queue.spread
    for j in range(queue.length[0]):
        x = queue.context[j]
        for k in range(model.updates.shape[0]):
            mean[j, k] = dot(model.theta[k], x)
            spread[j, k] = uncertainty(model.inverse[k], x)
    n = queue.length[0]
    return best_pair(mean, spread, queue.arrival, n, queue.free, model.radius, params.learner != 1)


@njit(error_model="numpy")
def rescored_by_column(params, model, queue, along, total):
    """The same, vectorised over jobs: the best that full rescoring can do in this layout."""
    n = queue.length[0]
    d = queue.context.shape[1]
    for k in range(model.updates.shape[0]):
        mean = queue.mean[:, k][:n]
        spread = queue.spread[:, k][:n]
        mean[:] = 0.0
        total[:] = 0.0
        for i in range(d):
            column = queue.context[:, i][:n]
            weight = model.theta[k, i]
            along[:] = 0.0
            for h in range(d):
                other = queue.context[:, h][:n]
                entry = model.inverse[k, i, h]
                for j in range(n):
                    along[j] += other[j] * entry
            for j in range(n):
                mean[j] += column[j] * weight
                total[j] += column[j] * along[j]
        for j in range(n):
            spread[j] = np.sqrt(total[j])
    return best_pair(
        queue.mean, queue.spread, queue.arrival, n, queue.free, model.radius, params.learner != 1
    )


@njit(error_model="numpy")
def cached(params, model, queue, server):
    """What a driver does instead: one column refreshed, then the best pair."""
    model = borrowed(model)
    queue = borrowed(queue)
    refresh_server(params, model, queue, server)
    return optimistic_pair(params, model, queue)


def bench_cache() -> None:
    """Cached columns against full rescoring, Q=10,000, d=20, K=5, both compiled."""
    jobs, dimension, servers = 10_000, 20, 5
    rng = np.random.default_rng(0)
    for learner in ("likelihood", "paper"):
        world = headway.Scenario(dimension=dimension, servers=servers)
        params = resolve("cqb-opt", world.situation(ROUNDS), learner=learner, given={}).params
        model = roomier_model(new_model(params, servers, dimension), 600)
        queue = roomier_queue(new_queue(servers, dimension), jobs)
        for i in range(500):
            x = rng.uniform(-1.0, 1.0, dimension)
            learn(params, model, x, np.zeros(servers, np.int64), i % servers, rng.random() < 0.5)
        for i in range(jobs):
            add_job(params, model, queue, rng.uniform(-1.0, 1.0, dimension), i, 0)
        model.step_scale[:] = 0.0  # refreshing again and again must not change what is true
        along, total = np.empty(jobs), np.empty(jobs)
        ways = {
            "cached": lambda: cached(params, model, queue, 1),
            "rescored": lambda: rescored(params, model, queue),
            "by column": lambda: rescored_by_column(params, model, queue, along, total),
        }
        assert len({way() for way in ways.values()}) == 1
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(15):
            for name, way in ways.items():
                repeats = 40 if name == "cached" else 2
                spent[name].append(
                    cpu(lambda way=way, n=repeats: [way() for _ in range(n)]) / repeats
                )
        middle = {name: statistics.median(times) for name, times in spent.items()}
        print(
            f"cache, {learner}: {middle['cached'] * 1e6:.0f} us; "
            f"full rescoring {middle['rescored'] / middle['cached']:.0f}x, "
            f"vectorised over jobs {middle['by column'] / middle['cached']:.0f}x"
        )


def bench_threads() -> None:
    """Two threads over replicas against one: wall time, the quickest of many short windows."""

    def window(threads: int) -> float:
        start = time.perf_counter()
        headway.simulate(
            "cqb-opt", headway.Scenario(), rounds=ROUNDS, replicas=8, learner="paper",
            threads=threads, every="final",
        )  # fmt: skip
        return time.perf_counter() - start

    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(25):
        for threads in times:
            times[threads].append(window(threads))
    print(f"threads: {min(times[1]) / min(times[2]):.2f}x by the quickest,", end=" ")
    print(f"{statistics.median(times[1]) / statistics.median(times[2]):.2f}x by the median")


def bench_compile() -> None:
    """CPU seconds of `headway compare` with an empty cache, and of the same with a full one."""
    command = Path(sys.executable).with_name("headway")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HEADWAY_CACHE_DIR": folder}
        spent = []
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [command, "compare", "--out", folder], env=environment, check=True,
                capture_output=True,
            )  # fmt: skip
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        count = subprocess.run(
            [sys.executable, "-c", COUNT_COMPILATIONS], env=environment, check=True,
            capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
    print(f"compile: cold {spent[0]:.1f} CPU-s, warm {spent[1]:.1f}, recompiled {count}")


COUNT_COMPILATIONS = """
import headway
from headway.compiled import compilations
headway.compare(rounds=50, replicas=2)
headway.compare(rounds=50, replicas=2, learner="paper")
print(compilations())
"""


def bench_regret() -> None:
    """Time-average regret on the main setting, T=5000, 200 replicas of seed 0."""
    cases = {
        "likelihood, failure_prob 1/T^2": {},
        "likelihood, failure_prob 0.05": {"failure_prob": 0.05},
        "paper, beta_scale 1": {"learner": "paper"},
        "paper, beta_scale 0.03": {"learner": "paper", "beta_scale": 0.03},
        "laplace": {"learner": "laplace"},
    }
    for name, given in cases.items():
        found = headway.compare(["cqb-opt"], rounds=ROUNDS, replicas=200, every="final", **given)
        regret = found.rows["cqb-opt"]["regret_mean"]
        print(f"regret: {name}: {regret.mean:.3f} [{regret.low:.3f}, {regret.high:.3f}]")


BENCHES = {
    "reference": bench_reference,
    "actions": bench_actions,
    "long-run": bench_long_run,
    "cache": bench_cache,
    "threads": bench_threads,
    "compile": bench_compile,
    "regret": bench_regret,
    **zoo.BENCHES,
    **laboratory.BENCHES,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or BENCHES:
        BENCHES[chosen]()
