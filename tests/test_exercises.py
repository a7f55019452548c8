"""Exercises: every solution in the book passes its check, and wrong answers get a reason that helps."""

import re
from importlib import import_module

import nbformat
import numpy as np
import pytest
from book_site import notebooks
from wrong_weighted_softmax_td import late_mask

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
        assert re.search("^✗ Not yet: .*(should|give a list|not one of the names)", str(check(name, answer)))


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
    with pytest.raises(ValueError, match="name must be one of .*policy_evaluation"):
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


WRONG = [row for chapter in WITH_EXERCISES for row in import_module(f"wrong_{chapter}").WRONG]


@pytest.mark.parametrize("name, answer, reason", WRONG, ids=lambda value: value if isinstance(value, str) else "answer")
def test_a_typical_mistake_gets_its_own_reason(name, answer, reason):
    verdict = check(name, answer)
    assert not verdict and reason in str(verdict)


def test_every_exercise_knows_typical_mistakes():
    known = {name for name, _, _ in WRONG}
    assert set(exercises.names()) - known == set()
