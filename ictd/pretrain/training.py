"""Pretraining on random tasks, all seeds at once, with checkpoints from which a killed run goes on."""

import contextlib
import signal
import sys
import threading
import time

from ictd import _checks, _files
from ictd._settings import torch_defaults
from ictd.pretrain.config import Config, check_seeds
from ictd.pretrain.sampling import check_sample
from ictd.pretrain.steps import Run


@torch_defaults()
def pretrain(config, seeds, sample=None, *, checkpoint_path=None, checkpoint_seconds=5.0, progress=False):
    """Train one model for each seed, all at once.

    Parameters
    ----------
    config : Config
    seeds : iterable of int
        Different and at least 0. A seed gives the initial parameters and the tasks of every step.
    sample : callable, optional
        A task distribution of your own, ``sample(count, rng) -> tasks.Tasks`` with leading shape (count,): tasks that
        are independent of each other, drawn from ``rng``, a numpy.random.Generator, and from nothing else, with
        ``n_states`` and ``dim`` as in ``config`` and with irreducible processes. It takes the place of ``family``,
        ``features`` and ``feature_scale``, which are left at their defaults, also for the tasks on which a run is
        measured. Files of a run name it and hold a hash of its source, so it must be a function at the top level of
        a module. What softmax cannot see of its features is not known: the cosine of the score matrix is that with
        the identity.
    checkpoint_path : str or Path, optional
        A file that is written every few seconds, at Ctrl-C and at the end. If it exists, the run goes on from
        it, and on the same machine with as many threads the history is the same bit for bit as without the break.
    checkpoint_seconds : float
        Time between checkpoints, at least 0.
    progress : bool
        Show a progress bar if the standard error stream is a terminal and tqdm is installed.

    Returns
    -------
    Result

    Raises
    ------
    ValueError, TypeError
        Bad arguments, before any work is done.
    CheckpointError
        The file is damaged, or belongs to other settings or to another ``sample``; it is left as it is.
    """
    _checks.instance("config", config, Config)
    seeds = check_seeds(seeds)
    checkpoint_seconds = _checks.real("checkpoint_seconds", checkpoint_seconds, low=0)
    progress = _checks.flag("progress", progress)
    path = None if checkpoint_path is None else _files.place("checkpoint_path", checkpoint_path)
    check_sample(sample, config)
    run = Run(config, seeds, sample)
    if path is not None and path.exists():
        run.restore(path)

    def save():
        if path is not None:
            run.save(path)

    saved, finished_before = time.monotonic(), run.finished
    with _Bar(run, progress) as bar, _late_interrupt() as interrupted:
        while run.advance():
            bar.update()
            if interrupted():
                break
            if time.monotonic() - saved >= checkpoint_seconds:
                save()
                saved = time.monotonic()
    if not finished_before:  # a finished run is only read, also where nothing can be written
        save()
    if interrupted():
        raise KeyboardInterrupt
    return run.result()


@contextlib.contextmanager
def _late_interrupt():
    """Let Ctrl-C wait for the end of a step, as half a step is no state to go on from; a second one does not wait."""
    came = []
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield lambda: False
        return

    def note(*_):
        came.append(True)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, usual)


class _Bar:
    """A progress bar where standard error is a terminal; it is there to be looked at: if it fails, the run goes on."""

    def __init__(self, run, wanted):
        self.bar = None
        with contextlib.suppress(Exception):  # no stream, a closed one, no tqdm, or one that does not work
            if wanted and sys.stderr.isatty():
                from tqdm import tqdm

                self.bar = tqdm(total=run.config.n_steps, initial=run.step, desc=f"{len(run.seeds)} seeds", unit="step")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._call("close")

    def update(self):
        """One step more."""
        self._call("update")

    def _call(self, what):
        if self.bar is not None:
            try:
                getattr(self.bar, what)()
            except Exception:  # the terminal has gone
                self.bar.disable, self.bar = True, None
