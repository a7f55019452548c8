"""Typical wrong weights of attention, in the form of `_layers.attention_weights`: what a mask may do to the query."""

from ictd.exercises._layers import softmax


def none(Z, A):
    """The query is a source like any other."""
    return softmax(Z.T @ A @ Z)


def late(Z, A):
    """The query loses its weight as a source after the softmax."""
    weights = none(Z, A)
    weights[-1] = 0
    return weights


def as_query(Z, A):
    """The query hears nothing, but is heard."""
    weights = none(Z, A)
    weights[:, -1] = 0
    return weights


def by_zero(Z, A):
    """The query has scores of 0 as a source."""
    scores = Z.T @ A @ Z
    scores[-1] = 0
    return softmax(scores)
