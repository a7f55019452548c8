"""`ictd verify` holds on random instances, and fails when something is broken."""

import itertools
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ictd import _extras, convergence, empirical, kernels, td
from ictd.claims import Claim, random_instances, verify
from ictd.claims.instances import Instance
from ictd.claims.statement import Checked

TORCH = _extras.torch_problem() is None


@pytest.mark.parametrize(
    "source, words",
    [
        ("raise OSError('no such\\nlibrary')", "does not work here (OSError: no such library)"),
        ("raise ImportError('DLL')", "does not work here (ImportError: DLL)"),
        ("raise ModuleNotFoundError('No module', name='sympy')", "does not work here (No module)"),
        ("", "does not work here (AttributeError: module 'torch' has no attribute 'nn')"),
    ],
)
def test_a_broken_torch_is_skipped(source, words, tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)  # so that the broken one is removed afterwards
    monkeypatch.delitem(sys.modules, "torch")
    assert _extras.torch_problem() == words
    skipped = {result.claim for result in verify.run(1) if result.status == "skipped"}
    assert skipped == {claim for claim in verify.CLAIMS if claim.needs_torch}


def test_a_missing_torch_is_skipped(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert _extras.torch_problem() == "is not installed"


CLAIM_TEXTS = {claim.text for claim in verify.CLAIMS}


def outcome(results):
    return {result.claim.text: result.status for result in results}


def test_all_claims_hold_for_several_seeds():
    for seed in (1, 2):
        for result in verify.run(8, seed):
            if result.claim.needs_torch and not TORCH:
                assert (result.status, result.count) == ("skipped", 0)
            else:
                assert (result.status, result.count) == ("ok", 8)
                assert 0 <= result.error <= result.claim.tolerance


def test_the_same_seed_gives_the_same_numbers():
    one, two, other = (verify.run(2, seed) for seed in (3, 3, 4))
    assert [r.error for r in one] == pytest.approx([r.error for r in two], rel=0, abs=0, nan_ok=True)
    assert [r.error for r in one] != pytest.approx([r.error for r in other], rel=0, abs=0, nan_ok=True)


# ------------------------------------------------------------------------------------ wrong instances


def drifting(case):
    """The discount falls whenever it is read: the two sides of a claim are about two processes."""
    gammas = (0.9 / 2**reads for reads in itertools.count())

    class Drifting(Instance):
        gamma = property(lambda self: next(gammas))

    return Drifting(**vars(case))


def overstepping(case):
    """The step size is far beyond what the claim allows."""
    return replace(case, step_size=100.0)


def improbable(case):
    """Rows drawn as distributions sum to 2."""
    double = SimpleNamespace(choice=case.rng.choice, dirichlet=lambda *arguments: 2 * case.rng.dirichlet(*arguments))
    return replace(case, rng=double)


OTHER_FAULTS = {
    "norm bound on J, any alpha; attained": overstepping,
    "gamma ||P||_nu < 1, alpha <= 1: radius of J below 1": overstepping,
    "balanced attention: radius of J below 1": overstepping,
    "norm bound on J^2 where that on J is 1; attained": improbable,
}
# Both sides of these are made from numbers of the check's own: a fault of the package is found, see below.
OF_THEIR_OWN = {
    "scores of size 10,000 do no harm",
    "kernel is reversible with weights mu Z",
    "never-left state moves with w, a kernel combination",
}


@pytest.mark.parametrize("claim", [c for c in verify.CLAIMS if c.text not in OF_THEIR_OWN], ids=lambda c: c.text)
def test_no_check_is_blind(claim):
    if claim.needs_torch and not TORCH:
        pytest.skip("needs torch")
    fault = OTHER_FAULTS.get(claim.text, drifting)
    assert claim.on(random_instances(np.random.default_rng(0), 8)).status == "ok"
    assert claim.on(map(fault, random_instances(np.random.default_rng(0), 8))).status == "FAIL"


# ---------------------------------------------------------------------------------------- wrong code


def test_the_faults_name_claims():
    assert {*OTHER_FAULTS, *OF_THEIR_OWN} <= CLAIM_TEXTS


def fails(n_instances=5):
    return {text for text, status in outcome(verify.run(n_instances)).items() if status == "FAIL"}


def put(monkeypatch, module, name, function):
    """A faulty function in place of a public one, also for callers that have checked its arguments."""
    function.trusted = function
    monkeypatch.setattr(module, name, function)


def test_a_query_that_attends_to_itself_is_found(monkeypatch):
    kernel = kernels.softmax_kernel

    def unmasked(queries, sources, score=None, counts=None):
        if counts is not None or len(queries) != len(sources) + 1:
            return kernel(queries, sources, score, counts)
        return kernel(queries, queries, score)[:, :-1]

    put(monkeypatch, td, "softmax_kernel", unmasked)
    failed = fails()
    assert {"plain loops = position form", "position form = state form, from any v_0"} <= failed
    assert "certainty equivalence is a fixed point" not in failed


def test_a_transposed_score_matrix_is_found(monkeypatch):
    score = kernels.bilinear_score
    put(monkeypatch, kernels, "bilinear_score", lambda A: score(np.transpose(A)))
    failed = fails()
    assert "plain loops = position form" in failed
    assert "position form = state form, from any v_0" not in failed
    if TORCH:
        assert "the same for any score matrix A" in failed
        assert "dual-head layers = weighted softmax TD" not in failed


def test_wrong_means_are_found(monkeypatch):
    model = empirical.empirical_model

    def slightly_wrong(trajectory, n_states):
        good = model(trajectory, n_states)
        return empirical.EmpiricalModel(good.counts, good.transition, good.reward * 1.001, good.visited)

    put(monkeypatch, td, "empirical_model", slightly_wrong)
    failed = fails()
    assert {
        "position form = state form, from any v_0",
        "exact tabular score = tabular TD with mean TD errors",
    } <= failed
    assert "J 1 = (1 - alpha (1 - gamma)) 1" not in failed


def test_a_wrong_state_kernel_is_found(monkeypatch):
    kernel = kernels.state_kernel
    put(monkeypatch, kernels, "state_kernel", lambda *arguments: kernel(*arguments) * 0.9)
    failed = fails()
    assert "J 1 = (1 - alpha (1 - gamma)) 1" in failed
    assert "never-left state moves with w, a kernel combination" not in failed  # w does not see a factor


def test_a_never_left_state_that_does_not_move_is_found(monkeypatch):
    steps = td.weighted_softmax_td_states

    def only_sources(trajectory, X, *arguments, **named):
        values = steps(trajectory, X, *arguments, **named)
        never = ~empirical.empirical_model(trajectory, len(X)).visited
        values[:, never] = values[0, never]
        return values

    put(monkeypatch, td, "weighted_softmax_td_states", only_sources)
    failed = fails()
    assert "never-left state moves with w, a kernel combination" in failed
    assert "error after t layers = J^t x initial error" not in failed


def test_a_softmax_that_overflows_is_found(monkeypatch):
    def naive(logits):
        weights = np.exp(logits)
        return weights / weights.sum(axis=-1, keepdims=True)

    monkeypatch.setattr(kernels, "softmax", naive)
    failed = fails()
    assert "scores of size 10,000 do no harm" in failed
    assert "kernel is reversible with weights mu Z" not in failed


def test_a_target_head_without_shift_is_found(monkeypatch):
    pytest.importorskip("torch")
    from ictd import dual_head

    put(monkeypatch, dual_head, "shift_left", lambda Y: Y)
    failed = fails()
    assert {
        "dual-head layers = weighted softmax TD",
        "target memory = gamma x next value, every layer",
        "dual head = shift module, full random A and V",
        "dual head keeps a memory offset as a reward",
    } <= failed
    assert "shift-module layers = weighted softmax TD" not in failed


def test_a_shift_without_discount_is_found(monkeypatch):
    pytest.importorskip("torch")
    from ictd import temporal_shift

    step = temporal_shift.tsm_step.trusted
    monkeypatch.setattr(temporal_shift, "tsm_step", lambda Z, V, A, gamma: step(Z, V, A, 1.0))
    failed = fails()
    assert {
        "shift-module layers = weighted softmax TD",
        "dual head = shift module, full random A and V",
        "shift module forgets it after one layer",
    } <= failed
    assert "dual-head layers = weighted softmax TD" not in failed


def test_the_norm_bound_can_fail(monkeypatch):
    matrix = convergence.iteration_matrix
    put(monkeypatch, convergence, "iteration_matrix", lambda *arguments: 3 * matrix(*arguments))
    failed = fails()
    assert {text for text in CLAIM_TEXTS if text.startswith("norm bound on J")} <= failed
    assert {"gamma ||P||_nu < 1, alpha <= 1: radius of J below 1", "balanced attention: radius of J below 1"} <= failed


def test_a_bound_that_is_too_large_is_found(monkeypatch):
    bound = convergence.norm_bound
    put(monkeypatch, convergence, "norm_bound", lambda *arguments: bound(*arguments) + 0.01)
    assert "norm bound on J, any alpha; attained" in fails()


def test_a_wrong_reversing_distribution_is_found(monkeypatch):
    put(monkeypatch, convergence, "reversing_distribution", lambda M: np.full(len(M), 1 / len(M)))
    failed = fails()
    assert "kernel is reversible with weights mu Z" in failed
    assert "norm bound on J, any alpha; attained" not in failed


def test_attention_that_is_not_balanced_is_found(monkeypatch):
    def softmax_only(weights, X):
        return kernels.softmax_kernel(X, X, counts=weights)

    put(monkeypatch, kernels, "balanced_kernel", softmax_only)
    assert "balanced attention: radius of J below 1" in fails()


def test_a_limit_that_is_not_certainty_equivalence_is_found(monkeypatch):
    solve = empirical.certainty_equivalence
    put(monkeypatch, empirical, "certainty_equivalence", lambda model, gamma: solve(model, gamma / 2))
    assert {"certainty equivalence is a fixed point", "deep limit = certainty equivalence, sharp one-hot"} <= fails()


@pytest.mark.parametrize("errors, status", [((0.0, 1e-10), "ok"), ((0.0, 2e-10), "FAIL"), ((np.nan, 0.0), "FAIL")])
def test_claims_of_ones_own_are_checked(errors, status):
    found = iter(errors)
    claim = Claim("mine", "ours", lambda case: next(found))
    (result,) = verify.run(2, claims=[claim])
    assert (result.claim, result.status) == (claim, status)
    assert result.errors == pytest.approx(errors, rel=0, abs=0, nan_ok=True)


def test_the_table_names_every_claim_and_marks_failures():
    claim = verify.CLAIMS[0]
    results = [
        Checked(claim, (0.0, 2e-14, 0.0)),
        Checked(claim, (2e-14, 0.0, 0.5)),
        Checked(claim, ()),
    ]
    lines = verify.table(results).splitlines()
    assert lines[0].split() == ["claim", "source", "instances", "largest", "error", "tolerance", "result"]
    assert lines[1].split()[-4:] == ["3", "2.0e-14", "1e-10", "ok"]
    assert lines[2].split()[-4:] == ["3", "5.0e-01", "1e-10", "FAIL"]
    assert lines[3].split()[-4:] == ["0", "-", "1e-10", "skipped"]
    assert all(line.startswith(claim.text) and claim.source in line for line in lines[1:])


@pytest.mark.parametrize("arguments, error", [((0,), ValueError), ((1, -1), ValueError), ((1.5,), TypeError)])
def test_bad_arguments_are_refused(arguments, error):
    with pytest.raises(error, match="n_instances|seed"):
        verify.run(*arguments)
