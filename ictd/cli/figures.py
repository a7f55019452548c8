"""``ictd figures``: the figures of finished runs, from their folders."""

from ictd import _extras, runs
from ictd.cli import console, training

HELP = """\
Draw the figures of a finished run, or of all finished runs of a sweep, from their files: figure-*.svg in the
folder of each run, and figure-overview.svg in that of a sweep. Needs matplotlib, not torch.
"""

EXAMPLES = """\
examples:
  ictd figures runs/a
  ictd figures runs/depth --force      draw them all again

Figures that exist are kept unless --force is given. Exit status: 0 done, also if all figures exist, 2 wrong
use, no finished run, or files that cannot be read or written.
"""


def add_arguments(parser):
    """Add the options of the command."""
    parser.add_argument("folder", type=console.folder_path, metavar="DIR", help="folder of a run or a sweep")
    parser.add_argument("--force", action="store_true", help="replace figures that exist")


def run(options):
    """Draw, say what was drawn, and return the exit status."""
    folder = options.folder
    if not _extras.installed("matplotlib"):
        raise console.Refusal(f"figures need matplotlib, which is not installed: {_extras.cure('matplotlib')}")
    with training.refusals(folder):
        try:
            from ictd.runs import figures

            written, kept, notes = figures.write(folder, overwrite=options.force)
        except (runs.RunError, OSError):
            raise
        except Exception as error:  # of matplotlib, its fonts, its settings
            raise console.Refusal(f"{folder}: figures cannot be drawn ({console.one_line(error)})") from None
    for note in notes:
        console.say(f"note: {note}")
    if not written:
        print(f"{folder}: all {kept} figures exist (--force draws them again)")
        return 0
    kept = f", {kept} exist already (--force draws them again)" if kept else ""
    count = "1 figure" if len(written) == 1 else f"{len(written)} figures"
    print(f"{count} drawn in {folder}{kept}")
    return 0
