"""clairvoyant: knows what became of every rate, which nobody can; a bound from below."""

from headway.choosing import best_known_pair
from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy


@inlined
def choose(params, model, clock, queue, key):
    """The pair with the best realised rate; where coins are fresh, what `optimal` does."""
    clock.explored[0] = False
    clock.propensity[0] = 1.0
    return best_known_pair(queue)


policy = Policy(
    "clairvoyant",
    choose,
    learn,
    learners=("realised",),
    about="knows what became of each job's success rates; a bound that nobody reaches",
    source="docs/retries.md; optimal in worlds of fresh coins",
)
