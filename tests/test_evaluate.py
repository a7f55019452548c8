"""Values of one's own trajectory: against hand calculations, true values and a real rollout; faulty files."""

import importlib.util
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from ictd import empirical, environments, kernels, mrp, td
from ictd import evaluate as ev

DATA = Path(__file__).parents[1] / "book" / "data"

# The fifteen lines of the README.
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SNIPPET = README.split("```python\n")[1].split("```")[0]


def test_the_fifteen_lines_of_the_readme(tmp_path, monkeypatch, capsys):
    assert len(SNIPPET.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(SNIPPET, scope)
    # By hand: home -> bus pays -1; bus pays -2/3 and goes to bus (1/3) or work (2/3); work -> home pays 5.
    P = np.array([[0, 1, 0], [0, 1 / 3, 2 / 3], [1, 0, 0]])
    expected = np.linalg.solve(np.eye(3) - 0.9 * P, [-1, -2 / 3, 5])
    result = scope["result"]
    assert result.states == ("home", "bus", "work")
    assert result.visits.tolist() == [2, 3, 2]
    np.testing.assert_allclose(result.certainty_equivalence, expected, rtol=1e-12)
    np.testing.assert_allclose(result.value, expected, rtol=1e-8)
    assert result.warnings == ()
    assert f"best state: work, worth {expected[2]:.2f}" in capsys.readouterr().out
    saved = (tmp_path / "values.csv").read_text().splitlines()
    assert saved[0] == "state,visits,value,certainty_equivalence,standard_error"
    assert [float(line.split(",")[2]) for line in saved[1:]] == result.value.tolist()


def test_values_are_those_of_the_position_form():
    rng = np.random.default_rng(0)
    states = rng.integers(0, 5, 40)
    X, rewards = rng.standard_normal((5, 3)), rng.standard_normal(39)
    result = ev.evaluate(states, rewards, X[states], gamma=0.7, n_layers=2003, scale=0.5)  # more than one block
    expected = td.weighted_softmax_td(X[states], rewards, 0.7, 2003, score=kernels.inner_product_score(0.5))[-1]
    np.testing.assert_allclose(result.value[states], expected, rtol=1e-11)
    start = ev.evaluate(states, rewards, X[states], n_layers=0)
    assert (start.value == 0).all()


# -------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    "states, order",
    [
        (["b", "a", "b"], ("b", "a")),
        (["10", "9", "-1", "10"], ("-1", "9", "10")),
        ([3, 1, 2, 3], (1, 2, 3)),
        (np.array([3, 1, 3]), (1, 3)),
        (["1", "x", "0", "1"], ("1", "x", "0")),
        ([(0, 1), (0, 0), (0, 1)], ((0, 1), (0, 0))),
        (["nan", "inf", "nan"], ("nan", "inf")),
    ],
)
def test_order_of_states(states, order):
    assert ev.evaluate(states, np.ones(len(states) - 1)).states == order


def test_two_spellings_of_a_number_are_two_states_and_said_so():
    result = ev.evaluate(["1", "01", "1", "01", "1"], np.ones(4))
    assert len(result.states) == 2
    assert "'1' and '01'" in result.warnings[0]
    assert "0 and '0.0'" in ev.evaluate([0, "0.0", 0, "0.0", 0], np.ones(4)).warnings[0]


@pytest.mark.parametrize("one, two", [("10", "1_0"), (2**53, 2**53 + 1), ("9007199254740992", "9007199254740993")])
def test_different_numbers_are_not_called_one(one, two):
    result = ev.evaluate([two, one, two, one, two], np.zeros(4))
    assert result.warnings == ()
    assert result.states == ((two, one) if one == "10" else (one, two))


def test_entries_of_arrays_tensors_and_columns_are_plain_labels():
    class Column:  # of a table, such as a pandas Series or a polars Series
        shape = (5,)

        def __init__(self, labels):
            self.labels = labels

        def __len__(self):
            return len(self.labels)

        def tolist(self):
            return self.labels

    plain = [0, 1, 0, 1, 0]
    for states in (np.array(plain), list(np.array(plain)), tuple(plain), Column(plain)):
        result = ev.evaluate(states, np.ones(4))
        assert (result.states, result.visits.tolist()) == ((0, 1), [2, 2])
        assert all(type(label) is int for label in result.states)


def test_entries_of_a_tensor_are_numbers():
    torch = pytest.importorskip("torch")
    states = torch.tensor([0, 1, 0, 1, 0])
    for given in (states, list(states), states.to(torch.float32)):
        result = ev.evaluate(given, [1, 0, 1, 0.0])
        assert (result.states, result.visits.tolist()) == ((0, 1), [2, 2])
    with pytest.raises(TypeError, match="states must be a sequence of state labels; got a Tensor"):
        ev.evaluate(states.to("meta"), [1, 0, 1, 0.0])


# ------------------------------------------------------------------------------------------ warnings


def only_warning(result):
    assert len(result.warnings) == 1, result.warnings
    return result.warnings[0]


def test_a_state_that_was_never_left():
    states, rewards = ["a", "b", "a", "b", "a", "end"], [1.0, 0.0, 1.0, 0.0, 2.0]
    result = ev.evaluate(states, rewards, gamma=0.5, n_layers=2000)
    assert "'end' was never left" in only_warning(result)
    assert np.isnan(result.certainty_equivalence).all()
    assert [row[3] for row in result.rows()] == [None] * 3
    assert result.visits.tolist() == [3, 2, 0]
    # It moves as a kernel combination of the others, and the limit is that of the iteration.
    np.testing.assert_allclose(result.value, result.limit, rtol=1e-8)
    trajectory = mrp.Trajectory([0, 1, 0, 1, 0, 2], rewards)
    np.testing.assert_allclose(result.value, td.weighted_softmax_td_states(trajectory, np.eye(3), 0.5, 2000)[-1])


def test_the_limit_of_an_open_trajectory_with_features():
    rng = np.random.default_rng(2)
    states = np.append(rng.integers(0, 4, 30), 4)
    x = (2 * np.eye(5) + 0.3 * rng.standard_normal((5, 5)))[states]
    result = ev.evaluate(states, rng.standard_normal(30), x, gamma=0.8, n_layers=2000)
    np.testing.assert_allclose(result.value, result.limit, rtol=1e-9)
    assert result.more_layers == 0 and result.radius < 0.99


def test_a_never_left_successor_can_make_it_diverge():
    # Two sources and a query at angles 0, .3 and pi/2, scores 5 cos(angle): an eigenvalue of 1.122.
    angle = np.array([0, 0.3, np.pi / 2])
    x = np.sqrt(5) * np.column_stack([np.cos(angle), np.sin(angle)])
    result = ev.evaluate(["a", "b", "end"], [1.0, -1.0], x)
    q0, q1, q2 = 1 / (1 + np.exp(5 * (np.cos(angle) - np.cos(angle - 0.3))))
    assert result.radius == pytest.approx(1 + q0 - 1.9 * q1 + 0.9 * q2, rel=1e-12)
    assert result.radius == pytest.approx(1.122, abs=5e-4)
    assert "diverges" in result.warnings[-1]


def test_a_state_that_was_never_left_but_has_the_features_of_another():
    x = [[1.0], [2.0], [1.0], [2.0]]
    result = ev.evaluate(["a", "b", "a", "end"], [1.0, 2.0, 1.0], x, n_layers=5000)
    assert "'b' and 'end' have equal features" in result.warnings[0]
    assert "that of the states with equal features" in result.warnings[1]
    assert result.value[2] == result.value[1]
    np.testing.assert_allclose(result.value, result.limit, rtol=1e-6)


def test_states_with_equal_features_tend_to_the_merged_model():
    rng = np.random.default_rng(1)
    states = rng.integers(0, 4, 200)
    states[-1] = states[0]
    rewards = rng.standard_normal(199)
    x = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [-2.0, 0.0]])[states]
    result = ev.evaluate(states, rewards, x, n_layers=3000)
    assert "states 0 and 2 have equal features (such repeats: 1 of 4" in only_warning(result)
    merged = mrp.Trajectory(np.array([0, 1, 0, 2])[states], rewards)
    expected = empirical.certainty_equivalence(empirical.empirical_model(merged, 3), 0.9)[[0, 1, 0, 2]]
    np.testing.assert_allclose(result.value, expected, rtol=1e-6)
    assert np.abs(result.value - result.certainty_equivalence).max() > 0.01


def test_divergence_is_said_and_the_values_grow():
    # Unequal lengths on the cycle 1 -> 3 -> 2 -> 1, score scale 4: radius 1.586.
    x = np.array([[1.0, 0.0], [1.5, 1.0], [1.0, 3.0]])
    states = [0, 2, 1] * 5 + [0]
    result = ev.evaluate(states, np.arange(15.0), x[states], n_layers=100, scale=4.0)
    assert "diverges" in only_warning(result) and "1.58578" in result.warnings[0]
    assert np.abs(result.value).max() > 1e15
    assert result.more_layers is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        overflow = ev.evaluate(states, np.arange(15.0), x[states], n_layers=100_000, scale=4.0)
    assert "overflowed" in overflow.warnings[0]


def test_the_estimate_of_missing_layers_is_good():
    data = ev.read_csv(DATA / "frozenlake.csv")
    result = ev.evaluate(data.states, data.rewards)
    assert f"{result.distance:.3g} away" in only_warning(result)
    assert str(result.more_layers) in result.warnings[0]
    later = ev.evaluate(data.states, data.rewards, n_layers=50 + result.more_layers)
    # The last mode decides the rate, so the distance reached is the target up to a factor.
    target = 1e-3 * np.abs(result.limit).max()
    assert 0.2 * target < later.distance < 2 * target
    assert ev.evaluate(data.states, data.rewards, n_layers=50 + 2 * result.more_layers).warnings == ()


def test_nearly_equal_features_are_not_called_divergence():
    x = np.array([[1.0], [1.0 + 1e-9], [-1.0]])
    states = [0, 1, 2, 1, 0, 2, 2, 0]
    result = ev.evaluate(states, np.arange(7.0), x[states])
    assert "1 to rounding" in only_warning(result)
    open_end = ev.evaluate([*states, "end"], np.arange(8.0), np.append(x[states], [[0.0]], axis=0))
    assert "singular to rounding" in open_end.warnings[-1]
    assert np.isnan(open_end.radius)


# ---------------------------------------------------------------------------------- the shipped rollout


def frozenlake_script():
    spec = importlib.util.spec_from_file_location("make_frozenlake", DATA / "make_frozenlake.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_rollout_is_made_again_byte_for_byte():
    pytest.importorskip("gymnasium")
    file = DATA / "frozenlake.csv"
    assert file.read_bytes() == frozenlake_script().text().encode()
    assert file.stat().st_size < 60_000


def test_the_shipped_rollout_gives_the_true_values_within_their_standard_errors():
    pytest.importorskip("gymnasium")
    script = frozenlake_script()
    env, policy, gamma = script.environment(), script.policy(), script.GAMMA
    process = environments.from_gymnasium(env, policy, gamma)
    truth = process.value()

    # v_CE - v = (I - gamma P)^{-1} xi to first order; xi(u) is a mean of c(u) centred TD errors of the true
    # value, with the variance of R + gamma v(S') over c(u).
    outcomes = [row for actions in env.unwrapped.P.values() for rows in actions.values() for row in rows]
    terminal = {next_state for _, next_state, _, terminated in outcomes if terminated}
    variance = np.zeros(16)
    for u, actions in env.unwrapped.P.items():
        if u in terminal:  # restarts in the one start state
            continue
        targets = [(policy[u, a] * p, r + gamma * truth[s2]) for a, rows in actions.items() for p, s2, r, _ in rows]
        variance[u] = sum(p * (y - truth[u]) ** 2 for p, y in targets)
        assert sum(p * y for p, y in targets) == pytest.approx(truth[u], abs=1e-12)
    data = ev.read_csv(DATA / "frozenlake.csv")
    result = ev.evaluate(data.states, data.rewards, gamma=gamma, n_layers=400, scale=10.0)
    states = np.array([int(state) for state in result.states])
    visits = np.zeros(16)
    visits[states] = result.visits
    resolvent = np.linalg.inv(np.eye(16) - gamma * process.transition)
    error = np.sqrt(resolvent**2 @ (variance / np.maximum(visits, 1)))[states]

    well_visited = result.visits >= 50
    assert well_visited.sum() >= 8
    score = np.abs(result.value - truth[states])[well_visited] / error[well_visited]
    assert (score < 4).all()  # four standard errors: all hold with probability above 0.999
    assert (error[well_visited] < 0.1 * truth.max()).all()  # and that says something


def test_the_shipped_rollout_converges_to_certainty_equivalence():
    data = ev.read_csv(DATA / "frozenlake.csv")
    assert len(data.rewards) == 4000 and set(data.rewards) == {0.0, 1.0} and data.features is None
    result = ev.evaluate(data.states, data.rewards, n_layers=400, scale=10.0)
    assert result.warnings == ()
    assert result.radius == pytest.approx(0.9, abs=1e-3)
    np.testing.assert_allclose(result.value, result.certainty_equivalence, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.limit, result.certainty_equivalence, rtol=0, atol=1e-12)


# -------------------------------------------------------------------------------------- bad arguments


class Missing:
    """Like pandas.NA: a comparison is neither true nor false."""

    def __eq__(self, other):
        return self

    __ne__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


class Table(list):
    """Like a DataFrame: a sequence of column names with two dimensions."""

    shape = (2, 2)


@pytest.mark.parametrize(
    "states, rewards, options, error, words",
    [
        ({"x", "y"}, [1], {}, TypeError, ["states", "sequence"]),
        (frozenset("xy"), [1], {}, TypeError, ["states", "sequence"]),
        ({"x": 1, "y": 2}, [1], {}, TypeError, ["states", "sequence", "{'x': 1"]),
        (Table("xy"), [1], {}, TypeError, ["states", "sequence"]),
        (np.array(5), [1], {}, TypeError, ["states", "sequence", "shape ()"]),
        (np.eye(2), [1], {}, TypeError, ["states", "sequence", "shape (2, 2)"]),
        (5, [1], {}, TypeError, ["states", "sequence", "5"]),
        (["a", Missing()], [1], {}, ValueError, ["states", "empty", "entry 1"]),
        (["a", np.datetime64("NaT", "s")], [1], {}, ValueError, ["states", "empty", "entry 1"]),
        ("abc", [1, 1], {}, TypeError, ["states", "sequence"]),
        (iter("abc"), [1, 1], {}, TypeError, ["states", "sequence"]),
        (["a"], [], {}, ValueError, ["states", "two", "1"]),
        (["a", None], [1], {}, ValueError, ["states", "empty", "1"]),
        ([0.0, float("nan")], [1], {}, ValueError, ["states", "empty", "nan"]),
        ([[0, 1], [1, 0]], [1], {}, TypeError, ["states", "hashable"]),
        (range(2001), np.ones(2000), {}, ValueError, ["states", "2000", "2001", "bins"]),
        (["a", "b"], [1, 2], {}, ValueError, ["rewards", "(1,)", "(2,)"]),
        (["a", "b"], [np.nan], {}, ValueError, ["rewards", "finite"]),
        (["a", "b"], [1e200], {}, ValueError, ["rewards", "1e+100"]),
        (["a", "b"], [1], {"features": [[1.0]]}, ValueError, ["features", "(2, d)"]),
        (["a", "a"], [1], {"features": [[1.0], [2.0]]}, ValueError, ["features", "'a'", "[1.0]", "[2.0]", "row 1"]),
        (["a", "b"], [1], {"features": [[1.0], [1e101]]}, ValueError, ["features", "1e+100"]),
        (["a", "b"], [1], {"gamma": 1.0}, ValueError, ["gamma", "[0, 1)"]),
        (["a", "b"], [1], {"n_layers": -1}, ValueError, ["n_layers", "-1"]),
        (["a", "b"], [1], {"scale": 0.0}, ValueError, ["scale", "(0"]),
    ],
)
def test_bad_arguments_are_refused_by_name(states, rewards, options, error, words):
    with pytest.raises(error) as caught:
        ev.evaluate(states, rewards, **options)
    for word in words:
        assert word in str(caught.value)


def test_extreme_numbers_do_not_break_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ev.evaluate(["a", "b", "a"], [1e100, -1e100], [[1e100], [-1e100], [1e100]], gamma=0.5, scale=1e100)
    np.testing.assert_allclose(result.value, result.certainty_equivalence, rtol=1e-12)


def test_results_are_read_only_and_files_are_not_overwritten(tmp_path):
    result = ev.evaluate(["a,b", "ü", "a,b"], [1.0, 2.0])
    with pytest.raises(ValueError):
        result.value[0] = 1
    result.save(tmp_path / "v.csv")
    with pytest.raises(FileExistsError):
        result.save(tmp_path / "v.csv")
    for overwrite in (False, True):
        with pytest.raises(FileNotFoundError) as caught:
            result.save(tmp_path / "absent" / "v.csv", overwrite=overwrite)
        assert caught.value.filename == str(tmp_path / "absent" / "v.csv")  # not an unfinished file beside it
    result.save(tmp_path / "v.csv", overwrite=True)
    assert (tmp_path / "v.csv").read_text(encoding="utf-8").splitlines()[1].startswith('"a,b",1,')


def test_an_existing_file_is_lost_only_to_a_complete_one(tmp_path, monkeypatch):
    path, result = tmp_path / "v.csv", ev.evaluate(["a", "b", "a"], [1.0, 2.0])
    path.write_text("precious")
    path.chmod(0o640)
    with pytest.raises(ValueError, match="states must be valid text"):
        ev.evaluate(["\ud800", "b", "\ud800"], [1.0, 2.0]).save(path, overwrite=True)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            result.save(path, overwrite=True)
    assert path.read_text() == "precious" and os.listdir(tmp_path) == ["v.csv"]
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    result.save(link, overwrite=True)
    assert link.is_symlink() and path.read_text().startswith("state,visits")
    assert path.stat().st_mode & 0o777 == 0o640 and sorted(os.listdir(tmp_path)) == ["link.csv", "v.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_devices_are_written_to_and_not_replaced():
    with pytest.raises(OSError, match="No space left"):
        ev.evaluate(["a", "b", "a"], [1.0, 2.0]).save("/dev/full", overwrite=True)
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("path", [None, b"v.csv", 1], ids=str)
def test_a_path_is_a_string_or_a_path(path):
    with pytest.raises(TypeError, match="path must be a str or a Path; got"):
        ev.evaluate(["a", "b", "a"], [1.0, 2.0]).save(path)
    with pytest.raises(TypeError, match="path must be a str or a Path; got"):
        ev.read_csv(path)


# --------------------------------------------------------------------------------------------- files


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_are_read_and_devices_are_not(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("state,reward\na,1\na,\n",))
    writer.start()
    assert ev.read_csv(pipe).states == ["a", "a"]
    writer.join()
    with pytest.raises(ev.FileFault, match="/dev/zero: cannot be read: it is a device"):
        ev.read_csv("/dev/zero")


def read(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return ev.read_csv(path)


@pytest.mark.parametrize(
    "content",
    [
        "state,reward\na,1\nb,2\na,\n",
        "state,reward\na,1\nb,2\na,",  # no line end at the end
        "\ufeffstate,reward\na,1\nb,2\na,\n",
        "state,reward\r\na,1\r\nb,2\r\na,\r\n",
        "state,reward\ra,1\rb,2\ra,\r",
        "\n State , REWARD\n\na, 1 \n b ,2e0\n  \na,\n\n",
        '"state","reward"\n"a","1"\n"b","2"\n"a",""\n',
    ],
)
def test_spellings_of_one_file(tmp_path, content):
    data = read(tmp_path, content)
    assert (data.states, data.rewards, data.features, data.ignored) == (["a", "b", "a"], [1.0, 2.0], None, ())


def test_columns_by_name(tmp_path):
    data = read(tmp_path, "x2,action,reward,Feature_speed,state,x1,\n1,l,5,2,a,3,\n4,r,,5,b,6,\n")
    assert data.states == ["a", "b"] and data.rewards == [5.0]
    np.testing.assert_array_equal(data.features, [[1, 2, 3], [4, 5, 6]])  # in the order of the file
    assert data.ignored == ("action",)


FAULTY = {
    "empty file": ("", ["empty", "header"]),
    "only blank lines": ("\n\n", ["empty", "header"]),
    "no header": ("a,1\nb,\n", ["line 1", "named state", "named reward", "'a', '1'", "header"]),
    "no state column": ("place,reward\na,1\nb,\n", ["line 1", "named state", "'place'"]),
    "no reward column": ("state,x1\na,1\nb,2\n", ["line 1", "named reward", "'x1'"]),
    "header only": ("state,reward\n", ["line 1", "two rows", "0"]),
    "one row": ("state,reward\na,\n", ["line 2", "two rows", "1"]),
    "duplicate column": ("state,reward,Reward\na,1,2\nb,,\n", ["line 1", "column reward", "twice"]),
    "semicolons": ("state;reward\na;1\nb;\n", ["line 1", "semicolons", "commas"]),
    "tabs": ("state\treward\na\t1\nb\t\n", ["line 1", "tabs", "commas"]),
    "empty reward in the middle": ("state,reward\na,1\n\nb,\na,2\nb,\n", ["line 4", "column reward", "last row"]),
    "reward in the last row": ("state,reward\na,1\nb,2\n", ["line 3", "column reward", "must be empty"]),
    "text in reward": ("state,reward\na,one\nb,\n", ["line 2", "column reward", "'one'"]),
    "decimal comma": ('state,reward\na,"1,5"\nb,\n', ["line 2", "column reward", "'1,5'"]),
    "underscore": ("state,reward\na,1_0\nb,\n", ["line 2", "column reward", "'1_0'"]),
    "NaN": ("state,reward\na,1\nb,NaN\nc,\n", ["line 3", "column reward", "'NaN'", "finite"]),
    "infinity": ("state,reward\na,-inf\nb,\n", ["line 2", "column reward", "'-inf'", "finite"]),
    "overflow": ("state,reward\na,1e999\nb,\n", ["line 2", "column reward", "'1e999'", "finite"]),
    "too few fields": ("state,reward,x1\na,1,1\nb,1\nc,,1\n", ["line 3", "2 fields", "3 columns"]),
    "too many fields": ("state,reward\na,1\nb,1,5\nc,\n", ["line 3", "3 fields", "2 columns"]),
    "empty state": ("state,reward\na,1\n ,2\nb,\n", ["line 3", "column state", "empty"]),
    "only commas": ("state,reward\na,1\n,\nb,\n", ["line 3", "empty row", "--missing skip"]),
    "empty feature": ("state,reward,x1\na,1,1\nb,,\n", ["line 3", "column x1", "empty"]),
    "text in feature": ("state,reward,x1\na,1,one\nb,,1\n", ["line 2", "column x1", "'one'"]),
    "NaN in feature": ("state,reward,x1\na,1,nan\nb,,1\n", ["line 2", "column x1", "finite"]),
    "features differ": (
        "state,reward,x1,x2\na,1,1,2\nb,1,3,4\na,,1,3\n",
        ["line 4", "column x2", "'a'", "line 2", "function of the state"],
    ),
    "not UTF-8": ("state,reward\na,1\nb,2\nMünchen,\n".encode("latin-1"), ["line 4", "field 1", "UTF-8", "0xfc"]),
    "not UTF-8, UTF-16": ("state,reward\na,1\nb,\n".encode("utf-16"), ["line 1", "UTF-8"]),
    "open quote": ('state,reward\na,1\n"b,\n', ["line 3", "not valid CSV"]),
    "long field": ("state,reward\n" + "a" * 200_000 + ",1\nb,\n", ["line 2", "not valid CSV"]),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_files_say_where_and_why(tmp_path, name):
    content, words = FAULTY[name]
    with pytest.raises(ev.FileFault) as caught:
        read(tmp_path, content)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "t.csv"))
    for word in words:
        assert word in message.removeprefix(str(tmp_path)), message


def test_line_breaks_and_control_characters_cannot_break_the_table(tmp_path):
    data = read(tmp_path, 'state,reward,"x\ny"\n"a\nb",1,\n\x1b[31m,1,\n"a\nb",,\n')
    assert data.ignored == ("x\\ny",)
    lines = ev.evaluate(data.states, data.rewards).table().splitlines()
    assert [line.split()[0] for line in lines] == ["state", "a\\nb", "\\x1b[31m"]


def test_line_numbers_count_line_breaks_in_quotes(tmp_path):
    with pytest.raises(ev.FileFault, match="line 5, column reward"):
        read(tmp_path, 'state,reward\n"a\nb",1\n\nb,x\na,\n')


@pytest.mark.parametrize("name, word", [("absent.csv", "No such file"), (".", "directory"), ("a\0b", "null")])
def test_files_that_cannot_be_opened(tmp_path, name, word):
    with pytest.raises(ev.FileFault, match=word):
        ev.read_csv(tmp_path / name)
