"""``ictd pretrain``: one run, all seeds at once, in a folder."""

from ictd import runs
from ictd.cli import console, settings, tasks, training
from ictd.runs.folder import CHECKPOINT

HELP = """\
Pretrain a softmax Transformer on random tasks, one model for each seed, all seeds at once, and compare it
with predictors that know the algorithm: certainty equivalence, and the model with the paper's parameters.
"""

EXAMPLES = f"""\
examples:
  ictd pretrain --out runs/a                                    20 seeds at gamma 0.5, half a minute
  ictd pretrain --out runs/b --gamma 0.9 --layers 10 --steps 1500
  ictd pretrain --out runs/c --features one_hot --seeds 5 --first-seed 100
  ictd pretrain --out runs/d --states 4 --dim 2 --layers 2 --context 20 --steps 60 --seeds 3   a few seconds
  ictd pretrain --out runs/e --tasks mytasks:draw               tasks drawn by a function of your own

The folder DIR gets
  config.json      settings, seeds, versions
  checkpoint.npz   written every few seconds: the same command goes on from it, after Ctrl-C or a crash, and
                   the history is the same bit for bit on the same machine with as many threads
  history.npz      for numpy.load: step (R,), value_weights (R, K, 1, 3), score_matrix (R, K, 1, d, d),
                   cosine_value_weights, cosine_score_matrix, diagonality_mean, diagonality_min (R, K, 1),
                   value_error, neu, neu_standard_error, loss (R, K), diverged_at, seeds (K,) for R records and
                   K seeds; L instead of 1 with --per-layer; with independent heads also target_weights and
                   target_score_matrix
  figure-*.svg     weights, score matrix, diagonality, value error, NEU loss (need matplotlib)
  summary.json     main numbers of every seed; written last: a folder with it is finished

In Python, ictd.pretrain.pretrain(Config(...), seeds, checkpoint_path="DIR/checkpoint.npz") gives the trained
models of a finished folder at once, and ictd.runs.read("DIR") its numbers without torch.

{tasks.HELP}
A seed whose numbers are no longer finite stops, with a warning; the others go on.
Exit status: 0 done, 1 all seeds diverged, 2 wrong use, or a file that cannot be read or written,
130 interrupted by Ctrl-C.
"""


def add_arguments(parser):
    """Add the options of the command."""
    parser.usage = "ictd pretrain --out DIR [options]"
    training.add_arguments(parser)
    settings.add_arguments(parser)


def run(options):
    """Train, print, and return the exit status."""
    with training.settings_in_words():
        config = settings.config(**{field: value[0] for field, value in settings.values(options).items()})
    folder, seeds = options.out, training.seeds(options)
    try:
        with tasks.sampler(options) as sample, training.refusals(folder):
            found = runs.check(folder, config, seeds, options.threads, options.force, sample)
            if found == "finished" and not options.force:
                words = "holds this run already, finished; pass --force to remove it and run it again"
                raise console.Refusal(f"{folder} {words}")
            training.need_torch()
            result = runs.run(
                folder,
                config,
                seeds,
                sample=sample,
                threads=options.threads,
                force=options.force,
                progress=True,
                checkpoint_seconds=options.save_every,
                report=console.say,
            )
    except KeyboardInterrupt:
        saved = (folder / CHECKPOINT).exists()
        what = "the checkpoint is saved, and" if saved else "there is no checkpoint yet:"
        console.say(f"\ninterrupted; {what} the same command goes on with {folder}")
        return 130
    print(result.table())
    print(f"saved in {folder}")
    training.write_figures(folder)
    diverged = [seed for seed, alive in zip(result.summary["seeds"], result.alive) if not alive]
    which = f": {', '.join(map(str, diverged))}"
    return 1 if training.all_diverged(len(diverged), len(result.alive), which=which) else 0
