"""Choosing without knowing: jobs and free servers, by a pointer or by a uniform draw."""

from headway.compiled import compiled


@compiled
def count_free(free):
    """How many servers are free."""
    total = 0
    for k in range(free.shape[0]):
        total += 1 if free[k] else 0
    return total


@compiled
def next_free(free, start):
    """The first free server at or after `start`, around the corner if need be."""
    for step in range(free.shape[0]):
        k = (start + step) % free.shape[0]
        if free[k]:
            return k
    return -1


@compiled
def uniform_free(free, draw):
    """A free server by one uniform draw on [0, 1)."""
    left = min(int(draw * count_free(free)), count_free(free) - 1)
    for k in range(free.shape[0]):
        if free[k]:
            if left == 0:
                return k
            left -= 1
    return -1


@compiled
def uniform_job(arrival, length, draw):
    """A waiting job by one uniform draw on [0, 1), whatever the order of the rows.

    The draw picks a rank by arrival; the arrival number of that rank is found by bisection,
    counting in a vectorised loop.
    """
    rank = min(int(draw * length), length - 1)
    numbers = arrival[:length]
    low = numbers.min()
    high = numbers.max()
    while low < high:
        middle = (low + high) // 2
        below = 0
        for j in range(length):
            below += 1 if numbers[j] <= middle else 0
        if below > rank:
            high = middle
        else:
            low = middle + 1
    for j in range(length):
        if numbers[j] == low:
            return j
    return -1
