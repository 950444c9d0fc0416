"""Train one trial: the loop, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

from domainwise.acceleration.shared_device import Submit, directly
from domainwise.data.domains import Domains
from domainwise.experiment.records import Record
from domainwise.experiment.trial import Trial
from domainwise.saved_models.keep import Keeper
from domainwise.training.checkpoints import Checkpoints, Fresh, Resumed
from domainwise.training.run_options import RunOptions
from domainwise.training.setup import Setup, process_settings, set_up


def run(
    trial: Trial,
    data: Domains,
    options: RunOptions = RunOptions(),  # noqa: B008  frozen
    *,
    keeper: Keeper | None = None,
    checkpoints: Checkpoints | None = None,
    start: Fresh | Resumed = Fresh(),  # noqa: B008  frozen
    submit: Submit = directly,
    tick: Callable[[int], None] = lambda updates: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Generator[Record, None, None]:
    """Train on every domain but the targets, and yield a record at every evaluation.

    ``keeper`` keeps models, ``checkpoints`` save the run so that it can go on from ``start``, ``submit`` gives the
    device work, ``tick`` hears the number of updates made so far, now and then, and ``say`` hears sentences. Raises
    :class:`~domainwise.training.loss_log.Diverged` where a loss is not finite.
    """
    keeper, checkpoints = keeper or Keeper(trial), checkpoints or Checkpoints()
    with process_settings(trial, options, submit):
        setup = set_up(trial, data, options, say, submit)
        algorithm, losses, averages = setup.algorithm, setup.losses, setup.averages
        keeper.begin(algorithm, data, setup.feed.inputs, setup.featurizer)
        parts, params = {**setup.parts, "keeper": keeper}, list(algorithm.net.parameters())
        submit(lambda: start.restore(parts))
        checkpoints.begin()
        started = time.perf_counter() - start.seconds

        for step in range(start.step, trial.steps):
            losses.add(step, submit(setup.train))
            averages.update(params, step)
            keeper.updated(step)
            last = step == trial.steps - 1
            evaluating = last or step % trial.evaluate_every == 0
            if evaluating or (step + 1) % options.log_every == 0:
                losses.flush() if evaluating else losses.poll()
                tick(step + 1)
            if evaluating:
                record, last = evaluated(step, time.perf_counter() - started, last, setup, keeper)
                yield record
            if last:
                break
            if checkpoints.due(step + 1, evaluating):
                losses.flush()
                checkpoints.save(step + 1, parts, time.perf_counter() - started, submit)


def evaluated(step: int, seconds: float, last: bool, setup: Setup, keeper: Keeper) -> tuple[Record, bool]:
    """Evaluate the model and every average that is ready, and let the keeper see each; return whether this ends it."""
    evaluator, averages, loss = setup.evaluator, setup.averages, setup.losses.mean()
    record: Record = {"step": step, "seconds": seconds, "loss": loss, "domains": evaluator.evaluate()}
    if walk := evaluator.walk(step):
        record["walk"] = walk
    keeper.evaluated("model", record, last, evaluator.outcomes)
    last = last or keeper.settled(step)
    averages.evaluated(step, evaluator.validation_loss(record["domains"]))
    for name, weights in averages.ready(last):
        with evaluator.averaged(weights):
            scores = record.setdefault("averages", {})[name] = evaluator.evaluate(name)
            keeper.evaluated(name, {**record, "domains": scores}, last, evaluator.outcomes)
    return record, last
