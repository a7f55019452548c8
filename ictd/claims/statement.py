"""One claim: its statement, the errors that a check finds, and the line that says whether it holds."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ictd import _checks
from ictd._settings import numpy_defaults

TOLERANCE = 1e-10


@dataclass(frozen=True)
class Claim:
    """A claim: what it says, and how it is checked.

    Attributes
    ----------
    text : str
        The claim in a few words.
    source : str
        Where it comes from: a place in the paper, or "ours".
    check : callable, optional
        From an `Instance` to an error of at least 0, or to None where the instance does not fit the claim.
    needs_torch : bool
        Whether the check does.
    tolerance : float
        The largest error with which the claim holds.
    """

    text: str
    source: str = ""
    check: Callable | None = None
    needs_torch: bool = False
    tolerance: float = TOLERANCE

    def on(self, instances):
        """Check the claim on instances.

        Parameters
        ----------
        instances : iterable of Instance

        Returns
        -------
        Checked
        """
        return Checked(self, [error for error in map(self.check, instances) if error is not None])


@dataclass(frozen=True)
class Checked:
    """A claim with the errors that were found. It shows itself in one line, as the chapters print it.

    Attributes
    ----------
    claim : Claim
    errors : tuple of float
        One for each instance; none if the claim was skipped.

    Raises
    ------
    TypeError, ValueError
        If an error is negative or no number.
    """

    claim: Claim
    errors: tuple

    def __post_init__(self):
        object.__setattr__(self, "errors", _errors(self.errors))

    @property
    def count(self):
        """Number of instances."""
        return len(self.errors)

    @property
    def error(self):
        """The largest error; NaN if one is, or if there is none."""
        return float(np.max(self.errors)) if self.errors else math.nan

    @property
    def status(self):
        """ "ok", "FAIL" or "skipped"."""
        if not self.errors:
            return "skipped"
        return "ok" if self.error <= self.claim.tolerance else "FAIL"  # NaN fails

    def __repr__(self):
        if not self.errors:
            return f"- {self.claim.text}: skipped"
        mark = "✓" if self.status == "ok" else "✗"
        over = f" over {self.count} instances" if self.count > 1 else ""
        return f"{mark} {self.claim.text}: largest error {self.error:.0e}{over} (tolerance {self.claim.tolerance:.0e})"


def _errors(errors):
    """Errors as floats, if they are numbers of at least 0."""
    if len(errors) == 0:
        return ()
    numbers = _checks.array("errors", errors, ("n",), finite=False)
    for where, error in enumerate(errors):
        if np.asarray(error).dtype == bool:  # a comparison: its False would pass as the error 0
            raise TypeError(f"errors must be numbers, not truth values; entry {where} is {error}")
    if (numbers < 0).any():
        where = int(np.argmax(numbers < 0))
        raise ValueError(f"errors must be at least 0; entry {where} is {numbers[where]}")
    return tuple(numbers.tolist())


def holds(text, errors, instances=None, tolerance=TOLERANCE):
    """State a claim whose errors are within the tolerance; fail loudly if one is not.

    Parameters
    ----------
    text : str
        The claim in a few words.
    errors : float, sequence of floats, or callable
        One error of at least 0 for each instance, or a function that gives it. A truth value is no error.
    instances : iterable of Instance, optional
        What the function is applied to. It may return None for an instance that does not fit the claim.
    tolerance : float
        At least 0.

    Returns
    -------
    Checked

    Raises
    ------
    AssertionError
        If an error is NaN or above the tolerance.
    TypeError, ValueError
        If an error or the tolerance is negative or no number.
    """
    tolerance = _checks.real("tolerance", tolerance, low=0)
    if callable(errors):
        if instances is None:
            raise ValueError("instances must be given with a function of them; got None")
        checked = Claim(text, check=errors, tolerance=tolerance).on(instances)
    else:
        checked = Checked(Claim(text, tolerance=tolerance), [errors] if _checks.dimensions(errors) == 0 else errors)
    if checked.status == "skipped":
        raise ValueError("errors must hold at least one number; got none")
    if checked.status == "FAIL":
        where = int(np.argmax(np.where(np.isnan(checked.errors), np.inf, checked.errors)))
        raise AssertionError(
            f"{text}: error {checked.error:.3g} in instance {where}, above the tolerance {tolerance:.0e}"
        )
    return checked


@numpy_defaults()
def relative_error(found, expected):
    """Largest difference, relative to max(1, largest expected value); of several rows, the largest over the rows.

    Parameters
    ----------
    found, expected : array_like, shape (m,) or (L+1, m)
        A row is one layer or one step. NaN makes the error NaN.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        For anything but numbers, for no numbers, and for shapes that differ.
    """
    # float64 first: differences of small integers overflow in their own type
    found = np.atleast_2d(_checks.array("found", found, (...,), finite=False))
    expected = np.atleast_2d(_checks.array("expected", expected, (...,), finite=False))
    if found.shape != expected.shape:
        raise ValueError(f"found must have the shape of expected, {expected.shape}; got shape {found.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.maximum(1, np.abs(expected).max(axis=-1))
        return float((np.abs(found - expected).max(axis=-1) / scale).max())


def chance_interval(successes, trials):
    """The exact 95 % interval (Clopper and Pearson) for the chance of success of independent trials.

    Parameters
    ----------
    successes : int
        From 0 to ``trials``.
    trials : int
        At least 1.

    Returns
    -------
    low, high : float
        Outside of them, so many successes or more, or so few or fewer, have a probability below 2.5 %.

    Raises
    ------
    ValueError, TypeError
        For anything but such counts.
    """
    trials = _checks.integer("trials", trials, low=1)
    successes = _checks.integer("successes", successes, low=0, high=trials)
    upper = 1.0 if successes == trials else _chance_of(successes, trials, 0.025)
    lower = 0.0 if successes == 0 else _chance_of(successes - 1, trials, 0.975)
    return lower, upper


def _chance_of(successes, trials, probability):
    """The chance p at which so few successes or fewer have this probability; it falls as p grows."""
    low, high = 0.0, 1.0
    log_ways = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in range(successes + 1)
    ]
    for _ in range(60):
        p = (low + high) / 2
        own, other = math.log(p), math.log1p(-p)
        terms = (math.exp(ways + k * own + (trials - k) * other) for k, ways in enumerate(log_ways))
        low, high = (p, high) if math.fsum(terms) > probability else (low, p)
    return low
