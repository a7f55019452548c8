"""``ictd sweep``: a run at every point of a grid."""

from ictd import _text
from ictd import sweep as sweeps
from ictd.cli import console, settings, training

HELP = """\
Pretrain at every point of a grid. The options are those of 'ictd pretrain'; those marked with + take several
values, and the grid is their product. Each point is a folder in DIR as 'ictd pretrain' leaves it, with all
seeds. The same command again, also with more values, skips finished points and goes on with the others.
"""

EXAMPLES = """\
examples:
  ictd sweep --out runs/depth --gamma 0.5 0.9 --layers 5 10 20 --steps 1500
  ictd sweep --out runs/objectives --objective td td_query mc neu --seeds 10
  ictd sweep --out runs/heads --form tsm independent_heads --per-layer no yes
  ictd sweep --out runs/big --gamma 0.5 0.9 --layers 5 10 20 --scheduler tcp://host:8786

DIR gets a folder for each point, named after its settings, sweep.json (settings, status and main figures of
every point) and figure-overview.svg. A point that fails is reported and does not stop the others.

With --scheduler, points run on the workers of a Dask cluster (pip install 'ictd[cluster]'; start one with
'dask scheduler' and 'dask worker tcp://host:8786 --nthreads 1'). This process sends settings and writes what
comes back: the workers need ictd, but no common disk. A run whose worker dies starts again on another one.

Exit status: 0 done, 1 a point failed or lost all its seeds, 2 wrong use, a cluster that cannot be used, or
files that cannot be read or written, 130 interrupted by Ctrl-C.
"""

COLUMNS = (
    ("value error", "value_error_median"),
    ("constant", "value_error_constant"),
    ("cert. equiv.", "value_error_certainty_equivalence"),
    ("constructed", "value_error_constructed"),
    ("diagonality", "diagonality_end"),
    ("NEU end", "neu_end"),
    ("seconds", "seconds"),
)


def add_arguments(parser):
    """Add the options of the command."""
    parser.usage = "ictd sweep --out DIR [options]"
    training.add_arguments(parser)
    parser.add_argument("--scheduler", metavar="ADDRESS", help="run on the Dask cluster with this scheduler")
    parser.add_argument(
        "--patience",
        type=console.real(low=0, low_open=True),
        metavar="SECONDS",
        help="how long to wait for scheduler and workers (default 30; needs --scheduler)",
    )
    settings.add_arguments(parser, several=True)


def run(options):
    """Train, print, and return the exit status."""
    if options.patience is not None and options.scheduler is None:
        raise console.Refusal("argument --patience: makes no sense without --scheduler")
    with training.settings_in_words():
        points = sweeps.grid(settings.values(options), settings.label, settings.config)
    folder, seeds = options.out, training.seeds(options)
    drawing = training.Drawing(folder)
    try:
        with training.refusals(folder):
            sweeps.check(folder, points, seeds, options.threads, options.force)
            training.need_torch()
            rows = sweeps.sweep(
                folder,
                points,
                seeds,
                threads=options.threads,
                force=options.force,
                scheduler=options.scheduler,
                patience=30.0 if options.patience is None else options.patience,
                checkpoint_seconds=options.save_every,
                progress=True,
                draw=drawing.of_run,
                draw_overview=drawing.of_sweep,
                report=console.say,
            )
    except KeyboardInterrupt:
        console.say(f"\ninterrupted; what is done is saved in {folder}, and the same command goes on from there")
        return 130
    print(table(rows))
    print(f"saved in {folder}")
    drawing.say_what_is_missing()
    failed = [row for row in rows if row["status"] != "finished"]
    for row in failed:
        console.say(f"error: {row['folder']}: {row['error']}")
    finished = [row for row in rows if row["status"] == "finished"]
    lost = [training.all_diverged(row["diverged"], row["seeds"], f"{row['folder']}: ") for row in finished]
    return 1 if failed or any(lost) else 0


def table(rows):
    """The table of a sweep as text: what varies, then medians over the seeds that did not diverge."""
    lines = [[settings.NAMES[field][2:] for field in rows[0]["settings"]] + ["pattern"] + [name for name, _ in COLUMNS]]
    for row in rows:
        line = [settings.typed(field, value) for field, value in row["settings"].items()]
        if row["status"] == "finished":
            line.append(f"{row['pattern']}/{row['seeds']}")
            line += ["-" if row[key] is None else f"{row[key]:.3g}" for _, key in COLUMNS]
        else:
            line += [row["status"]] + [""] * len(COLUMNS)
        lines.append(line)
    return "\n".join(_text.table(lines, align=">" * len(lines[0])))
