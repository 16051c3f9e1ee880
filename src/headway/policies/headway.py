"""headway: the product's own default, the optimistic pair with memory of failed attempts."""

from headway.choosing import optimistic_pair
from headway.compiled import inlined
from headway.learners import learn
from headway.policy import Policy
from headway.rules import MEMORY


@inlined
def choose(params, model, clock, queue, key):
    """The best upper bound, discounted by what failures of that job say about the next attempt."""
    clock.explored[0] = False
    clock.propensity[0] = 1.0
    return optimistic_pair(params, model, queue)


policy = Policy(
    "headway",
    choose,
    learn,
    learners=("laplace", "likelihood"),
    defaults={"failure_prob": 0.05, **MEMORY, "memory": "learned"},
    about="the best upper bound, with learned memory of what failed before",
    source="headway's default; docs/retries.md",
)
