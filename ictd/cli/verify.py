"""``ictd verify``: the claims of the book, checked on random instances."""

from ictd import _extras
from ictd.cli import console

HELP = """\
Check the equivalences of the book on random instances: random processes with 2 to 12 states, 1 to 8
features, up to 60 transitions, discount up to 0.99, up to 50 layers, score matrices that are not
symmetric. Prints the largest relative error of each claim, |difference| / max(1, |values|). Claims
about Transformer layers need torch; without it they are skipped, and the command says so.
"""

EXAMPLES = """\
examples:
  ictd verify
  ictd verify --instances 200 --seed 1

Exit status: 0 no claim failed (skipped claims do not count), 1 a claim failed, 2 wrong use or no output.
"""


def add_arguments(parser):
    """Add the options of the command."""
    parser.add_argument(
        "--instances",
        type=console.integer(1, 100_000),
        default=50,
        metavar="N",
        help="instances per claim (default 50)",
    )
    parser.add_argument("--seed", type=console.integer(0, 2**63), default=0, metavar="S", help="their seed (default 0)")


def run(options):
    """Check, print, and return the exit status."""
    with console.loading():
        from ictd.claims import verify

        problem = _extras.torch_problem()
    results = verify.run(options.instances, options.seed)
    print(verify.table(results))
    failed = [result for result in results if result.status == "FAIL"]
    skipped = [result for result in results if result.status == "skipped"]
    print()
    if skipped:
        print(
            f"SKIPPED: {len(skipped)} of {len(results)} claims need torch, which {problem}. "
            f"Install it with: {_extras.cure('torch')}"
        )
    if failed:
        print(f"FAILED: {len(failed)} of {len(results)} claims")
        return 1
    held = len(results) - len(skipped)
    print(f"{held} claims hold on {options.instances} random instances each (seed {options.seed}).")
    return 0
