"""Markov reward processes: values, stationary distributions, sampling and Boyan chains."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import STANDARD_ERRORS, assert_close, contexts, discounts, seeds

from ictd import empirical
from ictd.mrp import MRP, Trajectory, boyan_chain, boyan_transitions, cumulative, eliminate, sample_paths, solve_bellman


def random_mrp(n_states, gamma, rng, zeros=0.3):
    """A dense random process with some transitions set to 0."""
    P = rng.random((n_states, n_states)) * (rng.random((n_states, n_states)) > zeros)
    P[np.arange(n_states), rng.integers(0, n_states, n_states)] += 0.1
    return MRP(P / P.sum(axis=1, keepdims=True), rng.normal(size=n_states), gamma, rng.dirichlet(np.ones(n_states)))


class Fixed(np.random.Generator):
    """A generator whose uniform numbers are given, or all the same."""

    def __init__(self, values):
        super().__init__(np.random.PCG64(0))
        self.values = values

    def random(self, size):
        return np.broadcast_to(self.values, size)


# --------------------------------------------------------------------------------------------- value


@given(st.integers(2, 12), discounts, seeds)
def test_value_is_the_discounted_sum(n_states, gamma, seed):
    """v = sum_t gamma^t P^t r, the series summed until it no longer moves."""
    process = random_mrp(n_states, min(gamma, 0.99), np.random.default_rng(seed))
    total, term = np.zeros(n_states), process.reward.copy()
    while np.abs(term).max() > 1e-13 * (1 - process.gamma):
        total, term = total + term, process.gamma * process.transition @ term
    assert_close(process.value(), total)


def test_value_is_the_mean_return():
    """Monte Carlo: the mean of 1500 sampled returns, within its confidence interval."""
    rng = np.random.default_rng(11)
    process = boyan_chain(5, 0.6, rng)
    weights = 0.6 ** np.arange(30)
    returns = np.array([process.sample(30, rng, start_state=1).rewards @ weights for _ in range(1500)])
    standard_error = returns.std(ddof=1) / np.sqrt(returns.size)
    tail = 0.6**30 / 0.4
    assert abs(returns.mean() - process.value()[1]) < STANDARD_ERRORS * standard_error + tail


def test_gamma_zero_and_near_one():
    """gamma = 0 gives the reward; near 1, (1-gamma) v goes to the mean stationary reward."""
    rng = np.random.default_rng(0)
    chain = boyan_chain(6, 0.0, rng)
    np.testing.assert_array_equal(chain.value(), chain.reward)
    late = MRP(chain.transition, chain.reward, 1 - 1e-9)
    assert_close(1e-9 * late.value(), np.full(6, late.stationary() @ late.reward), 1e-6)


@pytest.mark.parametrize("gamma", [0.5, 0.999999, 1 - 1e-9])
@pytest.mark.parametrize("P", [[[0.3333333] * 3] * 3, [[1 + 9e-7]], np.full((3, 3), np.float32(1 / 3))])
def test_value_of_rounded_probabilities(P, gamma):
    """Reward 1 everywhere is worth 1 / (1 - gamma), although the rows that came in miss 1."""
    value = MRP(P, np.ones(len(P)), gamma).value()
    # Rounding of I - gamma P is magnified by 1 / (1 - gamma).
    np.testing.assert_allclose(value * (1 - gamma), 1, rtol=1e-15 / (1 - gamma))


def test_value_that_overflows():
    """Rewards whose discounted sum leaves float64 are refused by name."""
    with pytest.raises(ValueError, match="reward must be smaller.*overflows; got up to 1e"):
        MRP([[1.0]], [1e308], 0.99).value()


# ---------------------------------------------------------------------------------------- stationary


@given(st.integers(3, 12), seeds)
def test_stationary_distribution_of_boyan_chains(n_states, seed):
    """mu P = mu, mu > 0, sum 1, and the limit of the distribution of S_t."""
    chain = boyan_chain(n_states, 0.9, np.random.default_rng(seed))
    mu = chain.stationary()
    assert_close(mu @ chain.transition, mu, 1e-13)
    assert mu.min() > 0 and mu.sum() == pytest.approx(1, abs=1e-14)
    lazy = (chain.transition + np.eye(n_states)) / 2
    assert_close(np.linalg.matrix_power(lazy, 2**16)[0], mu, 1e-9)


@pytest.mark.parametrize("leave, enter", [(1e-18, 1e-18), (1e-12, 3e-12), (1e-300, 2e-300), (0.2, 1e-17)])
def test_stationary_of_a_nearly_decomposable_chain(leave, enter):
    """Two states that hardly ever meet: mu = (enter, leave) / (enter + leave), to rounding."""
    mu = MRP([[1 - leave, leave], [enter, 1 - enter]], [0, 0], 0.9).stationary()
    np.testing.assert_allclose(mu, np.array([enter, leave]) / (enter + leave), rtol=1e-15)


@pytest.mark.parametrize("eps", [1e-5, 1e-12, 1e-17, 1e-100])
def test_stationary_of_two_pairs_that_hardly_meet(eps):
    """Two pairs of states joined by eps: the distribution within a pair is that of the pair alone."""
    P = np.zeros((4, 4))
    P[:2, :2], P[2:, 2:] = [[0.5, 0.5], [0.25, 0.75]], [[0.2, 0.8], [0.6, 0.4]]
    P[0, 2], P[2, 0] = eps, 2 * eps
    P[0, 1] -= eps
    P[2, 3] -= 2 * eps
    # Balance over the cut: mu_0 eps = mu_2 2 eps; within each pair, the cut changes the odds by O(eps).
    mu = MRP(P, np.zeros(4), 0.9).stationary()
    pairs = np.array([1, 2, 0.5, 0.5 * 0.8 / 0.6])
    np.testing.assert_allclose(mu, pairs / pairs.sum(), rtol=10 * eps + 1e-14)


def test_stationary_of_a_ring_with_a_slow_edge():
    """A ring of five whose first state is left with probability eps: mu is proportional to the times spent."""
    eps = 1e-17
    P = np.roll(np.eye(5), 1, axis=1)
    P[0] = [1, eps, 0, 0, 0]
    mu = MRP(P, np.zeros(5), 0.9).stationary()
    np.testing.assert_allclose(mu, [1, eps, eps, eps, eps], rtol=1e-14)


def test_stationary_with_weights_of_very_different_size():
    """Odds of 1e-200 per step: what underflows is 0, nothing overflows; what would be undefined is refused."""
    tiny = 1e-200
    P = [[1, tiny, 0, 0], [1, 0, tiny, 0], [0, 1, 0, tiny], [0, 0, 1, 0]]
    assert MRP(P, np.zeros(4), 0.9).stationary().tolist() == [1, tiny, 0, 0]
    backwards = np.array(P)[::-1, ::-1]
    assert MRP(backwards, np.zeros(4), 0.9).stationary().tolist() == [0, 0, tiny, 1]
    # Between 0 and 1 the only way leads through 2, with probability 1e-400.
    hidden = [[1, 0, tiny], [0, 1, tiny], [tiny, tiny, 1]]
    np.testing.assert_allclose(MRP(hidden, np.zeros(3), 0.9).stationary(), 1 / 3)
    lost = [[1, 0, tiny], [0, 1, tiny], [tiny, 1, 0]]
    with pytest.raises(ValueError, match="transition must have larger probabilities.*1e-200"):
        MRP(lost, np.zeros(3), 0.9).stationary()


@given(st.integers(2, 12), seeds)
def test_stationary_satisfies_its_equations(n_states, seed):
    """mu P = mu and the mean of the reward agree with a least-squares solution, for dense random chains."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(n_states, 0.5), n_states) * 0.9 + 0.1 / n_states
    mu = MRP(P, np.zeros(n_states), 0.9).stationary()
    equations = np.vstack([(np.eye(n_states) - P).T, np.ones(n_states)])
    expected = np.linalg.lstsq(equations, np.append(np.zeros(n_states), 1), rcond=None)[0]
    np.testing.assert_allclose(mu, expected, rtol=1e-10)


def test_values_and_stationary_distributions_of_many_chains_at_once():
    """With several leading dimensions, as `tasks` uses them: those of each chain."""
    rng = np.random.default_rng(0)
    P, r = rng.dirichlet(np.ones(4), (2, 3, 4)), rng.normal(size=(2, 3, 4))
    values, mu = solve_bellman(P, r, 0.9), eliminate(P)
    for index in np.ndindex(2, 3):
        process = MRP(P[index], r[index], 0.9)
        assert_close(values[index], process.value(), 1e-12)
        assert_close(mu[index], process.stationary(), 1e-14)


def test_stationary_of_a_periodic_chain():
    """A cycle has a stationary distribution although the distribution of S_t never settles."""
    cycle = MRP(np.roll(np.eye(4), 1, axis=1), np.zeros(4), 0.5)
    np.testing.assert_allclose(cycle.stationary(), 0.25)


def test_stationary_ignores_transient_states():
    """States that are left for good have probability exactly 0; an absorbing state takes all."""
    P = [[0.5, 0.25, 0.25, 0], [0, 0.2, 0.8, 0], [0, 0.6, 0.4, 0], [1, 0, 0, 0]]
    mu = MRP(P, np.zeros(4), 0.5).stationary()
    assert mu[0] == mu[3] == 0
    np.testing.assert_allclose(mu[1:3], [0.6 / 1.4, 0.8 / 1.4])
    assert MRP([[0, 1], [0, 1]], [0, 0], 0.5).stationary().tolist() == [0, 1]


def test_stationary_refuses_two_classes():
    """Two recurrent classes leave mu open: the error lists them."""
    P = [[1, 0, 0, 0], [0.5, 0, 0, 0.5], [0, 0, 0, 1], [0, 0, 1, 0]]
    with pytest.raises(ValueError, match=r"one recurrent class.*it has 2: \[0\], \[2, 3\]"):
        MRP(P, np.zeros(4), 0.5).stationary()


# -------------------------------------------------------------------------------------------- sample


def test_sample_visits_and_moves_with_the_right_frequencies():
    """20000 steps: visits near mu (interval from 100 batch means), moves near P (binomial interval)."""
    rng = np.random.default_rng(5)
    chain = boyan_chain(6, 0.9, rng)
    states = chain.sample(20000, rng).states
    batches = np.eye(6)[states[1:]].reshape(100, 200, 6).mean(axis=1)
    standard_error = batches.std(axis=0, ddof=1) / 10
    assert (np.abs(batches.mean(axis=0) - chain.stationary()) < STANDARD_ERRORS * standard_error).all()
    for s in range(6):
        successors = states[1:][states[:-1] == s]
        shares = np.bincount(successors, minlength=6) / successors.size
        spread = np.sqrt(chain.transition[s] * (1 - chain.transition[s]) / successors.size)
        assert (np.abs(shares - chain.transition[s]) <= STANDARD_ERRORS * spread).all()


def test_first_state():
    """S_0 follows ``start``, or is the one that was asked for."""
    rng = np.random.default_rng(2)
    process = MRP(np.eye(3), [1, 2, 3], 0.5, [0.2, 0.0, 0.8])
    first = np.array([process.sample(1, rng).states[0] for _ in range(2000)])
    shares = np.bincount(first, minlength=3) / 2000
    assert shares[1] == 0 and abs(shares[0] - 0.2) < STANDARD_ERRORS * np.sqrt(0.16 / 2000)
    assert [process.sample(1, rng, start_state=s).states[0] for s in range(3)] == [0, 1, 2]
    uniform = MRP(np.eye(4), np.zeros(4), 0.5)
    np.testing.assert_allclose(uniform.start, 0.25)


@given(st.integers(2, 12), seeds)
def test_impossible_moves_are_never_taken(n_states, seed):
    """Every sampled move and first state has positive probability, and R_{k+1} = r(S_k)."""
    rng = np.random.default_rng(seed)
    process = random_mrp(n_states, 0.9, rng, zeros=0.7)
    trajectory = process.sample(100, rng)
    assert (process.transition[trajectory.states[:-1], trajectory.states[1:]] > 0).all()
    assert process.start[trajectory.states[0]] > 0
    assert (trajectory.rewards == process.reward[trajectory.states[:-1]]).all()
    assert trajectory.n_transitions == 100 and trajectory.states.shape == (101,)


def test_each_uniform_number_is_used_once():
    """The first one for S_0, the others for the moves, also where S_0 is given; a bound belongs to the next state."""
    process = MRP([[0.5, 0.5], [0.25, 0.75]], [0, 0], 0.5, [0.125, 0.875])
    assert process.sample(4, Fixed([0.1, 0.5, 0.2, 0.4, 0.25])).states.tolist() == [0, 1, 0, 0, 0]
    assert process.sample(4, Fixed([0.2, 0.5, 0.2, 0.4, 0.6])).states.tolist() == [1, 1, 0, 0, 1]
    assert process.sample(4, Fixed([0.9, 0.4, 0.2, 0.4, 0.25]), start_state=0).states.tolist() == [0, 0, 0, 0, 0]


def test_cumulative_sums_end_in_1():
    """From the last possible state on, whatever the rounding."""
    rows = [[0.25, 0.75 - 1e-9, 0], [0, 0, 1]]
    assert cumulative(np.array(rows)).tolist() == [[0.25, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize("u, expected", [(0.0, 1), (np.nextafter(1, 0), 3)])
def test_edges_of_the_uniform_numbers(u, expected):
    """u = 0 and the largest u below 1 pick the first and last *possible* state, although row sums miss 1."""
    row = np.array([0, 0.3, 0, 0.7 - 1e-9, 0])
    process = MRP(np.tile(row, (5, 1)), np.zeros(5), 0.5, row)
    assert (process.sample(3, Fixed(u)).states == expected).all()


def test_sampling_depends_on_the_generator_only():
    """Same seed, same trajectory; the generator moves on between draws."""
    chain = boyan_chain(5, 0.9, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    first, second = chain.sample(50, rng), chain.sample(50, rng)
    again = chain.sample(50, np.random.default_rng(1))
    assert (first.states == again.states).all() and (first.states != second.states).any()


def plain_path(P, state, uniforms):
    """One chain in plain loops: the first state at which the sum of probabilities exceeds u, or the last possible."""
    states = [int(state)]
    for u in uniforms:
        row = P[states[-1]]
        last = max(s for s in range(len(row)) if row[s] > 0)
        total, move = 0.0, 0
        for move in range(len(row)):
            total += row[move]
            if u < total or move == last:
                break
        states.append(move)
    return states


def sparse_rows(rng, *shape):
    """Stochastic matrices with many zeros, also at both ends of a row."""
    P = rng.random(shape) * (rng.random(shape) < 0.4)
    at = (*np.ogrid[tuple(slice(n) for n in shape[:-1])], rng.integers(shape[-1], size=shape[:-1]))
    P[at] += 0.1
    return P / P.sum(axis=-1, keepdims=True)


@given(seeds, st.integers(1, 8))
def test_paths_are_the_plain_loop(seed, n_states):
    """The same uniforms give the same states, with u = 0, u just below 1 and u on a bound among them."""
    rng = np.random.default_rng(seed)
    P = sparse_rows(rng, 2, 3, n_states, n_states)
    first, uniforms = rng.integers(n_states, size=(2, 3)), rng.random((2, 3, 30))
    uniforms[..., :4] = [0, np.nextafter(1, 0), 0, np.nextafter(1, 0)]
    uniforms[..., 4:8] = np.minimum(np.cumsum(P[0, 0, 0])[rng.integers(n_states, size=4)], np.nextafter(1, 0))
    states = sample_paths(P, first, uniforms)
    for i, j in np.ndindex(2, 3):
        assert states[i, j].tolist() == plain_path(P[i, j], first[i, j], uniforms[i, j])
        assert (P[i, j][states[i, j, :-1], states[i, j, 1:]] > 0).all()


def test_paths_broadcast_the_transition():
    """One matrix for all chains, or one for each row of chains, is the same as copies of it."""
    rng = np.random.default_rng(0)
    P, first, uniforms = sparse_rows(rng, 2, 1, 5, 5), rng.integers(5, size=(2, 7)), rng.random((2, 7, 20))
    copies = np.broadcast_to(P, (2, 7, 5, 5))
    np.testing.assert_array_equal(sample_paths(P, first, uniforms), sample_paths(copies, first, uniforms))
    np.testing.assert_array_equal(
        sample_paths(P[0, 0], first[0], uniforms[0]), sample_paths(P[0], first[0], uniforms[0])
    )


# --------------------------------------------------------------------------------------- Boyan chains


@given(st.integers(3, 12), seeds)
def test_boyan_structure(n_states, seed):
    """i -> i+1 or i+2 with probabilities in (.01, .99); N-2 -> N-1; N-1 -> anywhere; rewards in (-1, 1)."""
    chain = boyan_chain(n_states, 0.9, np.random.default_rng(seed))
    P = chain.transition
    for i in range(n_states - 2):
        assert set(np.flatnonzero(P[i])) == {i + 1, i + 2}
        assert 0.01 <= P[i, i + 1] <= 0.99 and P[i].sum() == pytest.approx(1)
    assert P[n_states - 2].tolist() == [0] * (n_states - 1) + [1]
    assert (P[-1] > 0).all() and P[-1].max() / P[-1].min() <= 99
    assert np.abs(chain.reward).max() < 1 and chain.gamma == 0.9
    np.testing.assert_allclose(chain.start, 1 / n_states)


def test_boyan_chains_draw_their_moves_and_then_their_rewards():
    """One after the other from one generator, as `families` does for many chains."""
    chain, rng = boyan_chain(6, 0.9, np.random.default_rng(3)), np.random.default_rng(3)
    np.testing.assert_array_equal(chain.transition, boyan_transitions(1, 6, rng)[0])
    np.testing.assert_array_equal(chain.reward, rng.uniform(-1, 1, 6))


def test_boyan_draws_are_uniform():
    """Step probabilities and rewards have the mean and variance of U(.01, .99) and U(-1, 1)."""
    rng = np.random.default_rng(0)
    chains = [boyan_chain(12, 0.9, rng) for _ in range(400)]
    steps = np.array([chain.transition[np.arange(10), np.arange(1, 11)] for chain in chains]).ravel()
    rewards = np.concatenate([chain.reward for chain in chains])
    for sample, low, high in ((steps, 0.01, 0.99), (rewards, -1, 1)):
        unit = (sample - low) / (high - low)
        assert abs(unit.mean() - 1 / 2) < STANDARD_ERRORS / np.sqrt(12 * unit.size)
        assert abs((unit**2).mean() - 1 / 3) < STANDARD_ERRORS * np.sqrt(4 / 45 / unit.size)


# ---------------------------------------------------------------------------------- the data classes


def test_fields_are_read_only_copies():
    """Later changes of the caller's arrays do nothing; fields can neither be written nor replaced."""
    P, r, states = np.eye(2), np.ones(2), np.array([0, 1])
    process, trajectory = MRP(P, r, 0.5), Trajectory(states, [1.0])
    P[:], r[:], states[:] = 7, 7, 7
    assert process.transition.tolist() == [[1, 0], [0, 1]] and process.reward.tolist() == [1, 1]
    assert trajectory.states.tolist() == [0, 1]
    for array in (process.transition, process.reward, process.start, trajectory.states, trajectory.rewards):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    for instance, field in ((process, "gamma"), (trajectory, "states")):
        with pytest.raises(AttributeError):
            setattr(instance, field, 0)


COPIES = [copy.copy, copy.deepcopy, lambda instance: pickle.loads(pickle.dumps(instance))]


@pytest.mark.parametrize("duplicate", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_copies_are_read_only_and_equal(duplicate):
    """copy, deepcopy and pickle give the same numbers, again read-only."""
    walk = Trajectory([0, 1, 0], [1.0, 2.0])
    for instance in (walk, MRP([[0.5, 0.5], [1, 0]], [1, 2], 0.5), empirical.empirical_model(walk, 3)):
        other = duplicate(instance)
        assert type(other) is type(instance) and other is not instance
        for field, value in vars(instance).items():
            np.testing.assert_array_equal(getattr(other, field), value)
            if isinstance(value, np.ndarray):
                assert not getattr(other, field).flags.writeable


def test_compared_by_identity():
    """eq=False: comparing arrays field by field would be ambiguous; objects can be dictionary keys."""
    for make in (lambda: MRP(np.eye(2), [1, 1], 0.5), lambda: Trajectory([0, 1], [1.0])):
        one, two = make(), make()
        assert one == one and one != two and len({one, two}) == 2


def test_rounded_probabilities_are_accepted():
    """Rows may miss 1 by 1e-6, as after float32 or seven typed digits, and no more."""
    MRP(np.full((3, 3), np.float32(1 / 3)), np.zeros(3), 0.5)
    MRP([[0.3333333, 0.6666667], [0.5000004, 0.5]], np.zeros(2), 0.5)
    with pytest.raises(ValueError, match="row 1 sums to 1.000002"):
        MRP([[1, 0], [0.500002, 0.5]], np.zeros(2), 0.5)


@given(st.integers(2, 40), seeds)
def test_stochastic_rows_stay_as_they_are(n_states, seed):
    """Rows that sum to 1 up to rounding keep every bit; others sum to 1 afterwards, and keep their proportions."""
    rng = np.random.default_rng(seed)
    weights = rng.random((n_states, n_states)) + 1e-3
    P = weights / weights.sum(axis=1, keepdims=True)
    process = MRP(P, np.zeros(n_states), 0.5, P[0])
    assert (process.transition == P).all() and (process.start == P[0]).all()
    off = P * (1 + rng.uniform(-9e-7, 9e-7, (n_states, 1)))
    mended = MRP(off, np.zeros(n_states), 0.5, off[0])
    np.testing.assert_allclose(mended.transition, P, rtol=1e-14)
    np.testing.assert_allclose(mended.transition.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(mended.start, P[0], rtol=1e-14)
    again = MRP(mended.transition, np.zeros(n_states), 0.5)
    assert (again.transition == mended.transition).all()


@given(contexts())
def test_own_data_round_trip(c):
    """A trajectory from the user's own lists keeps the numbers as they are."""
    trajectory = Trajectory(c.states.tolist(), c.rewards.tolist())
    assert (trajectory.states == c.states).all() and (trajectory.rewards == c.rewards).all()
