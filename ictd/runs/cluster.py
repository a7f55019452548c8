"""Runs on the workers of a Dask cluster. Workers send arrays back and need no disk in common with the client."""

import logging
import tempfile
import time
from pathlib import Path

from ictd import _extras, pretrain
from ictd.pretrain.identity import function_of
from ictd.runs.folder import CHECKPOINT


class ClusterError(RuntimeError):
    """The cluster cannot be used."""


def work(config, seeds, checkpoint_bytes, threads, versions, tasks=None):
    """One run on a worker.

    Parameters
    ----------
    config, seeds
        As in `pretrain.pretrain`.
    checkpoint_bytes : bytes or None
        Content of a checkpoint to go on from.
    threads : int
        Threads of torch.
    versions : dict
        Those of the client.
    tasks : dict or None
        `pretrain.identity.origin` of the function that draws the tasks: it is imported here.

    Returns
    -------
    result : pretrain.Result
    checkpoint : bytes
        The last one.
    """
    import torch

    if versions["ictd"] != pretrain.versions()["ictd"]:  # a worker that joined late
        raise ClusterError(_other_version("a worker", pretrain.versions()["ictd"], versions["ictd"]))
    try:
        sample = function_of(tasks)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClusterError(f"a worker cannot import {tasks['function']} as it is in this process: {error}") from None
    torch.set_num_threads(threads)  # and not back: another run may be in another thread of this worker
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / CHECKPOINT
        if checkpoint_bytes is not None:
            path.write_bytes(checkpoint_bytes)
        # Written at the end only: a worker that dies takes its disk along
        result = pretrain.pretrain(config, seeds, sample, checkpoint_path=path, checkpoint_seconds=1e9)
        return result, path.read_bytes()


def connect(address, patience):
    """A connection to a scheduler whose workers have the same ictd as this process.

    Parameters
    ----------
    address : str
        Such as tcp://host:8786.
    patience : float
        Seconds to wait for the scheduler, and as long again for a worker.

    Returns
    -------
    Cluster
        A context manager.

    Raises
    ------
    ClusterError
        distributed is not installed, nothing answers, there is no worker, or versions differ.
    """
    try:
        import distributed
    except ModuleNotFoundError:
        cure = _extras.cure("distributed")
        raise ClusterError(f"a cluster needs distributed, which is not installed: {cure}") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said in our own words
    try:
        distributed.comm.get_address_host_port(distributed.comm.normalize_address(address), strict=True)
        client = distributed.Client(address, timeout=patience, set_as_default=False)
    except (OSError, TimeoutError, ValueError, distributed.TimeoutError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ClusterError(f"no scheduler answers at {address} within {patience:g} s: {reason}") from None
    cluster = Cluster(client, address, patience)
    try:
        cluster.check()
    except BaseException:
        cluster.close()
        raise
    return cluster


class Cluster:
    """A connection to a scheduler; see `connect`."""

    def __init__(self, client, address, patience):
        self.client, self.address, self.patience = client, address, patience
        self.futures = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Cancel what is not done, and leave; the cluster stays."""
        from distributed import TimeoutError as Late

        try:
            if self.client.status == "running" and self.futures:
                self.client.cancel(list(self.futures), force=True)
            self.client.close(timeout=5)
        except (OSError, TimeoutError, Late):
            pass  # the scheduler has gone

    def check(self):
        """Wait for a worker, and compare versions of all."""
        from distributed import TimeoutError as Late

        try:
            self.client.wait_for_workers(1, timeout=self.patience)
        except (TimeoutError, Late):
            raise ClusterError(f"the scheduler at {self.address} has no workers after {self.patience:g} s") from None
        mine = pretrain.versions()

        def versions():  # inside, so that it travels as code: ictd may be missing on a worker
            try:
                import ictd

                return ictd.__version__
            except ImportError:
                return None

        for worker, version in sorted(self.client.run(versions).items()):
            if version != mine["ictd"]:
                raise ClusterError(_other_version(f"the worker at {worker}", version, mine["ictd"]))

    def results(self, jobs, threads, tasks=None):
        """Yield (name, outcome) as runs are done.

        A run whose worker dies is started again on another one, up to the limit of the scheduler
        (``distributed.scheduler.allowed-failures``).

        Parameters
        ----------
        jobs : dict of str to (config, seeds, checkpoint)
            As `work` takes them.
        threads : int
        tasks : dict or None
            As `work` takes it.

        Yields
        ------
        name : str
        outcome : (Result, bytes) or Exception

        Raises
        ------
        ClusterError
            The scheduler or all workers are gone for longer than the patience.
        """
        versions = pretrain.versions()
        waiting, seen = list(jobs), time.monotonic()
        while waiting or self.futures:
            if self._has_workers():
                seen = time.monotonic()
                for name in waiting:
                    self.futures[self.client.submit(work, *jobs[name], threads, versions, tasks, pure=False)] = name
                waiting = []
            elif time.monotonic() - seen > self.patience:
                raise ClusterError(
                    f"the cluster at {self.address} has had no workers for {self.patience:g} s; what is finished is "
                    f"saved, and the same command goes on with the rest"
                )
            for future in [future for future in self.futures if future.done()]:
                name = self.futures.pop(future)
                if future.status == "cancelled":  # the scheduler has gone, or forgot it in a restart
                    waiting.append(name)
                else:
                    yield name, self._outcome(future)
            time.sleep(0.05)

    def _outcome(self, future):
        try:
            return future.result(timeout=self.patience)
        except Exception as error:
            return error

    def _has_workers(self):
        if self.client.status != "running":
            return False
        try:
            return bool(self.client.scheduler_info()["workers"])
        except Exception:
            return False


def _other_version(who, theirs, mine):
    what = f"has ictd {theirs}" if theirs else "has no ictd"
    return f"{who} {what}, and this process has ictd {mine}: install the same version on both"
