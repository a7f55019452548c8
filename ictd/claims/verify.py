"""The claims of the book, checked on random instances: what ``ictd verify`` prints."""

from importlib import import_module

import numpy as np

from ictd import _checks, _extras, _text
from ictd._settings import numpy_defaults, torch_defaults
from ictd.claims import algorithm, convergence
from ictd.claims.instances import random_instance
from ictd.claims.statement import Checked, Claim


def _of_layers(text, source, check):
    """A claim whose check is a function of `ictd.claims.layers`, which is imported where the check runs."""
    return Claim(text, source, lambda case: getattr(import_module("ictd.claims.layers"), check)(case), needs_torch=True)


CLAIMS = (
    Claim("plain loops = position form", "definition", algorithm.loops_are_the_position_form),
    Claim("position form = state form, from any v_0", "ours", algorithm.position_form_is_the_state_form),
    Claim("names of states do not matter", "ours", algorithm.names_of_states_do_not_matter),
    Claim(
        "a constant added to a query's scores changes nothing",
        "ours",
        algorithm.constant_added_to_scores_changes_nothing,
    ),
    Claim("score scale beta = features times sqrt(beta)", "ours", algorithm.scale_multiplies_the_scores),
    Claim("scores of size 10,000 do no harm", "ours", algorithm.large_scores_are_harmless),
    Claim("exact tabular score = tabular TD with mean TD errors", "ours", algorithm.tabular_score_is_tabular_td),
    _of_layers("dual-head layers = weighted softmax TD", "Theorem 1", "dual_head_is_weighted_td"),
    _of_layers("the same for any score matrix A", "Theorem 1", "dual_head_is_weighted_td_for_any_scores"),
    _of_layers("target memory = gamma x next value, every layer", "Theorem 1, proof", "target_memory_is_invariant"),
    _of_layers("shift-module layers = weighted softmax TD", "Lemma 1", "shift_module_is_weighted_td"),
    _of_layers("dual head = shift module, full random A and V", "Lemma 1", "dual_head_is_the_shift_module"),
    _of_layers("dual head keeps a memory offset as a reward", "ours", "dual_head_keeps_an_offset"),
    _of_layers("shift module forgets it after one layer", "ours", "shift_module_forgets_an_offset"),
    Claim("certainty equivalence is a fixed point", "ours", convergence.certainty_equivalence_is_fixed),
    Claim("error after t layers = J^t x initial error", "ours", convergence.iteration_matrix_carries_the_error),
    Claim("J 1 = (1 - alpha (1 - gamma)) 1", "ours", convergence.all_ones_is_an_eigenvector),
    Claim("norm bound on J, alpha = 1", "Theorem 2, proof", convergence.norm_bound_at_step_size_one),
    Claim("norm bound on J, alpha <= 1", "ours", convergence.norm_bound_at_any_step_size),
    Claim("norm bound on J, any alpha; attained", "ours", convergence.norm_bound_for_any_step_size_and_process),
    Claim("norm bound on J^2 where that on J is 1; attained", "ours", convergence.two_steps_contract_on_the_border),
    Claim("kernel is reversible with weights mu Z", "ours", convergence.normaliser_reverses_the_kernel),
    Claim(
        "gamma ||P||_nu < 1, alpha <= 1: radius of J below 1",
        "ours",
        convergence.small_reweighted_norm_means_convergence,
    ),
    Claim("balanced attention: radius of J below 1", "ours", convergence.balanced_attention_converges),
    Claim("deep limit = certainty equivalence, sharp one-hot", "ours", convergence.deep_limit_is_certainty_equivalence),
    Claim("never-left state moves with w, a kernel combination", "ours", convergence.never_left_state_generalises),
)


def run(n_instances=50, seed=0, claims=None):
    """Check claims on random instances.

    Parameters
    ----------
    n_instances : int
        Instances per claim, at least 1.
    seed : int
        Instance i is drawn from ``numpy.random.default_rng([seed, i])``, the same for every claim.
    claims : iterable of Claim, optional
        Default `CLAIMS`.

    Returns
    -------
    list of Checked
        In the order of the claims. Those that need torch are skipped where it is missing or broken.
    """
    n_instances = _checks.integer("n_instances", n_instances, low=1)
    seed = _checks.integer("seed", seed, low=0)
    with_torch = _extras.torch_problem() is None
    defaults = torch_defaults if with_torch else numpy_defaults
    results = []
    for claim in CLAIMS if claims is None else claims:
        if claim.needs_torch and not with_torch:
            results.append(Checked(claim, ()))
            continue
        with defaults():
            results.append(claim.on(random_instance(np.random.default_rng([seed, i])) for i in range(n_instances)))
    return results


def table(results):
    """The results as text, one line per claim.

    Parameters
    ----------
    results : list of Checked

    Returns
    -------
    str
    """
    lines = [("claim", "source", "instances", "largest error", "tolerance", "result")]
    for result in results:
        claim, error = result.claim, "-" if result.status == "skipped" else f"{result.error:.1e}"
        lines.append((claim.text, claim.source, str(result.count), error, f"{claim.tolerance:.0e}", result.status))
    return "\n".join(_text.table(lines, "<<>>><"))
