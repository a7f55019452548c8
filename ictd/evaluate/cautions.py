"""What to know before using the values: warnings about labels, states, the iteration and unused columns."""

import math
import re
import unicodedata

import numpy as np

from ictd.evaluate.arguments import TRUTHS, as_number, numbered
from ictd.evaluate.result import ROUNDING

# Numbers that agree to this share are one number, spoilt by rounding.
NEARLY = 1e-9
# Fewer states say little about whether the labels are too fine.
MANY_STATES = 20

# Words in the names of columns, alone, at the begin or at the end: session, session_id, sessionid, user_session.
EPISODE_WORDS = (
    "episode session user visitor client customer player patient trajectory rollout trial game device machine run env"
).split()
END_WORDS = "done terminal terminated termination".split()
CUT_WORDS = "truncated truncation truncations timeout".split()
# Whole names.
SHORT_NAMES = {"ep": "episode", "uid": "episode", "sid": "episode", "traj": "episode", "end": "done", "ended": "done"}
TIME_NAMES = "time timestamp datetime date ts t step timestep time_step event_time created_at".split()
# What programs write where a value is missing.
MISSING_WORDS = {"na", "n/a", "#n/a", "nan", "null", "none", "<na>"}


# ---------------------------------------------------------------------------------------------- labels


def of_labels(labels):
    """Labels that look alike, and numbers that differ by rounding only, are different states."""
    seen, alike = {}, {}
    for label in labels:
        number = as_number(label)
        if number is not None:
            if number in seen:
                yield f"states {seen[number]!r} and {label!r} are one number in two spellings; they count as two states"
            seen[number] = label
        elif isinstance(label, str):
            other = alike.setdefault(_skeleton(label), label)
            if other != label:
                yield f"states {ascii(other)} and {ascii(label)} {_difference(other, label)}; they count as two states"
    fractions = sorted(number for number in seen if isinstance(number, float) and not number.is_integer())
    for one, other in zip(fractions, fractions[1:]):
        if other - one <= NEARLY * abs(other):
            yield (
                f"states {seen[one]!r} and {seen[other]!r} differ by rounding only; they count as two states. Round the "
                f"numbers first"
            )
            return


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
        effect = "no certainty equivalence is determined (every other state leads to it)" if one else (
            "no certainty equivalence is determined (every other state leads to one of them)"
        )
    elif unknown:
        leads = "it" if one else "one of them"
        effect = f"the certainty equivalence of {unknown} of {left} other states is not determined (they lead to {leads})"
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
            f"{once} of {left} states were left only once: their values rest on a single transition. Coarser states say more, "
            f"such as bins of a number (--bins, in Python read_csv(bins=))"
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
        hint = f". A larger scale lowers the radius towards gamma = {result.gamma:g}" if slow else ""
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
            f"{_count(stopped, 'episode just stops', 'episodes just stop')}: {transitions.n_left_out} last "
            f"{'reward' if transitions.n_left_out == 1 else 'rewards'} without a known successor left out"
        )
    if transitions.interleaved:
        yield "rows of some episodes stand between those of others; equal ids were read as one episode"


def _count(n, one, many):
    return f"{n} {one if n == 1 else many}"


# -------------------------------------------------------------------------------------------- columns


def looks_like(name):
    """Whether a column looks like "episode", "done", "truncated" or "time" by its name; None if like none of them."""
    name = name.strip().lower()
    if name in TIME_NAMES:
        return "time"
    parts = re.findall(r"[a-z]+", name)
    for kind, words in (("truncated", CUT_WORDS), ("done", END_WORDS), ("episode", EPISODE_WORDS)):
        for word in words:
            if any(part in (word, f"{word}s") for part in parts):
                return kind
            if len(word) > 3 and any(part.startswith(word) or part.endswith(word) for part in parts):
                return kind
    return SHORT_NAMES.get("_".join(part for part in parts if part != "id"))


def of_columns(unused, has_episode, done):
    """Columns that look like episodes or ends and are not used.

    Parameters
    ----------
    unused : list of str
        The columns that have no role.
    has_episode : bool
        Whether a column of episodes was named.
    done : str or None
        The column of ends that was named.
    """
    for name in unused:
        kind = looks_like(name)
        if kind == "episode" and not has_episode:
            yield (
                f"column {name} looks like episodes and is not used: the last row of one leads to the first row of the "
                f"next. Name it with --episode {_quoted(name)} (episode= in Python)"
            )
        elif kind == "done" and done is None:
            without = "rewards at the end of an episode are left out" if has_episode else "ends lead to the next row"
            yield (
                f"column {name} looks like ends of episodes and is not used: {without}. Name it with "
                f"--done {_quoted(name)} (done= in Python)"
            )
        elif kind == "truncated" and not has_episode:
            yield (
                f"column {name} looks like episodes that were cut off and is not used: their last row leads to the first "
                f"row of the next. Name a column of episodes with --episode (episode= in Python); one that just stops "
                f"leaves out its last reward, so --done is for real ends only"
            )
    if done is not None and looks_like(done) == "truncated":
        yield (
            f"column {done} looks like episodes that were cut off, and each counts as an end worth 0. If they would have "
            f"gone on, name a column of episodes with --episode instead, and real ends with --done"
        )


def _quoted(name):
    return name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'"


def of_cut_offs(name, cut_off, done, ends):
    """Rows that are called done because a time limit came.

    Parameters
    ----------
    name, done : str
        The columns that say "cut off" and "done".
    cut_off : list of str
    ends : ndarray of bool
    """
    both = sum(bool(end) and TRUTHS.get(text.strip().lower(), False) for text, end in zip(cut_off, ends))
    if both:
        yield (
            f"{_count(both, 'row is', 'rows are')} done by column {done} and cut off by column {name}: an end worth 0. A time limit is no end: name a column of real ends (such as terminated) with --done"
        )


def of_shared_ids(name, values, episodes):
    """One episode id with rows of several users, devices or sessions is several walks made one."""
    owner = numbered(values, name)[1]
    pairs = len(np.unique(episodes * (int(owner.max()) + 1) + owner))
    n_episodes = len(np.unique(episodes))
    if pairs > n_episodes:
        yield (
            f"rows with one episode id have several values in column {name}: if ids begin anew there, different walks "
            f"are read as one. Make a column that holds both and name it with --episode"
        )


def of_time(name, values, lines, walks):
    """Rows that are not in the order of their time.

    Parameters
    ----------
    name : str
    values : list of str
    lines, walks : ndarray of int
        Line and walk of each row.
    """
    numbers = [as_number(value.strip()) for value in values]
    if None not in numbers:
        values = np.array(numbers, dtype=float)
    elif all(re.match(r"\d{4}-\d\d-\d\d", value.strip()) for value in values):
        values = np.array([value.strip() for value in values])
    else:
        return
    order = np.argsort(walks, kind="stable")
    back = (values[order][1:] < values[order][:-1]) & (walks[order][1:] == walks[order][:-1])
    if back.any():
        yield (
            f"column {name} goes back in line {lines[order][1:][back].min()}: rows must stand in the order of time"
        )
