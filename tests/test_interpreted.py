"""NUMBA_DISABLE_JIT=1 works, warns of nothing and gives the compiled results."""

import os
import subprocess
import sys

import numpy as np
import pytest

import headway

CODE = """
import sys, headway, numpy as np
policy, learner, slack_by = sys.argv[1:4]
run = headway.simulate(policy, headway.Scenario(slack_by=slack_by), rounds=120, replicas=1,
                       seed=5, learner=learner or None, record=True, threads=1)
print(",".join(map(str, [*run.job[0], *run.server[0], *run.success[0], run.queue_final[0]])))
"""


@pytest.mark.parametrize(
    ("policy", "learner", "slack_by"),
    [
        ("cqb-opt", "likelihood", "reject"),
        ("cqb-eps", "paper", "none"),
        ("random", "", "none"),
    ],
)
def test_interpreted_run_equals_the_compiled_one(policy, learner, slack_by):
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, policy, learner, slack_by],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    run = headway.simulate(
        policy, headway.Scenario(slack_by=slack_by), rounds=120, seed=5,
        learner=learner or None, record=True,
    )  # fmt: skip
    expected = [*run.job[0], *run.server[0], *run.success[0], run.queue_final[0]]
    assert np.array_equal(np.array(found.stdout.split(","), np.int64), expected)
