"""A person's own trace: both layouts, both formats, a round trip to the last bit, bad files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headway

THETA = "0.5,-1\n1,0.25\n"


@pytest.fixture
def write(tmp_path):
    def writer(text, name="trace.csv", theta=THETA):
        (tmp_path / name).write_text(text)
        if theta:
            (tmp_path / "trace.theta.csv").write_text(theta)
        return tmp_path / name

    return writer


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("theta_star", "contexts", "arrivals", "service")
    )


@pytest.mark.parametrize("name", ["trace.csv", "trace.parquet"])
def test_a_tape_comes_back_to_the_last_bit(tmp_path, name):
    tape = headway.Scenario(servers=3, dimension=4).tape(rounds=200, seed=9)
    tape.to_file(tmp_path / name)
    read = headway.Tape.from_csv if name.endswith("csv") else headway.Tape.from_parquet
    assert same(read(tmp_path / name), tape)
    assert same(headway.Tape.from_file(tmp_path / name), tape)
    short = headway.Tape.from_file(tmp_path / name, rounds=50)
    assert short.most_rounds == 50
    assert np.array_equal(short.arrivals, tape.arrivals[:50])


def test_a_row_a_job_and_a_row_a_round_are_one_tape(write):
    jobs = write("round,x1,x2\n1,0.1,0.2\n4,0.3,0.4\n", "jobs.csv")
    rounds = write("arrival,x1,x2\n1,0.1,0.2\n0,,\n0,,\n1,0.3,0.4\n", "rounds.csv")
    theta = jobs.with_name("trace.theta.csv")
    one, other = (headway.Tape.from_csv(path, theta_star=theta, seed=3) for path in (jobs, rounds))
    assert same(one, other)
    assert one.arrivals.tolist() == [True, False, False, True]
    longer = headway.Tape.from_csv(jobs, theta_star=[[0.5, -1.0], [1.0, 0.25]], rounds=9, seed=3)
    assert longer.most_rounds == 9
    assert np.array_equal(longer.service[:4], one.service)
    other_seed = headway.Tape.from_csv(jobs, theta_star=theta, seed=4)
    assert not np.array_equal(other_seed.service, one.service)


def test_theta_star_beside_a_csv_file_is_found(write):
    tape = headway.Tape.from_csv(write("round,x1,x2\n2,0.1,0.2\n"), slack=0.1, norm_bound=2.0)
    assert tape.theta_star.tolist() == [[0.5, -1.0], [1.0, 0.25]]
    assert tape.situation().norm_bound == 2.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no rows"),
        ("round,x1,x2\n", "has no rows"),
        ("round,x1,x2\n1,0.1\n", "line 2: 2 cells, the head has 3"),
        ("round,x1,x2\n1,0.1,abc\n", "line 2, column 'x2': 'abc' is not a number"),
        ("round,x1,x3\n1,0.1,1\n", "needs context columns x1, x2, ...; it has x1, x3"),
        ("round\n1\n", "it has none"),
        ("x1,x2\n1,2\n", "needs a column 'arrival' (a row a round) or 'round' (a row a job)"),
        ("round,x1,x2,x2\n1,0,0,0\n", "has 2 columns 'x2'"),
        ("round,x1,x2,servic\n1,0,0,0\n", "'servic': did you mean service"),
        ("round,x1,x2\n3,0,0\n3,0,0\n", "job 2: round 3 must be"),
        ("round,x1,x2\n0,0,0\n", "job 1: round 0 must be"),
        ("round,x1,x2\n1.5,0,0\n", "job 1: round 1.5 must be"),
        ("round,x1,x2\nnan,0,0\n", "job 1: round nan must be"),
        ("round,x1,x2\ninf,0,0\n", "job 1: round inf must be"),
        ("round,arrival,x1,x2\n1,1,0,0\n3,1,0,0\n", "'round' must count 1, 2, 3"),
        ("arrival,x1,x2\n2,0,0\n", "arrivals holds 2"),
        ("arrival,x1,x2\n1,,0\n", "contexts[0, 0] is nan"),
        ("arrival,x1,x2,service\n1,0,0,1.5\n", "service holds 1.5"),
        ("round,x1\n1,0\n", "contexts have dimension 1, theta_star has 2"),
    ],
)
def test_a_bad_trace_is_refused_in_a_sentence(write, text, says):
    with pytest.raises(headway.HeadwayError) as problem:
        headway.Tape.from_csv(write(text))
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_trace_without_parameters_names_the_remedy(write):
    path = write("round,x1,x2\n1,0,0\n", theta=None)
    with pytest.raises(headway.HeadwayError, match="holds no theta_star: give one"):
        headway.Tape.from_csv(path)
    with pytest.raises(headway.HeadwayError, match="cannot read theta_star"):
        headway.Tape.from_csv(path, theta_star=path)


def test_files_that_are_no_traces_are_refused(tmp_path):
    with pytest.raises(headway.HeadwayError, match="no trace file"):
        headway.Tape.from_csv(tmp_path / "nowhere.csv")
    with pytest.raises(headway.HeadwayError, match=r"must end in \.csv or \.parquet"):
        headway.Tape.from_file(tmp_path / "trace.txt")
    (tmp_path / "trace.parquet").write_text("nonsense")
    with pytest.raises(headway.HeadwayError, match="cannot read trace"):
        headway.Tape.from_parquet(tmp_path / "trace.parquet")
    pq.write_table(pa.table({"round": ["one"], "x1": [1.0]}), tmp_path / "words.parquet")
    with pytest.raises(headway.HeadwayError, match="column 'round' holds string"):
        headway.Tape.from_parquet(tmp_path / "words.parquet")
    tape = headway.Scenario().tape(rounds=5)
    with pytest.raises(headway.HeadwayError, match="cannot write"):
        tape.to_file(tmp_path / "nowhere" / "trace.csv")
