"""What the paper's construction fixes, for those who must know it without torch."""

# One head with the temporal shift module, two heads with common parameters, two heads with parameters of their own.
FORMS = ("tsm", "dual_head", "independent_heads")
# The value weights w_R, w_target, w_current of a step of size 1.
WEIGHTS = (1.0, 1.0, -1.0)
