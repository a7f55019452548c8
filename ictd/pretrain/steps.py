"""The steps of a run, what is recorded between them, and the checkpoints from which it goes on.

What a seed draws in step t depends on (seed, t) only: neither on the other seeds nor on a restart.
"""

import dataclasses
import time

import numpy as np
import torch

from ictd import _checks, inputs, neu
from ictd._construction import WEIGHTS
from ictd.pretrain import checkpoint
from ictd.pretrain.config import record_shapes
from ictd.pretrain.identity import difference, identity, origin
from ictd.pretrain.measures import HeldOut, cosine, visible
from ictd.pretrain.parameters import initial_parameters, number_type
from ictd.pretrain.result import History, Result, versions
from ictd.pretrain.sampling import TRAIN, sample_tasks
from ictd.state_form import full_matrices, matrix_form

BETAS, MOMENTS = (0.9, 0.999), ("mean", "square")


class Run:
    """The state of a run: parameters, moments of Adam, step, and what was recorded."""

    def __init__(self, config, seeds, sample=None):
        self.config, self.seeds, self.sample = config, seeds, sample
        self.identity = identity(config, seeds, origin(sample))
        starts = [initial_parameters(config, seed) for seed in seeds]
        self.parameters = {
            name: torch.stack([start[name] for start in starts]).requires_grad_() for name in sorted(starts[0])
        }
        self.moments = {name: [torch.zeros_like(value)] * 2 for name, value in self.parameters.items()}
        self.step = 0
        self.records = []
        self.loss_sum = torch.zeros(len(seeds), dtype=torch.float64)
        self.loss_count = 0
        self.diverged_at = np.full(len(seeds), -1)
        self.seconds = 0.0
        self.record_steps = config.record_steps()
        self.held_out = HeldOut(config, sample)

    @property
    def finished(self):
        """Whether all steps are taken and recorded."""
        return self.step == self.config.n_steps and len(self.records) == len(self.record_steps)

    # ------------------------------------------------------------------------------------- one step

    def advance(self):
        """Record if it is time, then take one step; False at the end."""
        started = time.perf_counter()
        if len(self.records) < len(self.record_steps) and self.step == self.record_steps[len(self.records)]:
            self.records.append(self._record())
        done = self.step == self.config.n_steps
        if not done:
            self._train()
            self.step += 1
        self.seconds += time.perf_counter() - started
        return not done

    def _train(self):
        config = self.config
        loss = loss_of(config, self.parameters, *self._draw())
        # with one layer, an independent target head has no gradient
        gradients = torch.autograd.grad(
            loss.sum(), list(self.parameters.values()), allow_unused=True, materialize_grads=True
        )
        loss = loss.detach()
        norms = torch.stack([g.flatten(1).square().sum(dim=1) for g in gradients]).sum(dim=0).sqrt()
        factor = torch.clamp(config.clip / norms, max=1.0)  # also 1 where the gradient is 0
        cosine = (1 + np.cos(np.pi * self.step / config.n_steps)) / 2
        rate = config.learning_rate * (config.final_rate + (1 - config.final_rate) * cosine)
        updated = {
            name: adam(parameter.detach(), gradient * _along(factor, gradient), *self.moments[name], self.step, rate)
            for (name, parameter), gradient in zip(self.parameters.items(), gradients)
        }
        finite = torch.isfinite(loss) & torch.isfinite(norms)
        for parameter, *_ in updated.values():
            finite &= torch.isfinite(parameter).flatten(1).all(dim=1)
        alive = torch.from_numpy(self.diverged_at < 0)
        self.diverged_at[(alive & ~finite).numpy()] = self.step
        alive &= finite
        for name, (new, *moments) in updated.items():
            old = self.parameters[name].detach()  # a seed that diverged stays where it was
            self.parameters[name] = torch.where(_along(alive, old), new, old).requires_grad_()
            self.moments[name] = moments
        self.loss_sum += torch.where(alive, loss.double(), torch.nan)
        self.loss_count += 1

    def _draw(self):
        """The batch of a step, and a second one where the objective needs it; leading dimensions (K, T)."""
        config = self.config
        rngs = [np.random.default_rng([seed, self.step, TRAIN]) for seed in self.seeds]
        count = config.batch_size
        batch = sample_tasks(config, 2 * count if config.objective == "neu" else count, rngs, self.sample)
        longer = config.objective not in ("td", "mc")
        contexts = batch.sample(config.n_transitions + longer, rngs, config.reward_noise)
        if config.objective != "neu":
            return [(batch, contexts)]
        return [(batch[:, part], contexts[:, part]) for part in (slice(count), slice(count, None))]

    # ------------------------------------------------------------------------------------- the record

    def _record(self):
        config = self.config
        parameters = {name: value.detach() for name, value in self.parameters.items()}
        V, A = full_matrices(parameters, config.dim)
        weights, block = V[..., -1, -3:], A[..., : config.dim, : config.dim]
        entry = {"step": np.array(self.step), "value_weights": weights, "score_matrix": block}
        for name in ("target_weights", "target_score_matrix"):
            if name in parameters:
                entry[name] = parameters[name].clone()
        entry["cosine_value_weights"] = cosine(weights, torch.tensor(WEIGHTS), 1)
        projection = visible(config, self.sample)
        entry["cosine_score_matrix"] = cosine(projection @ block.double(), projection, 2)
        entry |= self.held_out.measure(parameters, block)
        mean = self.loss_sum / self.loss_count if self.loss_count else self.loss_sum * torch.nan
        self.loss_sum, self.loss_count = torch.zeros_like(self.loss_sum), 0
        entry["loss"] = mean
        return {name: np.array(value.numpy() if torch.is_tensor(value) else value) for name, value in entry.items()}

    def _recorded(self):
        """Names of what an entry holds: all of `History` but the targets' parameters where there are none."""
        names = [field.name for field in dataclasses.fields(History) if field.name != "diverged_at"]
        return [name for name in names if not name.startswith("target_") or name in self.parameters]

    def result(self):
        """The `Result` of a run that is at its end."""
        stacked = {name: np.stack([record[name] for record in self.records]) for name in self._recorded()}
        absent = {"target_weights": None, "target_score_matrix": None}
        return Result(
            self.config,
            self.seeds,
            History(**absent | stacked, diverged_at=self.diverged_at),
            {name: value.detach().numpy().copy() for name, value in self.parameters.items()},
            **self.held_out.references(),
            seconds=self.seconds,
            threads=torch.get_num_threads(),
            tasks=self.identity["tasks"],
        )

    # -------------------------------------------------------------------------------- checkpoints

    def save(self, path):
        """Write everything that the rest of the run depends on."""
        header = {
            "kind": "pretraining",
            **self.identity,
            "step": self.step,
            "loss_count": self.loss_count,
            "n_records": len(self.records),
            "seconds": self.seconds,
            "versions": versions(),
        }
        arrays = {"loss_sum": self.loss_sum.numpy(), "diverged_at": self.diverged_at}
        for name, parameter in self.parameters.items():
            arrays[f"parameters/{name}"] = parameter.detach().numpy()
            for key, moment in zip(MOMENTS, self.moments[name]):
                arrays[f"optimiser/{name}/{key}"] = moment.numpy()
        for name in self._recorded() if self.records else ():
            arrays[f"history/{name}"] = np.stack([record[name] for record in self.records])
        checkpoint.save(path, header, arrays)

    def restore(self, path):
        """Go on from a checkpoint of the same run."""
        header, arrays = checkpoint.load(path)
        if header.get("kind") != "pretraining":
            raise checkpoint.CheckpointError(f"{path} is no checkpoint of a pretraining run")
        try:
            self._compare(header, path)
            self.step = _checks.integer("step", header["step"], low=0)
            self.loss_count = _checks.integer("loss_count", header["loss_count"], low=0)
            self.seconds = _checks.real("seconds", header["seconds"], low=0)
            count = _checks.integer("n_records", header["n_records"], low=0)
            due = (self.record_steps < self.step).sum()  # and the one of this step may be there
            if self.step > self.config.n_steps or not due <= count <= due + 1:
                raise ValueError(f"{count} records at step {self.step} of {self.config.n_steps}")

            def tensor(name, like):
                found, like = torch.tensor(arrays[name]), torch.as_tensor(like)
                shapes = tuple(found.shape), tuple(like.shape)
                for what, theirs, mine in (("type", found.dtype, like.dtype), ("shape", *shapes)):
                    if theirs != mine:
                        raise ValueError(f"{name} has {what} {theirs}, expected {mine}")
                return found

            self.loss_sum = tensor("loss_sum", self.loss_sum)
            self.diverged_at = tensor("diverged_at", self.diverged_at).numpy()
            for name, old in self.parameters.items():
                self.parameters[name] = tensor(f"parameters/{name}", old).requires_grad_()
                self.moments[name] = [tensor(f"optimiser/{name}/{key}", old) for key in MOMENTS]
            if count:
                self.records = self._split({name: arrays[f"history/{name}"] for name in self._recorded()}, count)
        except checkpoint.CheckpointError:
            raise
        except (KeyError, AttributeError, *_checks.UNREADABLE) as error:
            raise checkpoint.CheckpointError(f"{path} is incomplete: {error}") from None

    def _compare(self, header, path):
        """Refuse the checkpoint of another run."""
        found = difference(header, self.identity)
        if found:
            name, theirs, mine = found
            raise checkpoint.CheckpointError(f"{path} belongs to another run: {name} is {theirs} there and {mine} here")

    def _split(self, history, count):
        """The entries of a stacked history."""
        sets = 1 if self.config.shared else self.config.n_layers
        expected = record_shapes(len(self.seeds), sets, self.config.dim)
        expected |= {name: tuple(value.shape) for name, value in self.parameters.items() if name.startswith("target_")}
        for name, values in history.items():
            if values.shape != (count, *expected[name]) or values.dtype.kind not in "fi":
                raise ValueError(f"history/{name} is {_checks.describe(values)}, expected {(count, *expected[name])}")
        return [{name: values[i] for name, values in history.items()} for i in range(count)]


def adam(parameter, gradient, mean, square, step, rate):
    """One step of Adam from 0 on: the new parameter and the new moments of its gradient.

    Kingma and Ba (2015), bit for bit as ``torch.optim.Adam``, which takes as long to load as all of torch.
    """
    mean = mean.lerp(gradient, 1 - BETAS[0])
    square = (square * BETAS[1]).addcmul(gradient, gradient, value=1 - BETAS[1])
    size = rate / (1 - BETAS[0] ** (step + 1))
    scale = (square.sqrt() / (1 - BETAS[1] ** (step + 1)) ** 0.5).add(1e-8)
    return parameter.addcdiv(mean, scale, value=-float(size)), mean, square


def _along(values, tensor):
    """One value for each seed, in the dimensions of a tensor whose first is that of the seeds."""
    return values.view(-1, *[1] * (tensor.ndim - 1))


def loss_of(config, parameters, first, second=None):
    """Loss of each seed, shape (K,)."""
    dtype = number_type(config)
    arguments = (config.gamma, config.n_layers, matrix_form(config.form))
    if config.objective == "td":
        return neu.td_loss(parameters, inputs.from_contexts(*first, dtype), *arguments)
    if config.objective == "mc":
        targets = torch.tensor(first[0].value(config.gamma), dtype=dtype)
        return neu.true_value_loss(parameters, inputs.from_contexts(*first, dtype), targets, *arguments)
    here = inputs.windows(*first, dtype)
    if config.objective == "td_query":
        return neu.td_query_loss(parameters, here, *arguments)
    if config.objective == "neu_one_batch":
        return neu.biased_neu_loss(parameters, here, *arguments)
    return neu.neu_loss(parameters, here, inputs.windows(*second, dtype), *arguments)
