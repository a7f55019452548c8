"""One run in a folder: begun, or continued, and finished."""

import contextlib

from ictd import pretrain
from ictd._arguments import declare
from ictd.runs.arguments import COMPUTING, RUN
from ictd.runs.folder import CHECKPOINT, RunError, begin, check, finish, locked, read_config
from ictd.runs.saved import read


@declare(**RUN, **COMPUTING)
def run(
    folder,
    config,
    seeds,
    *,
    sample=None,
    threads=1,
    force=False,
    progress=False,
    checkpoint_seconds=5.0,
    report=None,
):
    """Run `pretrain.pretrain` in a folder, or go on with it.

    Parameters
    ----------
    folder : str or Path
        New, empty, or with an unfinished run of the same settings.
    config : pretrain.Config
    seeds : sequence of int
    sample : callable, optional
        A task distribution of your own, as in `pretrain.pretrain`.
    threads : int
        Threads of torch, up to 1024.
    force : bool
        Remove a run that is there and start anew.
    progress : bool
        As in `pretrain.pretrain`.
    checkpoint_seconds : float
        As in `pretrain.pretrain`.
    report : callable, optional
        Called with a line of text if the run goes on from what is there.

    Returns
    -------
    SavedRun

    Raises
    ------
    RunError, CheckpointError
        The folder or its checkpoint cannot be used; they are left as they are.
    ValueError, TypeError
        Bad arguments, before anything is written.
    OSError
        A file cannot be written.
    """
    found = check.trusted(folder, config, seeds, threads, force, sample)
    if found != "finished" or force:
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), torch_threads(threads):
        # Another process may have been at work until now
        found = begin.trusted(folder, config, seeds, threads, pretrain.versions(), force, sample)
        if found == "finished":
            raise RunError(f"{folder} holds this run already, finished")
        if found == "begun" and report:
            report(f"going on with the run in {folder}{_other_versions(folder)}")
        result = pretrain.pretrain(
            config,
            seeds,
            sample,
            checkpoint_path=folder / CHECKPOINT,
            checkpoint_seconds=checkpoint_seconds,
            progress=progress,
        )
        finish(folder, result)
        return read(folder)


def _other_versions(folder):
    """A note for a run that was begun with other versions: it may differ in the last digits."""
    there = read_config(folder).get("versions")
    there = there if isinstance(there, dict) else {}
    changed = [
        f"{name} {there.get(name)}" for name, version in pretrain.versions().items() if there.get(name) != version
    ]
    return f"; it was begun with {', '.join(changed)}, so it may differ in the last digits" if changed else ""


@contextlib.contextmanager
def torch_threads(threads):
    """Let torch work with so many threads for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
