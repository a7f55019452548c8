"""The forms of a model that compute the algorithm; named here, as the settings of a run must know them without torch."""

FORMS = ("tsm", "dual_head", "independent_heads")
