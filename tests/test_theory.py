"""Every formula of the theory against mpmath or plain loops; limits, orders, horizons, refusals."""

import math

import mpmath
import numpy as np
import pytest

import headway
from headway.kernel.ellipsoid import confidence_radius
from headway.policy import Situation
from headway.rules import burn_in as default_burn_in
from headway.theory import bounds, formulas
from headway.theory.formulas import Premises

mp = mpmath.mp.clone()
mp.dps = 40

USUAL = {
    "servers": 5, "dimension": 5, "arrival_rate": 0.7, "slack": 0.1, "norm_bound": 5.0,
    "least_moment": 0.03,
}  # fmt: skip
# With these the burn-in ends early enough for the sequences to be written out.
EASY = {
    "servers": 2, "dimension": 3, "arrival_rate": 0.4, "slack": 0.5, "norm_bound": 1.0,
    "least_moment": 0.3, "kappa": 5.1, "ridge": 0.7, "c_3": 1e-3,
}  # fmt: skip
# And with these both are below 1, at constants that no world has.
SMALL = {**EASY, "kappa": 0.02, "norm_bound": 0.1}
WORLDS = [
    USUAL,
    {**USUAL, "kappa": 151.0, "ridge": 0.3, "c_1": 2.0, "c_2": 0.5, "c_3": 3.0, "constant": 7.0},
    {**USUAL, "explore_prob": 0.01, "failure_prob": 0.05},
    EASY,
]
HORIZONS = [500, 5000, 10**9, 10**60]


def premises(**given):
    return Premises(**{**USUAL, **given})


class Direct:
    """The paper's formulas as printed, in 40 digits; none of the package's code."""

    def __init__(self, p, rounds):
        self.p, self.T = p, mp.mpf(rounds)
        self.delta = mp.mpf(p.failure_prob) if p.failure_prob else self.T**-2
        self.coin = mp.mpf(p.explore_prob) if p.explore_prob else 1 / mp.sqrt(self.T)
        self.moment = mp.mpf(p.least_moment)
        self.crho = 1 + 16 / mp.mpf(p.slack) ** 2

    def beta(self, count=None):
        p = self.p
        count = self.T if count is None else mp.mpf(count)
        root = mp.sqrt(
            2 * p.dimension * mp.log(1 + count / (mp.mpf(p.kappa) * p.ridge * p.dimension))
            + mp.log(p.servers / self.delta)
        )
        return mp.mpf(p.kappa) / 2 * (root + mp.mpf(p.norm_bound) * mp.sqrt(p.ridge))

    def by_server(self):
        p = self.p
        first = (p.dimension + mp.log(p.servers / self.delta)) / self.moment**2
        second = 16 * self.beta() ** 2 / (self.moment * (p.slack - 2 * self.coin) ** 2)
        return p.c_3 * (first + second)

    def tau(self):
        rate = mp.mpf(self.p.arrival_rate)
        chance = mp.log(1 / self.delta) / (2 * rate**2)
        return 2 * self.p.servers / rate * self.by_server() + chance

    def nu(self, since):
        p = self.p
        each = mp.mpf(p.arrival_rate) * self.coin * since / p.servers
        first = 1 / (p.ridge + each * self.moment / 4)
        return first + (
            mp.exp(-each / 8) + p.dimension * mp.exp(-each * self.moment / 16)
        ) / mp.mpf(p.ridge)

    def m(self, t, tau):
        if t <= tau:
            return mp.mpf(1)
        inner = self.p.arrival_rate * self.coin + 4 * self.beta() ** 2 * self.nu(t - 1 - tau)
        return min(mp.mpf(1), mp.sqrt(3 * self.delta) + mp.sqrt(inner))

    def delta_t(self, t, tau):
        omega = 4 * mp.mpf(tau) / self.p.slack
        if t > self.T - omega - 1:
            return mp.mpf(1)
        fading = mp.exp(-(mp.mpf(self.p.slack) ** 2) / 64 * (self.T - t - 1 - omega))
        return min(mp.mpf(1), mp.sqrt(3 * self.delta) + mp.sqrt(2 * self.crho) * fading)

    def potential(self):
        p = self.p
        kd = p.servers * p.dimension
        return 2 * kd * mp.log(1 + self.T / (kd * mp.mpf(p.kappa) * p.ridge))

    def bad(self):
        return 16 * self.beta() ** 2 * self.potential() / mp.mpf(self.p.slack) ** 2

    def theorem_2(self):
        slack = mp.mpf(self.p.slack)
        gaps = self.T * self.delta + 4 * self.beta() ** 2 * self.potential()
        series = 2 * self.crho / (1 - mp.exp(-(slack**2) / 32))
        return mp.sqrt(gaps * (self.T * self.delta + 4 / slack * self.bad() + series))

    def sum_m(self):
        p, rate = self.p, mp.mpf(self.p.arrival_rate) * self.coin
        x, y = rate / (16 * p.servers), rate * self.moment / (32 * p.servers)
        series = 1 / (1 - mp.exp(-x)) + mp.sqrt(p.dimension) / (1 - mp.exp(-y))
        integral = 4 * mp.sqrt(p.servers) * mp.sqrt(self.T) / mp.sqrt(self.moment * rate)
        inner = (1 + series) / mp.sqrt(p.ridge) + integral
        plain = self.T * (mp.sqrt(3 * self.delta) + mp.sqrt(rate))
        return self.tau() + plain + 2 * self.beta() * inner

    def sum_delta(self):
        slack = mp.mpf(self.p.slack)
        series = mp.sqrt(2 * self.crho) / (1 - mp.exp(-(slack**2) / 64))
        return 4 * self.tau() / slack + self.T * mp.sqrt(3 * self.delta) + series

    def orders(self):
        d, log, s, e = self.p.dimension, mp.log(self.T), mp.sqrt(self.moment), self.p.slack
        first = (
            d**2 * log**2 / (self.T * s**8 * e**5)
            + d * self.T**-0.25 * log / (s**4 * e**3)
            + d**1.5 * self.T**-0.25 * log**1.5 / (s**5 * e**3)
            + d**2 * self.T**-0.5 * log**1.5 / (s**6 * e**3)
        )
        second = d**2 * log**2 / mp.mpf(e) ** 1.5 + d * log / mp.mpf(e) ** 2
        return self.p.constant * first, self.p.constant * second


@pytest.mark.parametrize("given", WORLDS)
@pytest.mark.parametrize("rounds", HORIZONS)
def test_bounds_are_the_papers(given, rounds):
    p = Premises(**given)
    direct, log = Direct(p, rounds), math.log(rounds)
    first, second = direct.orders()
    expected = {
        formulas.log_radius: direct.beta(),
        formulas.log_burn_in: direct.tau(),
        bounds.log_threshold: 4 * direct.tau() / p.slack,
        bounds.log_potential: direct.potential(),
        bounds.log_bad_rounds: direct.bad(),
        bounds.log_adversarial_threshold: 4 * direct.bad() / p.slack,
        bounds.log_rate_gap_sum: direct.sum_m(),
        bounds.log_long_term_sum: direct.sum_delta(),
        bounds.log_theorem_1: direct.sum_m() * direct.sum_delta() / (direct.T - 1),
        bounds.log_theorem_1_order: first,
        bounds.log_theorem_2: direct.theorem_2(),
        bounds.log_theorem_2_order: second,
    }
    for bound, value in expected.items():
        assert bound(p, log) == pytest.approx(float(mp.log(value)), abs=1e-9), bound.__name__
    count = rounds // 3
    assert formulas.radius(p, rounds, count) == pytest.approx(float(direct.beta(count)), rel=1e-12)


def test_eq_omega_is_128_times_what_it_says():
    p, log = premises(), math.log(5000)
    printed = 128 * formulas.radius(p, 5000) ** 2 * 25 * math.log(1 + 5000 / 250) / 0.1**3
    assert math.exp(bounds.log_adversarial_threshold(p, log)) == pytest.approx(printed)


def test_the_radius_is_the_learners():
    p = premises(failure_prob=0.01, ridge=0.4)
    for count in (0, 1, 77, 5000):
        learner = confidence_radius(count, 5, 10.0, 0.4, 5, 0.01, 5.0)
        assert formulas.radius(p, 5000, count) == pytest.approx(learner, rel=1e-12)


def test_the_experiments_burn_in_is_the_default_of_the_policies():
    p = premises()
    for rounds in (2000, 5000, 100_000):
        situation = Situation(5, 5, 5.0, 0.7, 0.1, rounds)
        settings = {
            "assumed_slack": 0.1, "explore_prob": rounds**-0.5,
            "burn_in_constant": p.burn_in_constant,
        }  # fmt: skip
        found, _ = default_burn_in(situation, settings)
        assert math.ceil(formulas.experiment_burn_in(p, rounds)) == found


def test_samples_needed_and_the_constant_that_their_proof_asks_for():
    for c_1, c_2 in ((1.0, 1.0), (0.1, 0.2), (3.0, 0.5)):
        p = premises(c_1=c_1, c_2=c_2, c_3=2.0 * max(1.0, c_1**2, c_2**2))
        direct = Direct(p, 5000)
        least = 16 * direct.beta() ** 2 / (mp.mpf(p.slack) - 2 * direct.coin) ** 2
        union = mp.log(5 / direct.delta)
        spread = (c_1 * mp.sqrt(5) + c_2 * mp.sqrt(union)) / direct.moment
        needed = formulas.needed_samples(p, float(least), 5000)
        assert needed == pytest.approx(float(spread**2 + 2 * least / direct.moment), rel=1e-12)
        assert direct.by_server() >= needed
    too_small = premises(c_3=1.9)
    least = 16 * (formulas.radius(too_small, 5000) / (0.1 - 2 * 5000**-0.5)) ** 2
    needed = formulas.needed_samples(too_small, least, 5000)
    assert Direct(too_small, 5000).by_server() < needed


@pytest.mark.parametrize(("rounds", "tau"), [(3000, None), (3000, 120), (400, 399), (400, 1e9)])
def test_both_sequences_round_by_round(rounds, tau):
    p = Premises(**SMALL)
    direct = Direct(p, rounds)
    used = formulas.burn_in(p, rounds) if tau is None else tau
    gaps = formulas.rate_gap_bounds(p, rounds, tau)
    effects = formulas.long_term_bounds(p, rounds, tau)
    assert gaps.shape == effects.shape == (rounds - 1,)
    whole = min(math.ceil(used), rounds)
    for t in [*range(1, rounds, 37), rounds - 1]:
        assert gaps[t - 1] == pytest.approx(float(direct.m(t, whole)), rel=1e-10)
        assert effects[t - 1] == pytest.approx(float(direct.delta_t(t, used)), rel=1e-10)
    assert (np.diff(gaps) <= 1e-15).all()
    assert (np.diff(effects) >= -1e-15).all()
    assert gaps.max() <= 1.0
    assert effects.max() <= 1.0


def test_the_sequences_are_not_all_ones_and_agree_with_their_values_at_one_round():
    p, rounds = Premises(**SMALL), 200_000
    gaps, effects = formulas.rate_gap_bounds(p, rounds), formulas.long_term_bounds(p, rounds)
    assert gaps[-1] < 0.3
    assert effects[0] < 1e-3
    log = math.log(rounds)
    assert math.exp(bounds.log_last_rate_gap(p, log)) == pytest.approx(gaps[-1], rel=1e-4)
    middle = formulas.long_term_bounds(p, 3000)[1499]
    assert 0.1 < middle < 0.2
    found = math.exp(bounds.log_middle_long_term(p, math.log(3000)))
    assert found == pytest.approx(middle, rel=1e-2)  # a round's difference


def test_the_closed_form_is_above_chebyshev_above_the_decomposition():
    """Lemma 4.2, then app. E.1 step by step."""
    p, rounds = Premises(**SMALL), 200_000
    gaps, effects = formulas.rate_gap_bounds(p, rounds), formulas.long_term_bounds(p, rounds)
    product = float((gaps * effects).sum())
    chebyshev = gaps.sum() * effects.sum() / (rounds - 1)
    log = math.log(rounds)
    assert product <= chebyshev * (1 + 1e-9)
    assert gaps.sum() <= math.exp(bounds.log_rate_gap_sum(p, log))
    assert effects.sum() <= math.exp(bounds.log_long_term_sum(p, log))
    assert chebyshev <= math.exp(bounds.log_theorem_1(p, log))


def test_what_the_paper_drops_in_its_geometric_series():
    """1 / (1 - e^-x) is above 1/x, never below: the factor 2 is needed."""
    for x in (1e-6, 0.01, 0.5, 1.0):
        series = math.exp(bounds.log_series(math.log(x)))
        assert series == pytest.approx(1.0 / -math.expm1(-x), rel=1e-12)
        assert 1.0 / x < series <= 2.0 / x
    assert bounds.log_series(-1000.0) == 1000.0


def test_the_growth_of_lemma_c2():
    p = premises()
    for since, coin in ((0.0, 0.1), (4000.0, 0.014), (1e7, 0.5)):
        grown = 0.7 * coin * since * 0.03 / (4 * 5)
        assert formulas.explored_growth(p, since, coin) == pytest.approx(grown, rel=1e-12)
        each = 0.7 * coin * since / 5
        failing = math.exp(-each / 8) + 5 * math.exp(-each * 0.03 / 16)
        log = formulas.log_growth_failure(p, formulas.log_or_never(since), math.log(coin))
        assert math.exp(log) == pytest.approx(failing, rel=1e-9)


def test_lemma_c2_on_drawn_contexts():
    """As often as it says, and not void: i.i.d. contexts at the rate of exploration."""
    d, draws, explored = 3, 400, 4000
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (draws, explored, d)) / math.sqrt(d)
    kept = rng.random((draws, explored, 1)) < 0.25
    least = np.linalg.eigvalsh(np.einsum("nij,nik->njk", x * kept, x))[:, 0]
    p = Premises(**{**EASY, "servers": 1, "arrival_rate": 0.5, "least_moment": 1 / 9})
    promised = formulas.explored_growth(p, float(explored), 0.5)
    failing = math.exp(formulas.log_growth_failure(p, math.log(explored), math.log(0.5)))
    assert failing < 0.1
    assert (least < promised).mean() <= failing
    assert promised > 0.2 * np.median(least)


def test_the_elliptical_potential_bounds_any_sequence():
    rng = np.random.default_rng(1)
    p = premises(servers=2, dimension=3, kappa=4.0, ridge=0.25)
    for kind in range(3):
        v = np.stack([np.eye(3)] * 2)
        total = 0.0
        for t in range(300):
            x = rng.normal(size=3) if kind else np.eye(3)[t % 3]
            x /= np.linalg.norm(x)
            k = t % 2 if kind < 2 else 0
            total += min(1.0, x @ np.linalg.solve(v[k], x))
            v[k] += np.outer(x, x)
        assert total <= math.exp(bounds.log_potential(p, math.log(300)))


def test_the_tail_bound():
    p = premises(slack=0.2)
    assert formulas.tail_constant(p) == pytest.approx(401.0)
    for b in (0.0, 10.0, 100.0):
        found = math.exp(bounds.log_tail(p, b))
        assert found == pytest.approx(401.0 * math.exp(-0.1 * b), rel=1e-12)
    rho = math.exp(-(0.2**2) / 8)  # Remark C.7: the constant covers the lemma's own
    assert 1.0 / (1.0 - rho) + 1.0 <= formulas.tail_constant(p)


def test_an_empty_round_keeps_the_tail_bound_and_the_forced_queue_the_constant():
    """What docs/theory.md says of rounds without a job, and of Lemma 5.4's term B_2."""
    for rate in np.linspace(0.01, 0.99, 99):
        for slack in np.linspace(0.01, 1.0, 50) * (1.0 - rate):
            eta = slack / 2.0
            assert rate * math.expm1(eta) <= math.exp(-eta * slack / 4.0)
            crho = 1.0 + 16.0 / slack**2
            assert 2.0 + math.exp(eta) * crho <= 2.0 * crho


# Limits and orders.


def test_theorem_1_falls_like_the_fourth_root_and_theorem_2_grows_like_the_squared_log():
    p = premises()
    for log in (1e4, 1e5):
        slope = (bounds.log_theorem_1(p, 2 * log) - bounds.log_theorem_1(p, log)) / log
        assert slope == pytest.approx(-0.25, abs=1e-3)
        slope = (bounds.log_theorem_1_order(p, 2 * log) - bounds.log_theorem_1_order(p, log)) / log
        assert slope == pytest.approx(-0.25, abs=1e-3)
        power = (bounds.log_theorem_2(p, 2 * log) - bounds.log_theorem_2(p, log)) / math.log(2)
        assert power == pytest.approx(2.0, abs=2e-2)


@pytest.mark.parametrize(
    ("name", "less", "more"),
    [
        ("slack", 0.2, 0.1),
        ("dimension", 3, 8),
        ("servers", 2, 9),
        ("kappa", 10.0, 150.0),
        ("norm_bound", 1.0, 5.0),
        ("least_moment", 0.06, 0.01),
        ("c_3", 1.0, 2.0),
    ],
)
def test_harder_worlds_have_larger_bounds(name, less, more):
    easy, hard = premises(**{name: less}), premises(**{name: more})
    log = math.log(5000)
    of_theorem_1_only = name in ("least_moment", "c_3")
    assert bounds.log_theorem_1(easy, log) < bounds.log_theorem_1(hard, log)
    for bound in (bounds.log_bad_rounds, bounds.log_theorem_2):
        if of_theorem_1_only:
            assert bound(easy, log) == bound(hard, log)
        else:
            assert bound(easy, log) < bound(hard, log)


def test_without_slack_to_explore_or_a_direction_theorem_1_is_void():
    log = math.log(400)  # 4 / slack^2 exactly: the condition of Theorem 1 must be strict
    exact = premises(explore_prob=0.05)
    for p in (premises(), exact):
        assert formulas.burn_in(p, 400) == math.inf
        assert formulas.experiment_burn_in(p, 400) == math.inf
        assert bounds.log_theorem_1(p, log) == math.inf
        assert math.isfinite(bounds.log_theorem_2(p, log))
    flat = premises(least_moment=0.0)
    assert formulas.burn_in(flat, 5000) == math.inf
    assert formulas.needed_samples(flat, 1.0, 5000) == math.inf
    assert bounds.log_theorem_1_order(flat, math.log(5000)) == math.inf
    assert bounds.log_horizon(bounds.log_theorem_1, flat) is None
    assert formulas.rate_gap_bounds(flat, 50).tolist() == [1.0] * 49


# Horizons.


@pytest.mark.parametrize("given", WORLDS)
@pytest.mark.parametrize(
    ("bound", "trivial"),
    [
        (bounds.log_theorem_1, bounds.below_rounds),
        (bounds.log_theorem_1, bounds.below_one),
        (bounds.log_theorem_2, bounds.below_rounds),
        (bounds.log_bad_rounds, bounds.below_rounds),
        (bounds.log_last_rate_gap, bounds.below_one),
        (bounds.log_middle_long_term, bounds.below_one),
        (bounds.log_last_growth_failure, bounds.below_one),
    ],
)
def test_a_bound_says_something_from_its_horizon_on_and_not_before(given, bound, trivial):
    p = Premises(**given)
    found = bounds.log_horizon(bound, p, trivial)
    if found is None:
        assert given.get("explore_prob"), "only a coin or a failure that never falls allows never"
        return
    assert not bound(p, found * (1 - 1e-9)) < trivial(found * (1 - 1e-9))
    for further in (1 + 1e-9, 1.01, 1.5, 3.0, 100.0):
        assert bound(p, found * further) < trivial(found * further)


def test_horizons_beyond_floating_point():
    p = premises(slack=1e-40, arrival_rate=0.5)
    found = bounds.log_horizon(bounds.log_theorem_1, p, bounds.below_one)
    assert found / math.log(10) > 500
    assert bounds.log_theorem_1(p, found * 1.01) < 0.0
    huge = premises(kappa=1e200, norm_bound=400.0)
    assert bounds.log_horizon(bounds.log_theorem_2, huge) / math.log(10) > 308
    assert formulas.burn_in(huge, 5000) == math.inf  # beyond e^709, and said as infinite


def test_theorem_2_never_promises_less_than_one_job():
    assert bounds.log_horizon(bounds.log_theorem_2, premises(), bounds.below_one) is None


def test_what_always_holds_has_the_first_horizon():
    assert bounds.log_horizon(lambda *_: -1.0, premises()) == math.log(2)


# Refusals.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("servers", 0),
        ("servers", 2.5),
        ("dimension", True),
        ("arrival_rate", 0.0),
        ("arrival_rate", 1.1),
        ("slack", 0.0),
        ("slack", math.nan),
        ("slack", 0.4),  # more than the arrival rate leaves
        ("norm_bound", -1.0),
        ("kappa", math.inf),
        ("ridge", 0.0),
        ("least_moment", -0.1),
        ("least_moment", 1.5),
        ("least_moment", math.nan),
        ("c_1", 0.0),
        ("c_3", "one"),
        ("constant", -2),
        ("explore_prob", 0.0),
        ("failure_prob", 1.5),
        ("burn_in_constant", 0.0),
    ],
)
def test_premises_that_make_no_sense_are_refused_by_name(name, value):
    shown = "0.4" if value == 0.4 else repr(value)
    with pytest.raises(headway.HeadwayError) as found:
        premises(**{name: value})
    assert name in str(found.value)
    assert shown in str(found.value)


@pytest.mark.parametrize("rounds", [1, 0, -3, math.nan, "many"])
def test_a_horizon_that_is_none_is_refused(rounds):
    with pytest.raises(headway.HeadwayError, match="rounds"):
        formulas.radius(premises(), rounds)


@pytest.mark.parametrize("rounds", [1, 10**7 + 1])
def test_a_sequence_too_long_to_write_out_is_refused(rounds):
    with pytest.raises(headway.HeadwayError, match=f"rounds {rounds}"):
        formulas.rate_gap_bounds(premises(), rounds)


def test_kappa_needed_is_the_steepest_inverse_slope():
    z = np.linspace(-3.0, 3.0, 1001)
    slope = 1 / (1 + np.exp(-z)) * (1 - 1 / (1 + np.exp(-z)))
    assert premises(norm_bound=3.0).kappa_needed == pytest.approx(1 / slope.min(), rel=1e-9)
    assert premises(norm_bound=1e4).kappa_needed == math.inf
