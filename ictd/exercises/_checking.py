"""What all checks are made of.

A check takes the reader's answer and goes through three stages: type and shape (`_answers`), then values on all
hidden instances at once (`_values`), and only then a reason. `judge_numbers` and `judge_function` do this for the usual
exercises, `judge` where an answer needs another treatment first. The first thing that does not hold raises `NotYet`
with the reason; no reason shows the answer.
"""

import sys
import warnings
from contextlib import contextmanager

import numpy as np

from ictd import _settings
from ictd.exercises._answers import NotYet, call, expect, numbers
from ictd.exercises._values import ROUNDED, ROUNDING, close, distance, nearly, rounded


@contextmanager
def standard_settings():
    """Settings of NumPy, warnings and PyTorch under which every check runs, whatever the reader has set."""
    # torch that nobody has loaded has no settings, and takes a second to load
    defaults = _settings.torch_defaults if sys.modules.get("torch") else _settings.numpy_defaults
    with defaults(), np.printoptions(**_settings.PRINTING), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def generator(*name):
    """The random generator that belongs to a name, such as that of an exercise: other names, other instances.

    Returns
    -------
    numpy.random.Generator
    """
    return np.random.default_rng(list(":".join(map(str, name)).encode()))


def name_mistake(answer, right, mistakes, tolerance=ROUNDING):
    """Raise the reason of the one mistake that gives this answer; go on if none does, or more than one.

    Parameters
    ----------
    answer, right : ndarray, or list of ndarrays
        A list holds one array for each instance; a mistake must give the answer on all of them.
    mistakes : dict
        For each reason what the mistake gives, in the form of ``right``. Several mistakes that share a reason stand
        in a tuple.
    tolerance : float
        A mistake that is no further than twice this from what is right is never named.
    """

    def all_within(found, expected, bound):
        pairs = zip(found, expected) if isinstance(right, list) else [(found, expected)]
        return all(distance(one, other) <= bound for one, other in pairs)

    found = {
        reason
        for reason, wrong in _pairs(mistakes)
        if all_within(answer, wrong, tolerance) and not all_within(wrong, right, 2 * tolerance)
    }
    if len(found) == 1:
        raise NotYet(found.pop())


def _pairs(mistakes):
    """Reasons and mistakes one by one; a list of such pairs may come as well."""
    if not isinstance(mistakes, dict):
        return mistakes
    return [
        (reason, one) for reason, wrong in mistakes.items() for one in (wrong if isinstance(wrong, tuple) else (wrong,))
    ]


def judge_numbers(answer, right, mistakes, advice, inexact="", tolerance=ROUNDING):
    """Accept numbers that are right; otherwise raise the reason.

    Parameters
    ----------
    answer, right : ndarray
        The reader's answer, as `numbers` returns it, and the right one.
    mistakes : dict
        For each reason the numbers that the mistake gives; see `name_mistake`.
    advice : str or callable
        The reason if no mistake is recognised; a function takes the answer.
    inexact : str
        The reason if the answer is right but rounded; empty where a rounded answer is as wrong as any other.
    tolerance : float
        See `name_mistake`.
    """
    if close(answer, right):
        return
    expect(not (inexact and rounded(answer, right)), inexact)
    name_mistake(answer, right, mistakes, tolerance)
    raise NotYet(advice(answer) if callable(advice) else advice)


def judge_function(answer, right, cases, mistakes, advice, what="your result"):
    """Accept a function that gives the right arrays in all cases; otherwise raise the reason.

    Parameters
    ----------
    answer : object
        What the reader handed in.
    right : callable
        A right function, of the same arguments.
    cases : dict
        For each setting, such as "on a walk of one transition", the arguments of a hidden instance. The first should be
        one that tells all mistakes apart.
    mistakes : dict
        For each reason a wrong function, of the same arguments, or a tuple of them.
    advice : str or callable
        What follows the setting of the first case that is not right, if no mistake is recognised. A function takes
        the arguments of that case and the answer.
    what : str
        What the function returns, for the reasons; in the singular.
    """
    answers = []
    try:
        for setting, arguments in cases.items():
            shape = np.shape(right(*arguments))
            raw = call(answer, *arguments, where=setting)
            answers.append(numbers(raw, shape, f"{setting} {what}", finite=False))
    except NotYet:  # a mistake in an earlier case says more than what came of it in a later one
        if all(close(found, right(*arguments)) for found, arguments in zip(answers, cases.values())):
            raise

    judge(answers, right, list(cases.items())[: len(answers)], mistakes, advice, what)


def judge(answers, right, cases, mistakes, advice, what="your result"):
    """Accept answers that are right in all cases; otherwise raise the reason.

    Parameters
    ----------
    answers : list of ndarrays
        The reader's answer in each case.
    right : callable
        Takes the arguments of a case and returns the right answer.
    cases : list
        Pairs of a setting and its arguments.
    mistakes, advice, what
        See `judge_function`.
    """
    rights = [right(*arguments) for _, arguments in cases]
    if all(map(close, answers, rights)):
        return
    fits = list(map(nearly, answers, rights))
    expect(not all(fits), ROUNDED)
    wrongs = [(reason, [wrong(*arguments) for _, arguments in cases]) for reason, wrong in _pairs(mistakes)]
    name_mistake(answers, rights, wrongs)
    first = fits.index(False)
    if first == 0:  # two mistakes at once, of which the second shows in other cases
        name_mistake(answers[0], rights[0], [(reason, results[0]) for reason, results in wrongs])
    (setting, arguments), found = cases[first], answers[first]
    if np.isfinite(rights[first]).all():
        expect(np.isfinite(found).all(), f"{setting} {what} holds NaN or infinity.")
    raise NotYet(f"{setting} {advice(arguments, found) if callable(advice) else advice}")


def listed(names):
    """Names in a row: "A", "A and B", "A, B and C"."""
    *front, last = names
    return f"{', '.join(front)} and {last}" if front else last


def which_are_right(names, fits):
    """A sentence on the entries that are right, such as "A and B are right; look at C again."; "" if none is."""
    good = [name for name, fit in zip(names, fits) if fit]
    rest = [name for name, fit in zip(names, fits) if not fit]
    return f"{listed(good)} {'is' if len(good) == 1 else 'are'} right; look at {listed(rest)} again." if good else ""
