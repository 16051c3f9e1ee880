"""Compiled: what becomes of each choice of a policy if `optimal` takes over right after it.

Q(t, .) is the queue that the policy serves in rounds 1..t and `optimal` from round t + 1 on, all on
the same draws. Fork t compares Q(t, .), the plus queue, with Q(t - 1, .), the minus queue: they
differ by one choice. All forks are followed without a queue, by these facts.

1. Rank the jobs by `optimal`'s order. The coin of a round is a place in that order too: it serves
   the jobs above it and none below. So jobs and coins are numbers that compare: the job at place p
   is 2p + 1 (odd), a coin with c jobs below it is 2c (even), and a job that `optimal` chooses
   leaves if and only if its number is above the coin's.
2. A queue under `optimal` is told by `bar`: for each round the job that left or, if none did, the
   coin. One job x more changes it so: the first time that x > bar[s], x is served in place of what
   stands there. If that is a job, it is now the one job more, and so on; if it is a coin, nobody
   left the minus queue, and the queues are the same again.
3. One job h less: nothing changes until the round s in which h would leave. Then the best of the
   others is served if it is above the coin. It is the first to leave after s of those that waited
   in round s; and a bar below the coin of s shows that no job above that coin is left.
4. The minus queue of fork t + 1 is the plus queue of fork t. So one `bar`, at first that of
   `optimal` alone, is changed fork by fork and ends as the policy's own run.
"""

from typing import NamedTuple

from headway.compiled import compiled
from headway.kernel.linear import dot
from headway.kernel.logistic import sigmoid
from headway.rng import SERVICE, uniform
from headway.state import Floats, Integers
from headway.world.problem import arrives, draw_context, row_of

# Fork t begins: nobody waited, nobody left either queue, the same job left both, another job each,
# only the minus queue lost its job.
NOBODY, NEITHER, SAME, OTHER, LOST = 0, 1, 2, 3, 4
# The states S_0, S_1+, S_1-, S_2+, S_2- of the refined lemma.
EQUAL, ONE_MORE, ONE_LESS, SWAPPED, SWAPPED_BACK = 0, 1, 2, 3, 4
UNASKED = -1  # a forced disagreement of a round in which nobody waited


class Ranked(NamedTuple):
    """All jobs and coins of one problem in `optimal`'s order."""

    number: Integers  # (n,) 2 place + 1 of each job, by arrival number
    entered: Integers  # (n,) the round at whose end a job came, by arrival number
    rate: Floats  # (n, K) success rates, by arrival number
    entered_at: Integers  # (n,) entered, by place
    best_rate: Floats  # (n,) the rate at the best server, by place
    uniform: Floats  # (T + 1,) U[t,2]; 0 is unused
    coin: Integers  # (T + 1,) the same as a number: twice how many jobs it does not serve
    strict: bool  # is a coin that equals the rate a failure (tables) or a success?


class Forks(NamedTuple):
    """What is found, by round; index 0 is unused where there are T + 1."""

    own: Integers  # (T + 1,) who left the policy's queue, else the coin
    bar: Integers  # (T + 1,) the same for Q(t, .) while forks up to t are done
    best: Integers  # (T + 1,) the best job that waits under the policy, 0 = nobody
    stays: Integers  # (n,) by place: is the job of Q(t, .) still there after the last round?
    rate_gap: Floats  # (T,)
    misaligned: Integers  # (T,) do the policy's and the optimal queue differ as sets?
    gap: Integers  # (T,) psi(t, T + 1)
    life: Integers  # (T,) rounds at whose start the queues of fork t differ, T + 1 among them
    case: Integers  # (T,) how it began
    end: Integers  # (T,) its state in T + 1
    forced: Integers  # (T,) what is left in T + 1 of a disagreement forced in round t
    transitions: Integers  # (5, 5) between states, from a round to the next


@compiled
def lay_out(problem, key, inverse, radius, x, entered, value, best_rate, rate, coin):
    """Each job: the round at whose end it comes, what `optimal` ranks it by, its best rate, all
    its rates; and U[t,2] of each round at coin[t]. Returns how many jobs come.
    """
    count = 0
    for t in range(1, coin.shape[0]):
        coin[t] = problem.service[t - 1] if problem.service_given else uniform(key, SERVICE, t, 0)
        if not arrives(problem, key, t):
            continue
        draw_context(problem, inverse, radius, key, t, count, x)
        entered[count] = t
        for k in range(rate.shape[1]):
            if problem.rates.shape[0] > 0:
                known = problem.rates[row_of(problem, key, count), k]
                rate[count, k] = known
            else:
                known = dot(problem.theta_star[k], x)
                rate[count, k] = sigmoid(known)
            if k == 0 or known > value[count]:
                value[count] = known
                best_rate[count] = rate[count, k]
        count += 1
    return count


@compiled
def seat(tree, number, winner):
    """Write a job's leaf, its number while it waits, else 0, and who wins in tree[1]."""
    i = (tree.shape[0] + number) >> 1
    tree[i] = winner
    while i > 1:
        i >>= 1
        winner = max(tree[2 * i], tree[2 * i + 1])
        if tree[i] == winner:
            return
        tree[i] = winner


@compiled
def walk(ranked, job, server, success, other_job, other_success, tree, here, forks):
    """A policy's recorded run beside `optimal`'s. Returns the first round whose outcome is not
    what its coin says, 0 if there is none.
    """
    differing = 0
    arrived = 0
    for t in range(1, forks.bar.shape[0]):
        i = t - 1
        forks.own[t] = ranked.coin[t]
        forks.bar[t] = ranked.coin[t]
        forks.best[t] = tree[1]
        forks.misaligned[i] = 1 if differing > 0 else 0
        if job[i] >= 0:
            j = job[i]
            rate = ranked.rate[j, server[i]]
            met = ranked.uniform[t] < rate
            if not ranked.strict:
                met = ranked.uniform[t] <= rate
            if met != (success[i] == 1):
                return t
            forks.rate_gap[i] = ranked.best_rate[tree[1] >> 1] - rate
            if met:
                forks.own[t] = ranked.number[j]
                seat(tree, ranked.number[j], 0)
                here[j] -= 1
                differing += 1 if here[j] > 0 else -1
        if other_job[i] >= 0 and other_success[i] == 1:
            j = other_job[i]
            forks.bar[t] = ranked.number[j]
            forks.stays[ranked.number[j] >> 1] = 0
            here[j] -= 2
            differing += 1 if here[j] > 0 else -1
        if arrived < ranked.entered.shape[0] and ranked.entered[arrived] == t:
            seat(tree, ranked.number[arrived], ranked.number[arrived])
            here[arrived] = 3
            arrived += 1
    return 0


@compiled
def carry(bar, x, hole, s, write):
    """The queue with job x more (and job `hole` less, -1 = none) from round s on: who is the one
    job more in the end, and the round in which it was a coin or the hole instead.
    """
    for i in range(s, bar.shape[0]):
        there = bar[i]
        if x > there:
            if write:
                bar[i] = x
            x = there
            if x == hole or x & 1 == 0:
                return x, i
    return x, bar.shape[0]


@compiled
def next_best(ranked, bar, stays, s):
    """The best job but the one that leaves in round s, and when it leaves; -1 where the coin of s
    serves no such job.
    """
    coin = ranked.coin[s]
    end = bar.shape[0]
    for i in range(s + 1, end):
        there = bar[i]
        if there <= coin:
            return -1, s
        if there & 1 == 1 and ranked.entered_at[there >> 1] < s:
            return there, i
    for place in range(stays.shape[0] - 1, (coin >> 1) - 1, -1):
        if stays[place] == 1 and ranked.entered_at[place] < s:
            return 2 * place + 1, end
    return -1, s


@compiled
def lack(ranked, bar, stays, hole, s, write):
    """The queue with job `hole` less from round s on: which job it lacks in the end, and the round
    in which it served nobody instead of it.
    """
    end = bar.shape[0]
    while s < end and bar[s] != hole:
        s += 1
    while s < end:
        found, leaves = next_best(ranked, bar, stays, s)
        if write:
            bar[s] = found if found > 0 else ranked.coin[s]
        if found < 0:
            return hole, s
        hole = found
        s = leaves
    return hole, end


@compiled
def stay_in(transitions, state, rounds, then):
    """So many rounds in a state, then another one (or the same: the run ended)."""
    transitions[state, state] += rounds - 1
    if then != state:
        transitions[state, then] += 1


@compiled
def lose(forks, t, x):
    """D+ = 0, D- = 1: only the minus queue lost job x. State S_1+ until they meet."""
    end = forks.bar.shape[0]
    left, met = carry(forks.bar, x, -1, t + 1, True)
    forks.case[t - 1] = LOST
    forks.life[t - 1] = met - t
    if met == end:
        forks.stays[left >> 1] = 1
        forks.gap[t - 1] = 1
        forks.end[t - 1] = ONE_MORE
    stay_in(forks.transitions, ONE_MORE, met - t, forks.end[t - 1])


@compiled
def swap(ranked, forks, t, x, hole):
    """D+ = D- = 1: the minus queue lost job x, the plus queue the lesser job `hole`. State S_2+;
    S_1- once the plus queue serves x in a round in which the minus queue serves nobody.
    """
    end = forks.bar.shape[0]
    left, turned = carry(forks.bar, x, hole, t + 1, True)
    forks.case[t - 1] = OTHER
    forks.life[t - 1] = turned - t
    if turned == end:
        forks.stays[left >> 1] = 1
        forks.stays[hole >> 1] = 0
        forks.end[t - 1] = SWAPPED
        stay_in(forks.transitions, SWAPPED, turned - t, SWAPPED)
        return
    if left == hole:
        stay_in(forks.transitions, SWAPPED, turned - t, EQUAL)
        return
    stay_in(forks.transitions, SWAPPED, turned - t, ONE_LESS)
    hole, met = lack(ranked, forks.bar, forks.stays, hole, turned + 1, True)
    forks.life[t - 1] = met - t
    if met == end:
        forks.stays[hole >> 1] = 0
        forks.gap[t - 1] = -1
        forks.end[t - 1] = ONE_LESS
    stay_in(forks.transitions, ONE_LESS, met - turned, forks.end[t - 1])


@compiled
def force(ranked, forks, t, x, served):
    """What is left in T + 1 of D+ = 0, D- = 1 in round t: only the minus queue loses job x.

    `bar` is the minus queue's where x left in fact, else the plus queue's. It is only read.
    """
    if served:
        met = carry(forks.bar, x, -1, t + 1, False)[1]
    else:
        met = lack(ranked, forks.bar, forks.stays, x, t + 1, False)[1]
    return 1 if met == forks.bar.shape[0] else 0


@compiled
def follow(ranked, forks, first, last):
    """Forks first..last, in order. Returns the first round in which the queue that just switched
    does not serve the best job, or D+ > D-; 0 if there is none.
    """
    for t in range(first, last + 1):
        best = forks.best[t]
        coin = ranked.coin[t]
        served = best > coin
        if forks.bar[t] != (best if served else coin):
            return t
        if best == 0:
            forks.forced[t - 1] = UNASKED
            continue
        forks.forced[t - 1] = force(ranked, forks, t, best, served)
        own = forks.own[t]
        forks.bar[t] = own
        if own == best:
            forks.case[t - 1] = SAME
        elif own == coin:
            forks.case[t - 1] = NEITHER
            if served:
                lose(forks, t, best)
        elif not served:
            return t
        else:
            swap(ranked, forks, t, best, own)
    return 0


@compiled
def tail_length(ranked, job, success, tree, t1, t2):
    """Q(t1, t2) by simulating this one queue: who waits when round t2 begins, if the policy served
    rounds 1..t1 and `optimal` the others.
    """
    length = 0
    arrived = 0
    for t in range(1, t2):
        if t <= t1:
            if job[t - 1] >= 0 and success[t - 1] == 1:
                seat(tree, ranked.number[job[t - 1]], 0)
                length -= 1
        elif tree[1] > ranked.coin[t]:
            seat(tree, tree[1], 0)
            length -= 1
        if arrived < ranked.entered.shape[0] and ranked.entered[arrived] == t:
            seat(tree, ranked.number[arrived], ranked.number[arrived])
            length += 1
            arrived += 1
    return length
