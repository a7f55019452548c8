"""`ictd verify` holds on random instances, and fails when something is broken."""

import sys

import numpy as np
import pytest

from ictd import empirical, kernels, td, verify


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
    assert verify.torch_problem() == words and not verify.has_torch()
    skipped = {result.claim for result in verify.run(1) if result.status == "skipped"}
    assert skipped == {claim for claim in verify.CLAIMS if claim.needs_torch}


def test_a_missing_torch_is_skipped(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert verify.torch_problem() == "is not installed"


CLAIM_TEXTS = {claim.text for claim in verify.CLAIMS}


def outcome(results):
    return {result.claim.text: result.status for result in results}


def test_all_claims_hold_for_several_seeds():
    torch_is_here = verify.has_torch()
    for seed in (1, 2):
        for result in verify.run(8, seed):
            if result.claim.needs_torch and not torch_is_here:
                assert (result.status, result.instances) == ("skipped", 0)
            else:
                assert (result.status, result.instances) == ("ok", 8)
                assert 0 <= result.error <= verify.TOLERANCE


def test_instances_cover_the_promised_range():
    cases = [verify.random_instance(np.random.default_rng([0, i])) for i in range(400)]
    assert {len(case.X) for case in cases} == set(range(2, 13))
    assert {case.X.shape[1] for case in cases} == set(range(1, 9))
    lengths = [case.trajectory.n_transitions for case in cases]
    assert min(lengths) == 1 and max(lengths) == 60
    gammas = [case.gamma for case in cases]
    assert min(gammas) == 0 and max(gammas) == 0.99 and len(set(gammas)) > 200
    assert 0 < min(case.step_size for case in cases) < 0.05 and 0.95 < max(case.step_size for case in cases) <= 1
    assert {case.n_layers for case in cases} >= {1, 50} and max(case.n_layers for case in cases) == 50
    states = [set(case.trajectory.states.tolist()) for case in cases]
    assert any(len(seen) < len(case.X) for seen, case in zip(states, cases))  # unvisited states
    assert any(case.trajectory.states[-1] not in case.trajectory.states[:-1] for case in cases)  # never a source
    assert any(len(np.unique(case.X, axis=0)) < len(case.X) for case in cases)  # equal features


def test_the_same_seed_gives_the_same_numbers():
    one, two, other = (verify.run(2, seed) for seed in (3, 3, 4))
    assert [r.error for r in one] == pytest.approx([r.error for r in two], rel=0, abs=0, nan_ok=True)
    assert [r.error for r in one] != pytest.approx([r.error for r in other], rel=0, abs=0, nan_ok=True)


def fails(n_instances=5):
    return {text for text, status in outcome(verify.run(n_instances)).items() if status == "FAIL"}


def test_a_query_that_attends_to_itself_is_found(monkeypatch):
    kernel = kernels.softmax_kernel

    def unmasked(queries, sources, score=None, counts=None):
        if counts is not None or len(queries) != len(sources) + 1:
            return kernel(queries, sources, score, counts)
        return kernel(queries, queries, score)[:, :-1]

    monkeypatch.setattr(td, "softmax_kernel", unmasked)
    failed = fails()
    assert {"plain loops = position form", "position form = state form, from any v_0"} <= failed
    assert "certainty equivalence is a fixed point" not in failed


def test_a_transposed_score_matrix_is_found(monkeypatch):
    score = kernels.bilinear_score
    monkeypatch.setattr(td, "bilinear_score", lambda A: score(np.transpose(A)))
    failed = fails()
    assert "plain loops = position form" in failed
    assert "position form = state form, from any v_0" not in failed
    if verify.has_torch():
        assert "the same for any score matrix A" in failed
        assert "dual-head layers = weighted softmax TD" not in failed


def test_wrong_means_are_found(monkeypatch):
    model = empirical.empirical_model

    def slightly_wrong(trajectory, n_states):
        good = model(trajectory, n_states)
        return empirical.EmpiricalModel(good.counts, good.transition, good.reward * 1.001, good.visited)

    monkeypatch.setattr(td, "empirical_model", slightly_wrong)
    failed = fails()
    assert {
        "position form = state form, from any v_0",
        "exact tabular score = tabular TD with mean TD errors",
    } <= failed
    assert "J 1 = (1 - alpha (1 - gamma)) 1" not in failed


def test_a_wrong_state_kernel_is_found(monkeypatch):
    kernel = kernels.state_kernel
    monkeypatch.setattr(td, "state_kernel", lambda *arguments: kernel(*arguments) * 0.9)
    failed = fails()
    assert "J 1 = (1 - alpha (1 - gamma)) 1" in failed
    assert "never-left state moves with w, a kernel combination" not in failed  # w does not see a factor


def test_a_target_head_without_shift_is_found(monkeypatch):
    pytest.importorskip("torch")
    from ictd import dual_head

    monkeypatch.setattr(dual_head, "shift_left", lambda Y: Y)
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

    step = temporal_shift.tsm_step
    monkeypatch.setattr(temporal_shift, "tsm_step", lambda Z, V, A, gamma: step(Z, V, A, 1.0))
    failed = fails()
    assert {
        "shift-module layers = weighted softmax TD",
        "dual head = shift module, full random A and V",
        "shift module forgets it after one layer",
    } <= failed
    assert "dual-head layers = weighted softmax TD" not in failed


def test_the_norm_bound_can_fail(monkeypatch):
    from ictd import convergence

    matrix = convergence.iteration_matrix
    monkeypatch.setattr(convergence, "iteration_matrix", lambda *arguments: 3 * matrix(*arguments))
    failed = fails()
    assert {text for text in CLAIM_TEXTS if text.startswith("norm bound on J")} <= failed
    assert {"gamma ||P||_nu < 1, alpha <= 1: radius of J below 1", "balanced attention: radius of J below 1"} <= failed


def test_a_bound_that_is_too_large_is_found(monkeypatch):
    from ictd import convergence

    bound = convergence.norm_bound
    monkeypatch.setattr(convergence, "norm_bound", lambda *arguments: bound(*arguments) + 0.01)
    assert "norm bound on J, any alpha; attained" in fails()


def test_a_wrong_reversing_distribution_is_found(monkeypatch):
    from ictd import convergence

    monkeypatch.setattr(convergence, "reversing_distribution", lambda M: np.full(len(M), 1 / len(M)))
    failed = fails()
    assert "kernel is reversible with weights mu Z" in failed
    assert "norm bound on J, any alpha; attained" not in failed


def test_attention_that_is_not_balanced_is_found(monkeypatch):
    from ictd import convergence

    def softmax_only(weights, X):
        return kernels.softmax_kernel(X, X, counts=weights)

    monkeypatch.setattr(convergence, "balanced_kernel", softmax_only)
    assert "balanced attention: radius of J below 1" in fails()


def test_a_limit_that_is_not_certainty_equivalence_is_found(monkeypatch):
    solve = empirical.certainty_equivalence
    monkeypatch.setattr(td, "certainty_equivalence", lambda model, gamma: solve(model, gamma / 2))
    assert {"certainty equivalence is a fixed point", "deep limit = certainty equivalence, sharp one-hot"} <= fails()


def test_not_a_number_is_a_failure(monkeypatch):
    claim = verify.Claim("none", "ours", lambda case: np.nan)
    monkeypatch.setattr(verify, "CLAIMS", (claim,))
    (result,) = verify.run(2)
    assert result.status == "FAIL"


def test_relative_error_is_relative_to_the_largest_entry_of_each_layer():
    assert verify.relative_error([[0.0, 0.1]], [[0.0, 0.0]]) == pytest.approx(0.1)
    assert verify.relative_error([[1.0, 200.0]], [[0.0, 200.0]]) == pytest.approx(1 / 200)
    assert verify.relative_error([[0.0], [300.0]], [[0.5], [200.0]]) == pytest.approx(0.5)


def test_the_table_names_every_claim_and_marks_failures():
    claim = verify.CLAIMS[0]
    results = [
        verify.Result(claim, 3, 2e-14, "ok"),
        verify.Result(claim, 3, 0.5, "FAIL"),
        verify.Result(claim, 0, np.nan, "skipped"),
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
