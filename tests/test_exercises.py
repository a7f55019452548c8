"""Exercises: right answers of any style pass, wrong answers get the right reason, and `check` prints it once."""

import contextlib
import os
import re
import subprocess
import sys
import warnings
from importlib import import_module

import nbformat
import numpy as np
import pytest
from answers import ANSWERS, RIGHT, WRONG, ask, cast, through, verdict_of
from answers import CHAPTERS as WITH_EXERCISES
from book_site import notebooks
from wrong_weighted_softmax_td import late_mask

from ictd import exercises
from ictd.exercises import _checking, check

pytestmark = pytest.mark.long

EXERCISE = re.compile(r"^`{3,}\{exercise\}.*?:label: (\S+)", re.M | re.S)
SOLUTION = re.compile(r"^````\{solution\} (\S+)\n(.*?)^````$", re.M | re.S)
PYTHON = re.compile(r"^(```|~~~)python\n(.*?)^\1$", re.M | re.S)


def chapters():
    return {path.stem: nbformat.read(path, as_version=4) for path in notebooks()}


CHAPTERS = chapters()


def markdown(chapter):
    return "\n\n".join(cell.source for cell in CHAPTERS[chapter].cells if cell.cell_type == "markdown")


def asked(chapter):
    """Names of the exercises that the chapter's cells check."""
    code = "\n".join(cell.source for cell in CHAPTERS[chapter].cells if cell.cell_type == "code")
    return re.findall(r'check\("([\w.]+)"', code)


@pytest.mark.parametrize("chapter", WITH_EXERCISES)
def test_every_exercise_has_a_solution_and_a_check(chapter):
    text = markdown(chapter)
    assert EXERCISE.findall(text) == [label for label, _ in SOLUTION.findall(text)]
    assert sorted(asked(chapter)) == sorted(name for name in exercises.names() if name.startswith(chapter + "."))


@pytest.mark.parametrize("chapter", WITH_EXERCISES)
def test_every_printed_solution_is_right(chapter):
    """Each code block in a solution or a diagnosis runs after the chapter's imports and is accepted by its check."""
    imports = next(cell.source for cell in CHAPTERS[chapter].cells if cell.cell_type == "code")
    verdicts = {}

    def recorded(name, answer):
        verdicts[name] = ask(name, answer)
        return verdicts[name]

    for _, block in PYTHON.findall(markdown(chapter)):
        namespace = {}
        exec(imports, namespace)
        exec(block, {**namespace, "check": recorded})
    assert sorted(verdicts) == sorted(asked(chapter))
    assert {name: str(verdict) for name, verdict in verdicts.items() if not verdict} == {}


@pytest.mark.parametrize("name", exercises.names())
def test_dots_count_as_no_answer(name):
    verdict = ask(name, ...)
    assert not verdict and verdict.state == exercises.OPEN


def spoken(answer):
    """An id that is the same in every process."""
    return "function" if callable(answer) else str(answer)


@pytest.mark.parametrize("name", exercises.names())
@pytest.mark.parametrize(
    "answer", [None, "text", [], {}, np.nan, np.full(3, np.inf), lambda *_: None, lambda: 0, 7], ids=spoken
)
def test_nonsense_gets_a_reason(name, answer):
    verdict = ask(name, answer)
    assert not verdict and str(verdict).startswith("✗ Not yet: ") and len(str(verdict)) > 30


class Hostile:
    """An object that fails whenever it is looked at."""

    def fail(self, *arguments, **options):
        raise RuntimeError("do not look")

    __array__ = __float__ = __repr__ = __str__ = __len__ = fail


class Unspeakable(Exception):
    __str__ = Hostile.fail


def raising(error):
    def function(*_):
        raise error

    return function


AWKWARD = {
    "complex numbers": np.zeros(3) + 3j,
    "text": ["1", "2", "3"],
    "huge integers": [10**400] * 3,
    "a ragged list": [[1], [1, 2], 3],
    "masked numbers": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "dates": np.array(["2020-01-01"] * 3, "M8[D]"),
    "a hostile object": Hostile(),
    "hostile entries": [Hostile()] * 3,
}


@pytest.mark.parametrize("name", exercises.names())
@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.filterwarnings("error")
def test_awkward_answers_get_a_reason(name, kind):
    for answer in (AWKWARD[kind], lambda *_: AWKWARD[kind]):
        assert re.search("^✗ Not yet: .*(should|give a list|not one of the names)", str(ask(name, answer)))


def test_tensors_that_carry_a_gradient_get_a_reason():
    torch = pytest.importorskip("torch")
    ones = torch.ones(3, requires_grad=True)
    assert "should be real numbers; it is a Tensor" in str(check("policy_evaluation.circle", ones))
    assert "should be real numbers; it is a Tensor" in str(check("policy_evaluation.batch_td", lambda *_: ones))


def test_fractions_are_numbers():
    from decimal import Decimal
    from fractions import Fraction

    assert check("policy_evaluation.circle", [Fraction(27, 26), Fraction(9, 26), Fraction(-153, 26)])
    assert "rewards" in str(check("policy_evaluation.circle", [Decimal(3), Decimal(0), Decimal(-6)]))


@pytest.mark.parametrize(
    "error, words",
    [(SystemExit(), "SystemExit"), (Unspeakable(), "Unspeakable"), (MemoryError("no"), "MemoryError: no")],
)
def test_whatever_the_reader_s_function_raises_is_the_reason(error, words):
    assert str(check("weighted_softmax_td.kernel", raising(error))) == f"✗ Not yet: your function raised {words}"


def test_an_error_of_many_lines_becomes_one_short_line():
    verdict = str(check("weighted_softmax_td.kernel", raising(ValueError("one\n\n  two\n" + 999 * "long "))))
    assert "raised ValueError: one two long long" in verdict
    assert "\n" not in verdict and len(verdict) < 300


def test_a_sum_that_stops_early_is_not_blamed_on_single_precision_alone():
    cut = check("policy_evaluation.bonus", lambda v, c, g: v + sum(c * g**k for k in range(100)))
    assert "right up to rounding" in str(cut) and "stop no sum" in str(cut)


def test_a_right_real_part_is_not_enough():
    def tilted(a, b, c, g):
        return 1 + a - b * (1 + g) + g * c + 3j

    assert "should be real numbers" in str(check("weighted_softmax_td.third_eigenvalue", tilted))


@pytest.mark.parametrize(
    "result", [None, "overflow", [[1], [1, 2]], Hostile()], ids=["None", "text", "ragged", "hostile"]
)
def test_a_kernel_must_be_numbers_at_large_scores_too(result):
    def kernel(scores, counts):
        return late_mask(scores, counts) if np.abs(scores).max() < 100 else result

    assert "your kernel at scores of 10,000 should" in str(check("weighted_softmax_td.kernel", kernel))


def test_a_kernel_holds_no_nan_for_a_source_that_was_never_left():
    def kernel(scores, counts):
        weights = late_mask(np.where(counts > 0, scores, -1e300), counts)
        return np.where(counts > 0, weights, np.nan) if scores[0, 2] == 5000 else weights

    assert "should not notice" in str(check("weighted_softmax_td.kernel", kernel))


@pytest.mark.filterwarnings("error")
def test_checks_do_not_depend_on_the_reader_s_settings():
    with np.errstate(all="raise"):
        assert check("weighted_softmax_td.kernel", lambda s, c: late_mask(np.where(c > 0, s, -1e300), c))
        assert "blow up" in str(check("weighted_softmax_td.faster_steps", np.full(20, 1e200)))


@pytest.mark.parametrize("name", [np.array(["a", "b"]), None, 3, Hostile()], ids=["array", "None", "3", "hostile"])
def test_a_name_is_text(name):
    with pytest.raises(ValueError, match="name must be one of .*policy_evaluation"):
        check(name, 1)


def test_an_error_in_the_reader_s_function_is_the_reason():
    def broken(*_):
        raise IndexError("list index out of range")

    assert "raised IndexError: list index out of range" in str(check("weighted_softmax_td.kernel", broken))


def test_a_function_that_overwrites_its_arguments_is_not_accepted():
    def in_place(values, kernel, reward, transition, gamma, step_size):
        values += step_size * kernel @ (reward + gamma * transition @ values - values)
        return values

    assert "overwrites its argument number 1" in str(check("weighted_softmax_td.state_step", in_place))


def test_an_unknown_exercise_is_an_error_with_the_names():
    with pytest.raises(ValueError, match="weighted_softmax_td.kernel"):
        check("weighted_softmax_td.9", 1)


# ------------------------------------------------------------------------------------ right and wrong answers


def rows(wanted):
    """Those of `ANSWERS` that are wanted, by number, with the exercise as the name of the test."""
    numbers = [number for number, answer in enumerate(ANSWERS) if wanted(number, *answer)]
    return pytest.mark.parametrize("number", numbers, ids=lambda number: f"{ANSWERS[number][0]}-{number}")


def is_right(number, *_):
    return number < len(RIGHT)


def is_first(number, name, _):
    """The first right answer to its exercise, or the first wrong one."""
    return name not in [other for other, _ in (ANSWERS[:number] if is_right(number) else ANSWERS[len(RIGHT) : number])]


@rows(lambda number, *_: not is_right(number))
def test_a_typical_mistake_gets_its_own_reason(number):
    verdict = verdict_of(number)
    assert not verdict and WRONG[number - len(RIGHT)][2] in str(verdict)


@rows(is_right)
def test_right_answers_of_every_style_are_accepted(number):
    assert str(verdict_of(number)).startswith("✓ Right.")


@pytest.mark.parametrize("name", exercises.names())
def test_every_exercise_refuses_five_kinds_of_mistakes_and_accepts_three_styles(name):
    verdicts = {str(verdict_of(number)): is_right(number) for number, answer in enumerate(ANSWERS) if answer[0] == name}
    assert list(verdicts.values()).count(False) >= 5
    assert sum(other == name for other, _ in RIGHT) >= 3


SINGLE = "right up to rounding: compute in float64"


@rows(lambda number, name, answer: is_right(number) and callable(answer))
def test_a_right_function_of_single_precision_gets_no_false_reason(number):
    name, answer = ANSWERS[number]
    verdict = ask(name, through(answer, np.float32, np.float32))
    assert verdict or SINGLE in str(verdict)


@rows(lambda number, name, answer: is_right(number) and is_first(number, name, answer) and callable(answer))
def test_what_was_single_precision_on_the_way_gets_no_false_reason(number):
    name, answer = ANSWERS[number]
    verdict = ask(name, through(answer, np.float32, np.float64))
    assert verdict or SINGLE in str(verdict)


def programs(name):
    """The wrong programs that a check knows, each with its reason."""
    module, found, real = import_module(f"ictd.exercises.{name.split('.')[0]}"), [], _checking.judge_function

    def spy(answer, right, cases, mistakes, *rest):
        found.extend(_checking._pairs(mistakes))
        return real(answer, right, cases, mistakes, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "judge_function", spy, raising=False)
        assert ask(name, next(answer for other, answer in RIGHT if other == name))
    return found


@pytest.mark.parametrize("name", exercises.names())
def test_hidden_instances_tell_all_known_mistakes_apart(name):
    """Two mistakes that agree on every instance could not be named, and would be found here."""
    for reason, program in programs(name):
        assert reason in str(ask(name, program))


# ----------------------------------------------------------------------------------------- the reader's settings


@contextlib.contextmanager
def strange_settings():
    """Global settings that a reader may have made long before."""
    torch = pytest.importorskip("torch")
    dtype = torch.get_default_dtype()
    printing = np.printoptions(precision=1, threshold=2, sign="+", legacy="1.13")
    with np.errstate(all="raise"), printing, warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("error")
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        try:
            yield
        finally:
            torch.set_default_device(None)
            torch.set_default_dtype(dtype)


@rows(lambda number, name, answer: is_right(number) or is_first(number, name, answer))
def test_the_reader_s_settings_change_no_verdict_and_no_word(number):
    usual = str(verdict_of(number))
    with strange_settings():
        assert str(ask(*ANSWERS[number])) == usual


@rows(lambda number, *_: not is_right(number))
def test_a_mistake_is_never_called_rounding_in_single_precision_and_strange_settings(number):
    name, answer = ANSWERS[number]
    answer = through(answer, np.float64, np.float32) if callable(answer) else cast(answer, np.float32)
    with strange_settings():
        verdict = ask(name, answer)
    assert not verdict and "up to rounding: compute" not in str(verdict)


# ------------------------------------------------------------------------------------------------ how it appears

LINE = "✗ Not yet: these are the rewards; a value also counts what comes later.\n"
CALL = 'check("policy_evaluation.circle", [3, 0, -6])'
SHOWN = {
    "the last line of a cell": CALL,
    "the middle of a cell": f"{CALL}\nx = 1",
    "an assignment": f"verdict = {CALL}",
    "print": f"print({CALL})",
    "print over two lines": f"print(\n    {CALL}\n)",
    "a condition": f"if {CALL}:\n    pass",
    "a loop": f"for _ in [1]: print({CALL})",
    "another name": f"from ictd.exercises import check as test; print({CALL.replace('check', 'test')})",
    "print in a line of its own": f"print(\n    'a'[1:],\n    {CALL},\n    sep='',\n)",
    "a text in print": f"print(str({CALL}))",
    "an f-string": f"print(f'{{{CALL}}}')",
    "a list, unpacked": f"print(*[{CALL}])",
    "a list in lines": f"print('\\n'.join(str({CALL}) for _ in [1]))",
    "a choice in print": f"print({CALL} if True else 1)",
    "print after it": f"{CALL}; print(end='')",
}


@pytest.mark.parametrize("source", SHOWN.values(), ids=SHOWN)
def test_a_script_shows_the_verdict_once(source, tmp_path):
    (tmp_path / "script.py").write_text(f"from ictd.exercises import check\n{source}\n", encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-X", "utf8", tmp_path / "script.py"], capture_output=True, encoding="utf-8", timeout=60
    )
    assert (run.stdout, run.stderr) == (LINE, "")


@pytest.mark.parametrize("source", [SHOWN[kind] for kind in ("an assignment", "print", "another name", "a loop")])
def test_a_command_shows_the_verdict_once(source):
    code = f"from ictd.exercises import check\n{source}"
    run = subprocess.run([sys.executable, "-X", "utf8", "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    assert (run.stdout, run.stderr) == (LINE, "")


@pytest.mark.parametrize(
    "source, shown", [(f"print(bool({CALL}))", "False"), (f"print('yes' if {CALL} else 'no')", "no")]
)
def test_print_of_something_else_comes_after_the_verdict(source, shown, capsys, tmp_path):
    (tmp_path / "script.py").write_text(source, encoding="utf-8")
    exec(compile(source, tmp_path / "script.py", "exec"), {"check": check})
    assert capsys.readouterr().out == f"{LINE}{shown}\n"


@pytest.mark.parametrize("source", SHOWN.values(), ids=SHOWN)
def test_a_notebook_shows_the_verdict_once(source, capsys):
    interactiveshell = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactiveshell.InteractiveShell()
    shell.run_cell("from ictd.exercises import check")
    capsys.readouterr()
    assert shell.run_cell(source, store_history=True).success
    shown = capsys.readouterr().out
    assert re.sub(r"Out\[\d+\]: ", "", shown) == LINE  # a kernel sends no empty output


def test_a_terminal_without_the_signs_still_gets_the_words(tmp_path):
    code = f"from ictd.exercises import check\n{CALL}"
    run = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", code],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert run.stdout.decode("ascii").strip() == LINE.strip().replace("✗", "?")


def test_the_verdict_of_a_list_of_checks_is_short(capsys):
    assert repr([check("policy_evaluation.bonus", ...)]) == "[<Verdict: open>]"
    assert capsys.readouterr().out.startswith("○ No answer yet")


def test_the_first_check_loads_its_chapter_only():
    code = f"import sys\nfrom ictd.exercises import check\n{CALL}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-X", "utf8", "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    loaded = set(run.stdout.split())
    chapters = {module.rpartition(".")[2] for module in loaded if module.startswith("ictd.exercises.")}
    assert {chapter for chapter in chapters if not chapter.startswith("_")} == {"policy_evaluation"}
    assert not loaded & {"torch", "matplotlib", "ictd.pretrain"}
