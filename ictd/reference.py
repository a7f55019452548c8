"""Weighted softmax TD in plain loops, written as the algorithm is printed.

Slow on purpose and free of matrix algebra: it shares no line with the fast forms, so that their agreement
says something.
"""

import math


def weighted_softmax_td_loops(x, rewards, gamma, n_steps, step_size=1.0, score=None, initial=None):
    """Weighted softmax TD, one number at a time. The arguments are not checked.

    Parameters
    ----------
    x : sequence of n+1 feature vectors
    rewards : sequence of n floats
    gamma : float
        Discount in [0, 1).
    n_steps : int
    step_size : float
        Small enough: where the iteration overflows, Python raises its own errors.
    score : callable, optional
        g(query features, source features) -> float for one pair; default: the inner product.
    initial : sequence of n+1 floats, optional
        Default 0.

    Returns
    -------
    list of n_steps+1 lists of n+1 floats
    """
    if score is None:

        def score(query, source):
            return sum(a * b for a, b in zip(query, source))

    # The numbers of Python: those of NumPy would heed its error settings.
    x, rewards = [tuple(map(float, features)) for features in x], [float(reward) for reward in rewards]
    n = len(rewards)
    values = [0.0] * (n + 1) if initial is None else [float(value) for value in initial]
    history = [values]
    for _ in range(n_steps):
        updated = []
        for j in range(n + 1):
            scores = [score(x[j], x[k - 1]) for k in range(1, n + 1)]
            largest = max(scores)
            weights = [math.exp(s - largest) for s in scores]
            total = math.fsum(weights)
            change = math.fsum(
                weights[k - 1] / total * (rewards[k - 1] + gamma * values[k] - values[k - 1]) for k in range(1, n + 1)
            )
            updated.append(values[j] + step_size * change)
        values = updated
        history.append(values)
    return history
