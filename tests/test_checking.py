"""What all checks are made of: how an answer becomes numbers, how it is judged, and which words it gets."""

import numpy as np
import pytest

from ictd.exercises import _checking


def reason_of(function, *arguments):
    try:
        function(*arguments)
    except _checking.NotYet as reason:
        return str(reason)
    return None


@pytest.mark.parametrize(
    "answer, words",
    [
        (["a", "b"], "a list of text"),
        ("a", "the text 'a'"),
        (np.array([1 + 1j, 2]), "a ndarray of complex numbers"),
        ([[1], [1, 2]], "a list with rows of different lengths"),
        ([None, 1], "a list with entries that are no numbers"),
        (lambda x: x, "a function"),
        (object(), "of type object"),
        (np.float16([1, 2]), "float64; float16 has 3 digits"),
        ([1.0, 2.0, 3.0], "shape (2,); it has shape (3,)"),
        ([1.0, np.nan], "NaN or infinity"),
    ],
)
def test_what_came_is_said_in_words(answer, words):
    assert words in reason_of(_checking.numbers, answer, (2,))


def test_half_precision_of_torch_gets_a_clear_word():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float16, torch.bfloat16):
        assert "should be in float64" in reason_of(_checking.numbers, torch.ones(2, dtype=dtype), (2,))


def test_single_precision_is_kept_and_forgiven():
    torch = pytest.importorskip("torch")
    third = np.full(2, 1 / 3)
    for answer in (np.float32(third), list(np.float32(third)), torch.tensor([1 / 3, 1 / 3], dtype=torch.float32)):
        assert _checking.close(_checking.numbers(answer, (2,)), third)
    assert not _checking.close(np.float64(np.float32(third)), third)


@pytest.mark.parametrize(
    "answer, is_rounded",
    [
        ([1.375, 0.3333], True),
        ([1.4, 1 / 3], True),
        ([1.37, 0.33], True),
        ([1.38, np.float32(1 / 3)], True),
        ([1.3, 0.4], True),
        ([11 / 8, 3 / 8], False),
        ([4 / 3, 1 / 3], False),
        ([1.41, 1 / 3], False),
        ([1, 0], False),
    ],
)
def test_a_wrong_fraction_is_not_called_rounding(answer, is_rounded):
    assert _checking.rounded(np.array(answer), np.array([11 / 8, 1 / 3])) == is_rounded


def test_a_result_that_is_used_again_is_copied():
    shared = np.zeros(2)
    kept = _checking.numbers(shared, (2,))
    shared += 1
    assert (kept == 0).all()


def test_only_a_mistake_that_explains_everything_alone_is_named():
    right, answer = [np.zeros(2), np.zeros(1)], [np.array([1.0, 2.0]), np.array([3.0])]
    explains = [np.array([1.0, 2.0]), np.array([3.0])]
    partly = [np.array([1.0, 2.0]), np.array([4.0])]
    name = _checking.name_mistake
    assert reason_of(name, answer, right, {"whole": explains, "part": partly}) == "whole"
    assert reason_of(name, answer, right, {"part": partly}) is None
    assert reason_of(name, answer, right, {"one": explains, "other": explains}) is None
    assert reason_of(name, answer, right, [("one", explains), ("one", explains)]) == "one"
    assert reason_of(name, right, right, {"no mistake": right}) is None


def test_missing_values_must_stand_where_they_should():
    right = np.array([1.0, np.nan, np.inf])
    assert _checking.close(right, right)
    for wrong in ([1, 0, np.inf], [np.nan, np.nan, np.inf], [1, np.nan, -np.inf], [1, np.nan]):
        assert not _checking.close(np.array(wrong), right)


@pytest.mark.parametrize(
    "fits, sentence",
    [
        ([1, 0, 0], "A is right; look at B and C again."),
        ([1, 1, 0], "A and B are right; look at C again."),
        ([1, 1, 1, 0], "A, B and C are right; look at D again."),
        ([0, 0, 0], ""),
    ],
)
def test_entries_that_are_right_are_listed_in_english(fits, sentence):
    assert _checking.which_are_right("ABCD"[: len(fits)], fits) == sentence


def test_other_names_have_other_instances():
    draws = [_checking.generator(name).random() for name in ("a.b", "a.c", "a.b")]
    assert draws[0] == draws[2] != draws[1]
