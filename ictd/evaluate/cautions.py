"""What to know before using the values: warnings about labels, states and the iteration."""

import math
import unicodedata

import numpy as np

from ictd.evaluate.arguments import as_number
from ictd.evaluate.result import ROUNDING

# Numbers that agree to this share are one number, spoilt by rounding.
NEARLY = 1e-9
# Fewer states say little about whether the labels are too fine.
MANY_STATES = 20


# ---------------------------------------------------------------------------------------------- labels


def of_labels(labels):
    """Labels that look alike, and numbers that differ by rounding only, are different states."""
    yield from of_two_spellings(labels, "states")
    seen, alike, similar = {}, {}, []
    for label in labels:
        number = as_number(label)
        if number is not None:
            seen[number] = label
        elif isinstance(label, str):
            other = alike.setdefault(_skeleton(label), label)
            if other != label:
                similar.append((other, label))
    if similar:
        one, other = map(ascii, similar[0])
        yield f"states {one} and {other} {_difference(*similar[0])}; they count as two states{_repeats(similar)}"
    fractions = sorted(number for number in seen if isinstance(number, float) and not number.is_integer())
    for one, other in zip(fractions, fractions[1:]):
        if other - one <= NEARLY * abs(other):
            yield (
                f"states {seen[one]!r} and {seen[other]!r} differ by rounding only; they count as two states. "
                f"Round the numbers first"
            )
            return


def of_two_spellings(labels, what):
    """Labels such as 1 and 01, or 7 and 7.0."""
    seen, pairs = {}, []
    for label in labels:
        number = as_number(label)
        if number is not None and seen.setdefault(number, label) != label:
            pairs.append((seen[number], label))
    if pairs:
        one, other = map(repr, pairs[0])
        yield f"{what} {one} and {other} are one number in two spellings; they count as two {what}{_repeats(pairs)}"


def _repeats(pairs):
    return f" (such pairs: {len(pairs)})" if len(pairs) > 1 else ""


def _visible(text):
    """The text without characters that take no space on the screen."""
    return "".join(
        c for c in text if c.isspace() or not (unicodedata.category(c) in ("Cf", "Cc") or "\ufe00" <= c <= "\ufe0f")
    )


def _steps(text):
    """The text with one more difference taken away at each step."""
    yield "differ only in how accents are encoded (Unicode NFC and NFD)", (text := unicodedata.normalize("NFC", text))
    yield "differ only in invisible characters", (text := _visible(text))
    yield "differ only in spaces", (text := " ".join(text.split()))
    text = unicodedata.normalize("NFKC", text)
    yield "differ only in characters that look alike (such as full-width ones)", text
    yield "differ only in upper and lower case", text.casefold()


def _skeleton(text):
    *_, (_, last) = _steps(text)
    return last


def _difference(one, other):
    return next(words for (words, a), (_, b) in zip(_steps(one), _steps(other)) if a == b)


# ---------------------------------------------------------------------------------------------- states


def of_equal_features(labels, group):
    """States with equal features are one state for the algorithm."""
    counts = np.bincount(group)
    if (counts > 1).any():
        one, other = (labels[i] for i in np.flatnonzero(group == np.argmax(counts > 1))[:2])
        yield (
            f"states {one!r} and {other!r} have equal features (such repeats: {len(labels) - len(counts)} of "
            f"{len(labels)} states): the algorithm cannot tell them apart, gives them one value, and tends to the "
            f"certainty equivalence of the data in which they are one state"
        )


def of_states_never_left(result, like_one_left, one_hot, several):
    """What follows a state that was never left is unknown, for it and for all states that lead to it."""
    never = np.flatnonzero(result.visits == 0)
    if not never.size:
        return
    one = never.size == 1
    unknown = np.count_nonzero(np.isnan(result.certainty_equivalence) & (result.visits > 0))
    left = len(result.states) - never.size
    if unknown == left:
        effect = f"no certainty equivalence is determined (every other state leads to {'it' if one else 'one of them'})"
    elif unknown:
        leads = "it" if one else "one of them"
        those = f"{unknown} of {left} other states"
        effect = f"the certainty equivalence of {those} is not determined (they lead to {leads})"
    else:
        effect = "there is no certainty equivalence for " + ("it" if one else "them")
    names = _some([repr(result.states[i]) for i in never])
    message = (
        f"state {names} was never left, it is only the last one: the data do not say what follows it, so {effect}"
        if one
        else f"states {names} were never left, only entered: the data do not say what follows them, so {effect}"
    )
    its = "Its value is" if one else "Their values are"
    if like_one_left[never].all():
        yield f"{message}. {its} that of the states with equal features"
        return
    if one_hot:
        how = "with one-hot features it attends to every visit alike" if one else "one-hot features attend to all alike"
        message = f"{message}. {its} generalisation only: {how}"
    else:
        message = f"{message}. {its} generalisation only: a combination of the values of states with similar features"
    if several:
        yield f"{message}. If episodes really end there, say so with done"
    else:
        yield f"{message}. End the trajectory in a state that was left before, if you can"


def _some(names, most=3):
    """The first names of a list, and how many more there are."""
    if len(names) <= most:
        return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def of_states_left_once(result):
    """Labels that are too fine say nothing about averages."""
    once, left = np.count_nonzero(result.visits == 1), np.count_nonzero(result.visits)
    if left >= MANY_STATES and 2 * once > left:
        yield (
            f"{once} of {left} states were left only once: their values rest on a single transition. Coarser states "
            f"say more, such as bins of a number (--bins, in Python read_csv(bins=))"
        )


# ------------------------------------------------------------------------------------------- iteration


def of_the_iteration(result, one_hot):
    """Whether the layers have come to their limit, and whether more would lead there."""
    radius = result.radius
    if not np.isfinite(result.value).all():
        yield f"the values overflowed before layer {result.n_layers}: they are not usable"
    if math.isnan(radius):
        yield (
            "the limit and the radius cannot be computed: at this scale the kernel of the visited states is singular "
            "to rounding. Another scale, or features of equal length, may help"
        )
    elif radius > 1 + ROUNDING:
        yield (
            f"the iteration diverges: its spectral radius on the visited states is {radius:.6g}, above 1, so more "
            f"layers lead away from the limit. Features of equal length, or another scale, may help"
        )
    elif radius > 1 - ROUNDING:
        yield (
            "the spectral radius on the visited states is 1 to rounding: some differences between states are not "
            "learned in any practical number of layers. Another scale, or features of equal length, may help"
        )
    elif result.more_layers:
        slow = one_hot and 1 - radius < 0.9 * (1 - result.gamma)
        limit = "gamma or less" if result.n_ends else f"gamma = {result.gamma:g}"
        hint = f". A larger scale lowers the radius towards {limit}" if slow else ""
        yield (
            f"after {result.n_layers} layers the values are up to {result.distance:.3g} away from their limit; about "
            f"{result.more_layers} more would bring that below 0.1 % of the largest value (radius {radius:.6g}){hint}"
        )


# ----------------------------------------------------------------------------------------------- rows


def notes(transitions):
    """What was left out, and how rows were put together."""
    if transitions.n_left_out:
        stopped = transitions.n_episodes - transitions.n_ends
        yield (
            f"{count(stopped, 'episode just stops', 'episodes just stop')}: {transitions.n_left_out} last "
            f"{'reward' if transitions.n_left_out == 1 else 'rewards'} without a known successor left out"
        )
    if transitions.interleaved:
        yield "rows of some episodes stand between those of others; equal ids were read as one episode"


def count(n, one, many):
    """A number and its noun with verb."""
    return f"{n} {one if n == 1 else many}"
