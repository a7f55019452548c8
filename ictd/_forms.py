"""The forms of a model that compute the algorithm; named here, as settings of a run are checked without torch."""

FORMS = ("tsm", "dual_head", "independent_heads")
