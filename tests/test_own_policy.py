"""A person's own policy: from a file, plain or compiled, in both loops, and what is refused."""

import numpy as np
import pytest

import headway
from headway.learners import learn
from headway.policies import POLICIES
from headway.policies.cqb_eps import choose as choose_cqb_eps

PLAIN = '''
"""Shortest-first by the first component."""
import headway
from headway.learners import learn


def choose(params, model, clock, queue, key):
    jobs = queue.context[: queue.length[0], 0]
    row = min(range(len(jobs)), key=lambda j: (jobs[j], queue.arrival[j]))
    return row, int(clock.round[0]) % queue.free.shape[0]


policy = headway.Policy("by-first", choose, learn, about="a test")
'''
COMPILED = PLAIN.replace("def choose", "import numba\n\n\n@numba.njit\ndef choose").replace(
    "    row = min(range(len(jobs)), key=lambda j: (jobs[j], queue.arrival[j]))\n",
    "    row = 0\n"
    "    for j in range(1, queue.length[0]):\n"
    "        if (jobs[j], queue.arrival[j]) < (jobs[row], queue.arrival[row]):\n"
    "            row = j\n",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_plain_and_compiled_files_play_alike(folder):
    (folder / "plain.py").write_text(PLAIN)
    (folder / "quick.py").write_text(COMPILED)
    one = headway.simulate("plain.py:policy", headway.Scenario(), rounds=400, replicas=2)
    other = headway.simulate("./quick.py", headway.Scenario(), rounds=400, replicas=2)
    assert np.array_equal(one.queue_length, other.queue_length)
    assert any("plain Python" in remark for remark in one.remarks)
    assert not any("plain Python" in remark for remark in other.remarks)


@pytest.mark.parametrize("learner", ["likelihood", "paper", "laplace"])
def test_a_copy_of_a_built_in_policy_plays_like_it(learner):
    original = POLICIES["cqb-eps"]
    copy = headway.Policy(
        "my-eps", choose_cqb_eps, learn, learners=original.learners, defaults=original.defaults
    )
    given = {"rounds": 1500, "replicas": 2, "learner": learner, "burn_in_rounds": 200}
    one = headway.simulate("cqb-eps", headway.Scenario(), **given)
    other = headway.simulate(copy, headway.Scenario(), **given)
    assert np.array_equal(one.queue_length, other.queue_length)
    assert np.array_equal(one.waits, other.waits)


def test_settings_of_its_own_reach_the_policy():
    def choose(params, model, clock, queue, key):
        seen.append((params.own_1, params.own_2, params.explore_prob))
        return 0, 0

    seen = []
    policy = headway.Policy(
        "own", choose, learn, defaults={"patience": 3.0, "explore_prob": 0.5, "heat": 0.1}
    )
    headway.simulate(policy, headway.Scenario(), rounds=20, heat=0.25)
    assert set(seen) == {(3.0, 0.25, 0.5)}
    with pytest.raises(headway.HeadwayError, match="heat"):
        headway.simulate(policy, headway.Scenario(), rounds=20, heat="hot")


def test_comparison_takes_files_and_names_together(folder):
    (folder / "plain.py").write_text(PLAIN)
    found = headway.compare(["plain.py:policy", "random"], rounds=200, replicas=3)
    assert list(found.rows) == ["by-first", "random", "optimal"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PLAIN.replace("by-first", "cqb-opt"), "'cqb-opt' is a built-in one"),
        (PLAIN.replace("by-first", "a b"), "policy name 'a b'"),
        (PLAIN.replace("policy =", "polici ="), "unknown name in 'mine.py' 'policy': did you mean"),
        (PLAIN + "policy = 3\n", "policy is int, not a headway.Policy"),
        (PLAIN + "1 / 0\n", "ZeroDivisionError: division by zero (line 14)"),
        ("def choose(:\n", "SyntaxError"),
        (PLAIN.replace("choose, learn,", "choose, 3,"), "learn 3 is not a function"),
        (PLAIN.replace("learn, about", "learn, ('papr',), about"), "did you mean paper"),
        (PLAIN.replace("learn, about", "learn, 'paper', about"), "must be a tuple"),
        (
            PLAIN.replace("learn, about", "learn, defaults=dict(a=1, b=1, c=1, d=1, e=1), about"),
            "5 settings of its own",
        ),
    ],
)
def test_a_file_that_is_no_policy_is_refused_in_a_sentence(folder, text, says):
    (folder / "mine.py").write_text(text)
    with pytest.raises(headway.HeadwayError) as problem:
        headway.simulate("mine.py:policy", headway.Scenario(), rounds=10)
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_missing_file_is_named():
    with pytest.raises(headway.HeadwayError, match=r"no policy file 'nowhere.py'"):
        headway.simulate("nowhere.py:policy", headway.Scenario(), rounds=10)
