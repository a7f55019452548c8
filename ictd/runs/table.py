"""Finished runs and sweeps as text."""

from ictd import _text
from ictd.pretrain.pattern import SUCCESS_COSINE

REFERENCES = "constant", "certainty_equivalence", "constructed"
# Columns of a sweep, and the numbers of `saved.SavedRun.numbers` in them.
COLUMNS = (
    ("value error", "value_error_median"),
    ("constant", "value_error_constant"),
    ("cert. equiv.", "value_error_certainty_equivalence"),
    ("constructed", "value_error_constructed"),
    ("diagonality", "diagonality_end"),
    ("NEU end", "neu_end"),
    ("seconds", "seconds"),
)


def of_run(run):
    """The main numbers of a `saved.SavedRun`."""
    numbers, config, sample = run.numbers(), run.config, run.sample
    n_seeds = f"of {numbers['seeds']} seeds"
    short = {name: _short(value) for name, value in numbers.items()}
    lines = [
        ("value error", "median", f"{'min':>8} {'max':>8}"),
        ("  trained", short["value_error_median"], f"{short['value_error_min']:>8} {short['value_error_max']:>8}"),
        *((f"  {name.replace('_', ' ')}", short[f"value_error_{name}"], "") for name in REFERENCES),
        ("weights ~ (1,1,-1), A ~ I", str(numbers["pattern"]), f"{n_seeds} (cosines > {SUCCESS_COSINE:g})"),
        ("mean diagonality", short["diagonality_start"], f"-> {short['diagonality_end']}"),
        *(
            (f"NEU loss, {when}", short[f"neu_{when}"],
             f"+- {short[f'neu_{when}_standard_error']} (standard error of a seed's estimate)")
            for when in ("start", "end")
        ),
        ("diverged", str(numbers["diverged"]), n_seeds),
    ]  # fmt: skip
    stopped = [
        f"  seed {seed} stopped at step {step}, where its numbers were no longer finite"
        for seed, step in zip(run.summary["seeds"], run.history["diverged_at"])
        if step >= 0
    ]
    threads = run.summary["threads"]
    return "\n".join(
        [
            f"{seeds_text(run.summary['seeds'])}, {config['n_steps']} steps, objective {config['objective']}: gamma "
            f"{config['gamma']:g}, {config['n_layers']} layers, {config['n_states']} states, {config['dim']} features "
            f"({f'tasks of {sample}' if sample else config['features']})",
            "",
            *_text.table(lines, "<><", gap=" "),
            *stopped,
            f"{numbers['seconds']:.1f} s of computing, {threads} thread{'s' if threads > 1 else ''}",
        ]
    )


def of_sweep(rows, name=str, text=lambda field, value: str(value)):
    """The rows of a sweep: what varies, then medians over the seeds that did not diverge.

    Parameters
    ----------
    rows : list of dict
        As `sweep.sweep` gives them.
    name : callable
        Gives the title of the column for a field of `pretrain.Config`.
    text : callable
        Gives the text for a field and its value.
    """
    lines = [[name(field) for field in rows[0]["settings"]] + ["pattern"] + [title for title, _ in COLUMNS]]
    for row in rows:
        line = [text(field, value) for field, value in row["settings"].items()]
        if row["status"] == "finished":
            line += [f"{row['pattern']}/{row['seeds']}"] + [_short(row[key]) for _, key in COLUMNS]
        else:
            line += [row["status"]] + [""] * len(COLUMNS)
        lines.append(line)
    return "\n".join(_text.table(lines, ">" * len(lines[0])))


def _short(number):
    return "-" if number is None else f"{number:.3g}"


def seeds_text(seeds):
    """How many seeds, and which, in words."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if len(seeds) > 1 and all(later == seed + 1 for seed, later in zip(seeds, seeds[1:])):
        return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
    return f"{len(seeds)} seeds ({', '.join(map(str, seeds)) or 'none'})"
