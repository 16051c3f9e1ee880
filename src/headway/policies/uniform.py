"""random: a uniform waiting job and a uniform free server, every round."""

from headway.compiled import inlined
from headway.kernel.exploration import count_free, uniform_free, uniform_job
from headway.learners import learn
from headway.policy import Policy
from headway.rng import JOB, SERVER, uniform


@inlined
def choose(params, model, clock, queue, key):
    """Two draws of this round: the job's rank by arrival, and the server."""
    t = clock.round[0]
    length = queue.length[0]
    clock.explored[0] = True
    clock.propensity[0] = 1.0 / (length * count_free(queue.free))
    job = uniform_job(queue.arrival, length, uniform(key, JOB, t, 0))
    return job, uniform_free(queue.free, uniform(key, SERVER, t, 0))


policy = Policy(
    "random",
    choose,
    learn,
    about="a uniform job and a uniform server",
    source="Section 6, baseline (i)",
)
