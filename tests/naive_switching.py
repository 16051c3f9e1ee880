"""Policy-switching queues the plain way: sets of arrival numbers, every switched run by itself."""

import math

from headway.rng import SERVICE, make_key, uniform
from headway.world.problem import arrives, row_of

EMPTY = frozenset()


def product(a, b):
    """The scalar product, added up from the left."""
    total = 0.0
    for i in range(len(a)):
        total += float(a[i]) * float(b[i])
    return total


class Naive:
    """One replica of a recorded run with everything written out, in plain Python."""

    def __init__(self, run, replica=0):
        self.rounds = run.rounds
        self.job = [int(each) for each in run.job[replica]]
        self.server = [int(each) for each in run.server[replica]]
        self.success = [int(each) for each in run.success[replica]]
        problem = run.instances[replica].problem
        if problem.rates.size:  # a table: jobs are rows of it
            key = make_key(run.seed, replica)
            arrivals = [arrives(problem, key, t) for t in range(1, run.rounds + 1)]
            self.coins = [uniform(key, SERVICE, t, 0) for t in range(1, run.rounds + 1)]
            rows = [row_of(problem, key, number) for number in range(sum(arrivals))]
            self.rate = [[float(each) for each in problem.rates[row]] for row in rows]
            self.orders = [(max(rates), -j) for j, rates in enumerate(self.rate)]
        else:
            tape = run.tape(replica)
            arrivals = tape.arrivals
            self.coins = [float(each) for each in tape.service]
            logits = [[product(theta, x) for theta in tape.theta_star] for x in tape.contexts]
            self.rate = [[1.0 / (1.0 + math.exp(-z)) for z in each] for each in logits]
            self.orders = [(max(each), -j) for j, each in enumerate(logits)]
        self.comes = []  # by round: a set of the job that comes at its end, or of none
        count = 0
        for arrives_now in arrivals:
            self.comes.append({count} if arrives_now else EMPTY)
            count += bool(arrives_now)

    def order(self, job):
        """The larger, the earlier `optimal` serves it: the better, then the first in."""
        return self.orders[job]

    def coin(self, t):
        return self.coins[t - 1]

    def serve(self, queue, t, coin):
        """`optimal` in round t."""
        if not queue:
            return queue
        job = max(queue, key=self.order)
        return queue - {job} if coin <= max(self.rate[job]) else queue

    def arrive(self, queue, t):
        return queue | self.comes[t - 1]

    def switched(self, t1, coin=None):
        """The queue at the start of rounds 1..T + 1: the policy in rounds 1..t1, then `optimal`."""
        queue = EMPTY
        states = [None, queue]
        for t in range(1, self.rounds + 1):
            if t > t1:
                queue = self.serve(queue, t, (coin or self.coin)(t))
            elif self.success[t - 1] == 1:
                assert self.job[t - 1] in queue
                queue = queue - {self.job[t - 1]}
            queue = self.arrive(queue, t)
            states.append(queue)
        return states

    def tail(self, queue, first):
        """How long a queue is in the end if `optimal` serves it from this round on."""
        for t in range(first, self.rounds + 1):
            queue = self.arrive(self.serve(queue, t, self.coin(t)), t)
        return len(queue)

    def forced(self, queue, t):
        """Psi of D+ = 0, D- = 1 in round t, which the policy began with this queue; -1 where
        nobody waits.
        """
        if not queue:
            return -1
        best = max(queue, key=self.order)
        plus, minus = self.arrive(queue, t), self.arrive(queue - {best}, t)
        return self.tail(plus, t + 1) - self.tail(minus, t + 1)

    def rate_gap(self, queue, t):
        """What the policy's choice lacks in success rate."""
        if not queue:
            return 0.0
        chosen = self.rate[self.job[t - 1]][self.server[t - 1]]
        return max(max(self.rate[j]) for j in queue) - chosen

    def state(self, plus, minus):
        """Which of the five; an error for a sixth."""
        more, less = plus - minus, minus - plus
        kind = {(0, 0): 0, (1, 0): 1, (0, 1): 2, (1, 1): 3}[len(more), len(less)]
        if kind == 3 and self.order(min(more)) < self.order(min(less)):
            return 4
        return kind
