"""Benchmarks of the regret laboratory: all switch points of a path against separate tails."""

import statistics
import time

import numpy as np

import headway
from headway.learners import new_model
from headway.queue import add_job
from headway.rng import make_key
from headway.settings import resolve
from headway.sim.forks import tail_length
from headway.sim.rollout import new_tally, rollout
from headway.sim.run import STRETCH
from headway.sim.switching import new_tree, rank, switch_everywhere, switching_queues
from headway.state import new_clock, new_queue, roomier_model, roomier_queue

ROUNDS = 5000
TAILS = 40  # of ROUNDS, at random
CASES = (("laplace", 5), ("likelihood", 5), ("paper", 3))


def cpu(work):
    """CPU seconds of the process, and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


class Path:
    """One path of a policy, stopped at any round to let `optimal` take over in the usual loop."""

    def __init__(self, world, learner, seed):
        situation = world.situation(ROUNDS)
        self.params = resolve("cqb-opt", situation, learner=learner, given={}).params
        self.knowing = resolve("optimal", situation, given={}).params
        self.problem = world.instance(seed, 0, ROUNDS).problem
        self.key = make_key(seed)
        self.model = roomier_model(
            new_model(self.params, world.servers, world.dimension), ROUNDS + STRETCH
        )
        self.truth = new_model(self.knowing, world.servers, world.dimension)
        self.truth.theta[:] = self.problem.theta_star
        self.queue = self.room(world)
        self.world = world
        self.clock = new_clock()
        self.tally = new_tally(rounds=ROUNDS, every=0, record=False)

    def room(self, world):
        return roomier_queue(new_queue(world.servers, world.dimension), ROUNDS)

    def tail(self, t1):
        """CPU seconds of one tail, the policy up to t1 not counted, and how long the queue is."""
        self.play(self.params, self.model, self.clock, self.queue, self.tally, t1)
        queue, clock = self.room(self.world), new_clock()
        for row in range(self.queue.length[0]):
            x = np.ascontiguousarray(self.queue.context[row])
            add_job(
                self.knowing, self.truth, queue, x, self.queue.arrival[row], self.queue.entered[row]
            )
        clock.round[0] = t1 + 1
        tally = new_tally(rounds=ROUNDS, every=0, record=False)
        tally.arrived[0] = self.tally.arrived[0]
        spent, _ = cpu(lambda: self.play(self.knowing, self.truth, clock, queue, tally, ROUNDS))
        return spent, int(queue.length[0])

    def play(self, params, model, clock, queue, tally, last):
        rollout(params, model, clock, queue, self.key, self.problem, tally, last)


def bench_switching() -> None:
    """All switch points of one path of cqb-opt, T=5000, main setting, against T separate tails.

    Tails are timed on a random sample and scaled: in the simulator's own loop, which is what a
    switched run literally is, and in a loop that only ranks jobs. The policy's own run, which all
    need, is counted for none; that of `optimal` is counted here, as it is one of the tails.
    """
    world = headway.Scenario()
    switching_queues("cqb-opt", world, rounds=50)
    for learner, seeds in CASES:
        ratios, leaner, spent, regrets = [], [], [], []
        for seed in range(seeds):
            found = switching_queues(
                "cqb-opt", world, rounds=ROUNDS, seed=seed, learner=learner, threads=1
            )
            run, optimal = found.run, found.optimal
            mine = min(cpu(lambda: switch_everywhere(run, optimal, threads=1))[0] for _ in range(5))
            mine += ROUNDS / optimal.rounds_per_second
            points = np.sort(np.random.default_rng(seed).choice(ROUNDS, TAILS, replace=False))
            path = Path(world, learner, seed)
            path.tail(0)  # the first call from Python
            tails = [path.tail(int(t)) for t in points]
            ranked = rank(run, optimal.instances[0], 0)
            lean = 0.0
            for t, (_, length) in zip(points, tails, strict=True):
                ends = []
                for last in (ROUNDS + 1, t + 1):
                    tree = new_tree(ranked.number.shape[0])
                    ends.append(
                        cpu(lambda t=t, last=last, tree=tree: tail_length(
                            ranked, run.job[0], run.success[0], tree, t, last
                        ))
                    )  # fmt: skip
                lean += ends[0][0] - ends[1][0]
                assert ends[0][1] == length
            scale = ROUNDS / TAILS
            ratios.append(scale * sum(each[0] for each in tails) / mine)
            leaner.append(scale * lean / mine)
            spent.append(mine)
            regrets.append(int(found.regret[0]))
        print(
            f"switching: {learner:10} {1000 * statistics.median(spent):5.1f} ms for {ROUNDS} "
            f"switch points; separate tails {statistics.median(ratios):,.0f}x "
            f"({min(ratios):,.0f}-{max(ratios):,.0f}, {seeds} paths; aim 20x), ranked tails "
            f"{statistics.median(leaner):,.0f}x; regrets {regrets}"
        )


BENCHES = {"switching": bench_switching}
