"""What a reader hands in, as arrays of the right type and shape; anything else is refused with a reason."""

import numpy as np

from ictd import _checks

_KINDS = {"U": "text", "S": "text", "c": "complex numbers", "M": "dates", "m": "durations", "V": "records"}


class NotYet(Exception):
    """The reason why an answer is not right."""


def expect(condition, reason):
    """Go on if the condition holds; otherwise the answer is not right, for this reason."""
    if not condition:
        raise NotYet(reason)


def described(answer):
    """What came, in a few words."""
    try:
        if isinstance(answer, str):
            return f"the text {answer if len(answer) <= 40 else answer[:37] + '...'!r}"
        if callable(answer) and not isinstance(answer, type):
            return "a function"
        if isinstance(answer, (np.ndarray, list, tuple)):
            kind = np.asarray(answer).dtype.kind  # ragged lists raise
            if kind in _KINDS:
                return f"a {type(answer).__name__} of {_KINDS[kind]}"
            if kind == "O":
                return f"a {type(answer).__name__} with entries that are no numbers"
        text = _checks.describe(answer)
        return f"of type {type(answer).__name__}" if " at 0x" in text else text
    except ValueError:
        return _checks.describe(answer)
    except Exception:  # whatever the reader's object raises when it is looked at
        return f"of type {type(answer).__name__}"


def numbers(answer, shape, what="your answer", finite=True):
    """The answer as an array of real numbers of a given shape.

    Parameters
    ----------
    answer : object
        Whatever the reader handed in.
    shape : tuple
        A text in it, such as "S", stands for any length.
    what : str
        The subject of the reason.
    finite : bool
        False lets NaN and infinity pass.

    Returns
    -------
    ndarray
        A copy in float32 if that came (`_values.close` then forgives its rounding), otherwise in float64.

    Raises
    ------
    NotYet
        If the answer is anything else.
    """
    try:
        dtype = answer.dtype if hasattr(answer, "dtype") else np.asarray(answer).dtype
        expect("float16" not in str(dtype), f"{what} should be in float64; float16 has 3 digits.")  # bfloat16, too
        result = np.asarray(answer)
        if np.ma.is_masked(answer) or result.dtype.kind not in "fiubO":
            raise TypeError
        if any(one is None or isinstance(one, str) for one in result.flat):  # other objects may be fractions
            raise TypeError
        result = result.astype(np.float32 if result.dtype == np.float32 else np.float64)
    except NotYet:
        raise
    except Exception:  # whatever the reader's object raises, it is no array of numbers
        raise NotYet(f"{what} should be real numbers; it is {described(answer)}.") from None
    fits = len(result.shape) == len(shape) and all(
        isinstance(want, str) or want == have for want, have in zip(shape, result.shape)
    )
    wanted = "have shape {}".format(repr(shape).replace("'", "")) if shape else "be a single number"
    expect(fits, f"{what} should {wanted}; it has shape {result.shape}.")
    expect(not finite or np.isfinite(result).all(), f"{what} holds NaN or infinity.")
    return result


def has_parts(answer, number):
    """Whether a list or tuple of so many things came."""
    return isinstance(answer, (tuple, list)) and len(answer) == number


def call(function, *arguments, where=""):
    """The result of the reader's function, which must leave its arguments as they are.

    ``where`` says on which instance, and begins the reason: "with one transition".
    """
    start = f"{where} your" if where else "your"
    expect(callable(function), f"your answer should be a function; it is {described(function)}.")
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    try:
        result = function(*copies)
    except (Exception, SystemExit) as error:  # whatever the reader's code raises is the reason
        raise NotYet(f"{start} function raised {type(error).__name__}{_message(error)}") from None
    for place, (copy, argument) in enumerate(zip(copies, arguments), start=1):
        if isinstance(copy, np.ndarray) and not np.array_equal(copy, argument, equal_nan=True):
            raise NotYet(
                f"{start} function overwrites its argument number {place}; whoever calls it still needs that array. "
                f"Work on a copy."
            )
    return result


def _message(error):
    try:
        text = str(error)
        return f": {text if len(text) <= 200 else text[:197] + '...'}" if text else ""
    except Exception:
        return ""
