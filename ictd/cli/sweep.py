"""``ictd sweep``: a run at every point of a grid."""

from ictd.cli import console, settings, tasks, training
from ictd.runs import grid, table
from ictd.runs import sweep as sweeps

HELP = """\
Pretrain at every point of a grid. The options are those of 'ictd pretrain'; those marked with + take several
values, and the grid is their product. Each point is a folder in DIR as 'ictd pretrain' leaves it, with all
seeds. The same command again, also with more values, skips finished points and goes on with the others.
"""

EXAMPLES = f"""\
examples:
  ictd sweep --out runs/depth --gamma 0.5 0.9 --layers 5 10 20 --steps 1500
  ictd sweep --out runs/objectives --objective td td_query mc neu --seeds 10
  ictd sweep --out runs/heads --form tsm independent_heads --per-layer no yes
  ictd sweep --out runs/own --tasks mytasks:draw --layers 5 10
  ictd sweep --out runs/big --gamma 0.5 0.9 --layers 5 10 20 --scheduler tcp://host:8786

DIR gets a folder for each point, named after its settings, sweep.json (settings, status and main figures of
every point) and figure-overview.svg. A point that fails is reported and does not stop the others.

{tasks.HELP}
With --scheduler, points run on the workers of a Dask cluster (pip install 'ictd[cluster]'; start one with
'dask scheduler' and 'dask worker tcp://host:8786 --nthreads 1'). This process sends settings and writes what
comes back: the workers need ictd and the module of --tasks, but no common disk. A run whose worker dies
starts again on another one.

Exit status: 0 done, 1 a point failed or lost all its seeds, 2 wrong use, a cluster that cannot be used, or
files that cannot be read or written, 130 interrupted by Ctrl-C.
"""


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
        points = grid.grid(settings.values(options), settings.label, settings.config)
    folder, seeds = options.out, training.seeds(options)
    try:
        with tasks.sampler(options) as sample, training.refusals(folder):
            sweeps.check(folder, points, seeds, options.threads, options.force, sample)
            training.need_torch()
            rows = sweeps.sweep(
                folder,
                points,
                seeds,
                sample=sample,
                threads=options.threads,
                force=options.force,
                scheduler=options.scheduler,
                patience=30.0 if options.patience is None else options.patience,
                checkpoint_seconds=options.save_every,
                progress=True,
                report=console.say,
            )
    except KeyboardInterrupt:
        console.say(f"\ninterrupted; what is done is saved in {folder}, and the same command goes on from there")
        return 130
    print(table.of_sweep(rows, settings.title, settings.typed))
    print(f"saved in {folder}")
    finished = [row for row in rows if row["status"] == "finished"]
    failed = [row for row in rows if row["status"] != "finished"]
    if finished:
        training.write_figures(folder)
    for row in failed:
        console.say(f"error: {row['folder']}: {row['error']}")
    lost = [training.all_diverged(row["diverged"], row["seeds"], f"{row['folder']}: ") for row in finished]
    return 1 if failed or any(lost) else 0
