"""All that compare, sweep and run were told, and the job it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from domainwise.api import Comparison, prepare
from domainwise.cli.job import Job
from domainwise.cli.option_groups import Beside, Choices, Cluster, Machine, Many
from domainwise.cli.reading import Ask, read
from domainwise.data.domains import Domains
from domainwise.experiment.settings import Settings
from domainwise.machine import choose_device
from domainwise.saved_models.keep import spread


@dataclass(frozen=True)
class Asked:
    data: str
    preset: str
    choices: Choices
    beside: Beside
    machine: Machine
    many: Many = Many(per_gpu="1")
    cluster: Cluster = Cluster()

    def job(self, algorithms: str, **wanted: Any) -> Job:
        """``wanted`` is what :func:`domainwise.api.prepare` is to lay out."""
        machine, beside = self.machine, self.beside
        device = choose_device(machine.device, elsewhere=self.cluster.elsewhere)
        ask = Ask(**vars(self.choices), preset=self.preset, balanced=beside.balanced, device=device)

        def prepared(domains: Domains, settings: Settings) -> Comparison:
            return prepare(
                domains, algorithms, settings=settings, average=beside.average, output=machine.output, **wanted
            )

        domains, settings = read(self.data, ask, machine, prepared)
        spread(beside.snapshots, settings.steps)
        return Job(prepared(domains, settings), machine, beside, self.many, self.cluster)
