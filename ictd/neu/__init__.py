"""Objectives of pretraining, and the NEU loss: the squared norm of the expected semi-gradient TD update."""

from ictd.neu.estimates import Estimate, neu, one_batch_neu, squared_norm
from ictd.neu.objectives import biased_neu_loss, neu_loss, td_loss, td_query_loss, true_value_loss
from ictd.neu.semi_gradient import expected_update, limit_update, query_td_errors, updates

__all__ = [
    "Estimate",
    "biased_neu_loss",
    "expected_update",
    "limit_update",
    "neu",
    "neu_loss",
    "one_batch_neu",
    "query_td_errors",
    "squared_norm",
    "td_loss",
    "td_query_loss",
    "true_value_loss",
    "updates",
]
