"""The pattern of the paper in trained parameters: weights like (1, 1, -1) and a score matrix like the identity."""

from ictd import _checks

# A seed succeeds if the cosines of w with (1, 1, -1) and of the score matrix with I (visible parts) are above it.
SUCCESS_COSINE = 0.99
# What these cosines are called in a history, after "cosine_".
COSINES = "value_weights", "score_matrix"


def succeeds(weights, scores):
    """The success criterion of the book: both cosines above `SUCCESS_COSINE`.

    With parameters for each layer, all layers must show it; in the first one only the score matrix counts, as
    w_target and w_current have no effect where the values are still 0. Independent target heads are not looked at.

    Parameters
    ----------
    weights, scores : array_like, shape (K, sets)
        Cosines of the value weights with (1, 1, -1) and of the score matrix with I, as `pretrain.History` has them.

    Returns
    -------
    ndarray of bool, shape (K,)
    """
    weights = _checks.array("weights", weights, ("K", "sets"), finite=False)
    scores = _checks.array("scores", scores, weights.shape, finite=False)
    if weights.shape[1] > 1:
        weights = weights[:, 1:]
    return (weights > SUCCESS_COSINE).all(axis=1) & (scores > SUCCESS_COSINE).all(axis=1)
