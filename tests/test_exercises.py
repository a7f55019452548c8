"""Exercises: every solution in the book passes its check, and wrong answers get a reason that helps."""

import re

import nbformat
import numpy as np
import pytest
from book_site import notebooks

from ictd import exercises
from ictd.exercises import check

EXERCISE = re.compile(r"^`{3,}\{exercise\}.*?:label: (\S+)", re.M | re.S)
SOLUTION = re.compile(r"^````\{solution\} (\S+)\n(.*?)^````$", re.M | re.S)
PYTHON = re.compile(r"^(```|~~~)python\n(.*?)^\1$", re.M | re.S)


def chapters():
    return {path.stem: nbformat.read(path, as_version=4) for path in notebooks()}


CHAPTERS = chapters()
WITH_EXERCISES = sorted({name.split(".")[0] for name in exercises.names()})


def markdown(chapter):
    return "\n\n".join(cell.source for cell in CHAPTERS[chapter].cells if cell.cell_type == "markdown")


def asked(chapter):
    """Names of the exercises that the chapter's cells check."""
    code = "\n".join(cell.source for cell in CHAPTERS[chapter].cells if cell.cell_type == "code")
    return re.findall(r'check\("([\w.]+)"', code)


@pytest.mark.parametrize("chapter", WITH_EXERCISES)
def test_every_exercise_has_a_solution_and_a_check(chapter):
    text = markdown(chapter)
    assert EXERCISE.findall(text) == [label for label, _ in SOLUTION.findall(text)]
    assert sorted(asked(chapter)) == sorted(name for name in exercises.names() if name.startswith(chapter + "."))


@pytest.mark.parametrize("chapter", WITH_EXERCISES)
def test_every_printed_solution_is_right(chapter):
    """Each code block in a solution or a diagnosis runs after the chapter's imports and is accepted by its check."""
    imports = next(cell.source for cell in CHAPTERS[chapter].cells if cell.cell_type == "code")
    verdicts = {}

    def recorded(name, answer):
        verdicts[name] = check(name, answer)
        return verdicts[name]

    for _, block in PYTHON.findall(markdown(chapter)):
        namespace = {}
        exec(imports, namespace)
        exec(block, {**namespace, "check": recorded})
    assert sorted(verdicts) == sorted(asked(chapter))
    assert {name: str(verdict) for name, verdict in verdicts.items() if not verdict} == {}


@pytest.mark.parametrize("name", exercises.names())
def test_dots_count_as_no_answer(name):
    verdict = check(name, ...)
    assert not verdict and verdict.state == exercises.OPEN


@pytest.mark.parametrize("name", exercises.names())
@pytest.mark.parametrize(
    "answer", [None, "text", [], {}, np.nan, np.full(3, np.inf), lambda *_: None, lambda: 0, 7], ids=str
)
def test_nonsense_gets_a_reason(name, answer):
    verdict = check(name, answer)
    assert not verdict and str(verdict).startswith("✗ Not yet: ") and len(str(verdict)) > 30


class Hostile:
    """An object that fails whenever it is looked at."""

    def fail(self, *arguments, **options):
        raise RuntimeError("do not look")

    __array__ = __float__ = __repr__ = __str__ = __len__ = fail


class Unspeakable(Exception):
    __str__ = Hostile.fail


def raising(error):
    def function(*_):
        raise error

    return function


AWKWARD = {
    "complex numbers": np.zeros(3) + 3j,
    "text": ["1", "2", "3"],
    "huge integers": [10**400] * 3,
    "a ragged list": [[1], [1, 2], 3],
    "masked numbers": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "dates": np.array(["2020-01-01"] * 3, "M8[D]"),
    "a hostile object": Hostile(),
    "hostile entries": [Hostile()] * 3,
}


@pytest.mark.parametrize("name", exercises.names())
@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.filterwarnings("error")
def test_awkward_answers_get_a_reason(name, kind):
    for answer in (AWKWARD[kind], lambda *_: AWKWARD[kind]):
        assert re.search("should be (real numbers|a function)", str(check(name, answer)))


def test_tensors_that_carry_a_gradient_get_a_reason():
    torch = pytest.importorskip("torch")
    ones = torch.ones(3, requires_grad=True)
    assert "should be real numbers; it is a Tensor" in str(check("policy_evaluation.circle", ones))
    assert "should be real numbers; it is a Tensor" in str(check("policy_evaluation.batch_td", lambda *_: ones))


def test_fractions_are_numbers():
    from decimal import Decimal
    from fractions import Fraction

    assert check("policy_evaluation.circle", [Fraction(27, 26), Fraction(9, 26), Fraction(-153, 26)])
    assert "rewards" in str(check("policy_evaluation.circle", [Decimal(3), Decimal(0), Decimal(-6)]))


@pytest.mark.parametrize(
    "error, words",
    [(SystemExit(), "SystemExit"), (Unspeakable(), "Unspeakable"), (MemoryError("no"), "MemoryError: no")],
)
def test_whatever_the_reader_s_function_raises_is_the_reason(error, words):
    assert str(check("weighted_softmax_td.kernel", raising(error))) == f"✗ Not yet: your function raised {words}"


def test_a_right_real_part_is_not_enough():
    def tilted(a, b, c, g):
        return 1 + a - b * (1 + g) + g * c + 3j

    assert "should be real numbers" in str(check("weighted_softmax_td.third_eigenvalue", tilted))


@pytest.mark.parametrize(
    "result", [None, "overflow", [[1], [1, 2]], Hostile()], ids=["None", "text", "ragged", "hostile"]
)
def test_a_kernel_must_be_numbers_at_large_scores_too(result):
    def kernel(scores, counts):
        return late_mask(scores, counts) if np.abs(scores).max() < 100 else result

    assert "your kernel at scores of 10,000 should" in str(check("weighted_softmax_td.kernel", kernel))


def test_a_kernel_holds_no_nan_for_a_source_that_was_never_left():
    def kernel(scores, counts):
        weights = late_mask(np.where(counts > 0, scores, -1e300), counts)
        return np.where(counts > 0, weights, np.nan) if scores[0, 2] == 5000 else weights

    assert "should not notice" in str(check("weighted_softmax_td.kernel", kernel))


@pytest.mark.filterwarnings("error")
def test_checks_do_not_depend_on_the_reader_s_settings():
    with np.errstate(all="raise"):
        assert check("weighted_softmax_td.kernel", lambda s, c: late_mask(np.where(c > 0, s, -1e300), c))
        assert "blow up" in str(check("weighted_softmax_td.faster_steps", np.full(20, 1e200)))


@pytest.mark.parametrize("name", [np.array(["a", "b"]), None, 3, Hostile()], ids=["array", "None", "3", "hostile"])
def test_a_name_is_text(name):
    with pytest.raises(ValueError, match="name must be one of policy_evaluation"):
        check(name, 1)


def test_an_error_in_the_reader_s_function_is_the_reason():
    def broken(*_):
        raise IndexError("list index out of range")

    assert "raised IndexError: list index out of range" in str(check("weighted_softmax_td.kernel", broken))


def test_a_function_that_overwrites_its_arguments_is_not_accepted():
    def in_place(values, kernel, reward, transition, gamma, step_size):
        values += step_size * kernel @ (reward + gamma * transition @ values - values)
        return values

    assert "overwrites its argument number 1" in str(check("weighted_softmax_td.state_step", in_place))


def test_an_unknown_exercise_is_an_error_with_the_names():
    with pytest.raises(ValueError, match="weighted_softmax_td.kernel"):
        check("weighted_softmax_td.9", 1)


def softmax(scores, axis=1):
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def unstable(scores, counts):
    weights = counts * np.exp(scores)
    return weights / weights.sum(axis=1, keepdims=True)


def late_mask(scores, counts):
    weights = counts * np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def step(sign=1, discount=True, transpose=False, kernel=True, size=True, change=False):
    def function(values, M, reward, transition, gamma, step_size):
        error = sign * (reward + (gamma if discount else 1) * transition @ values - values)
        error = (M.T if transpose else M) @ error if kernel else error
        return (0 if change else values) + (step_size if size else 1) * error

    return function


def sweep(x, rewards, gamma, n_steps):
    from ictd.td import softmax_kernel

    K, v = softmax_kernel(x, x[:-1]), np.zeros(len(x))
    history = [v.copy()]
    for _ in range(n_steps):
        for j in range(len(x)):
            v[j] += K[j] @ (rewards + gamma * v[1:] - v[:-1])
        history.append(v.copy())
    return np.array(history)


WRONG = [
    ("policy_evaluation.circle", [27 / 26, -153 / 26, 9 / 26], "order A, C, B"),
    ("policy_evaluation.circle", [3, 0, -6], "rewards"),
    ("policy_evaluation.circle", [1.04, 0.35, -5.88], "rounding"),
    ("policy_evaluation.circle", [0, 0, -9], "equation of A and B"),
    ("policy_evaluation.circle", [-153 / 26 + 0, 27 / 26, 9 / 26], "entering"),
    ("policy_evaluation.circle", [3 - 2 / 13, -2 + 3 / 13 - 4 / 13, -6], "next state"),
    ("weighted_softmax_td.by_hand", [1, 2, 3], "one more"),
    ("weighted_softmax_td.by_hand", [1, 2], "shape"),
    ("weighted_softmax_td.by_hand", [1.375, 2.875, 4.7], "rounding"),
    ("weighted_softmax_td.by_hand", [1.375, 2.875, 7], "A and B is right"),
    ("weighted_softmax_td.by_hand", [5.875, 4.375, 7.75], "another one"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s, axis=0), "columns that sum to 1"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s), "counts change nothing"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s) * c, "normalise again"),
    ("weighted_softmax_td.kernel", unstable, "10,000"),
    ("weighted_softmax_td.kernel", late_mask, "should not notice"),
    ("weighted_softmax_td.kernel", lambda s, c: late_mask(np.clip(s, -700, 700), c), "all the weight"),
    ("weighted_softmax_td.state_step", step(sign=-1), "wrong sign"),
    ("weighted_softmax_td.state_step", step(discount=False), "discount is missing"),
    ("weighted_softmax_td.state_step", step(transpose=True), "transposed"),
    ("weighted_softmax_td.state_step", step(kernel=False), "plain Bellman step"),
    ("weighted_softmax_td.state_step", step(size=False), "step size does nothing"),
    ("weighted_softmax_td.state_step", step(change=True), "add it to the old values"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: 1.0, "below the"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: 50.0, "smaller scale is enough"),
    (
        "weighted_softmax_td.scale_needed",
        lambda c, n, g: 1000.0,
        "smaller scale is enough: yours gives a weight of 1.0",
    ),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: 1e308, "smaller scale is enough"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: -1e308, "weight of 0.0000 on the own state, below"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: np.log((1 + g) / (1 - g) * (n - c) / c), "negative"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 1.0, "do not depend on q"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 2 + g + a - b * (1 + g) + g * c, "trace"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 1 + a - b + g * c, "not an eigenvalue"),
    ("weighted_softmax_td.faster_steps", np.ones(20), "a hundredth"),
    ("weighted_softmax_td.faster_steps", -np.ones(20), "positive"),
    ("weighted_softmax_td.faster_steps", [0.01] * 20, "too small"),
    ("weighted_softmax_td.faster_steps", [2.0] * 20, "blow up"),
    ("weighted_softmax_td.faster_steps", [1e308] * 20, "blow up"),
    ("weighted_softmax_td.faster_steps", [1e308] + [1e-308] * 19, "blow up"),
    ("weighted_softmax_td.bug", sweep, "still differ"),
]


@pytest.mark.parametrize("name, answer, reason", WRONG, ids=lambda value: value if isinstance(value, str) else "answer")
def test_a_typical_mistake_gets_its_own_reason(name, answer, reason):
    verdict = check(name, answer)
    assert not verdict and reason in str(verdict)


def batch(states, rewards, gamma, n_states, step_size, n_passes, mean=True, in_place=False):
    v = np.zeros(n_states)
    counts = np.bincount(states[:-1], minlength=n_states)
    for _ in range(n_passes):
        old = v if in_place else v.copy()
        for s, r, u in zip(states, rewards, states[1:]):
            v[s] += step_size * (r + gamma * old[u] - old[s]) / (counts[s] if mean else 1)
    return v


def duplicates(states, rewards, gamma, n_states, step_size, n_passes):
    v = np.zeros(n_states)
    for _ in range(n_passes):
        v[states[:-1]] += step_size * (rewards + gamma * v[states[1:]] - v[states[:-1]])
    return v


def test_batch_td_tells_sums_from_means_and_sweeps_from_batches():
    assert check("policy_evaluation.batch_td", batch)
    assert "mean" in str(check("policy_evaluation.batch_td", lambda *a: batch(*a, mean=False)))
    assert "before all errors" in str(check("policy_evaluation.batch_td", lambda *a: batch(*a, in_place=True)))
    assert "keeps just the last" in str(check("policy_evaluation.batch_td", duplicates))
