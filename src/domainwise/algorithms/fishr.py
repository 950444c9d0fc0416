from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10, uniform, whole
from domainwise.algorithms._bases import at_head
from domainwise.errors import InputError
from domainwise.losses import Batch, head_variance, risk
from domainwise.networks.network import Network


@algorithm
class Fishr(Penalized):
    """Match the variance of the head's gradients between the domains (Rame et al., 2022).

    Loss: ``CE + w mean_e mean_p (u_e - mean_e u_e)^2``, ``u_e = m_e / (1 - ema)``, ``m_e <- ema m_e + (1 - ema) v_e``
    from 0 on, ``v_e`` the variance over samples of each of the ``p`` entries of the head's gradient; ``w`` is 0 for
    ``anneal`` updates, then ``penalty``, with a fresh optimizer. A domain that takes no part in an update keeps its
    ``m_e``.
    """

    linear = True
    memory = ("averages",)

    penalty: float = hyper(1000.0, log10(1, 4), domainbed="lambda", least=0)
    anneal: int = hyper(1500, whole(uniform(0, 5000)), domainbed="penalty_anneal_iters", least=0)
    ema: float = hyper(0.95, uniform(0.9, 0.99), domainbed="ema", least=0, below=1)

    def setup(self, net: Network, *, seed: int | None = None) -> Self:
        self.averages: Tensor | None = None  # (n, classes, d) from the first update on
        self.rows: Tensor | None = None  # of the averages, those of the domains at hand; None where it is all of them
        return super().setup(net, seed=seed)

    @property
    def phase(self) -> bool:
        """Whether the penalty has its full weight."""
        return self.updates >= self.anneal

    def prepare(self, batches: Sequence[Any]) -> None:
        if self.updates == self.anneal:
            self.optimizer = self.stepper()
        if self.averages is not None and not self.named and len(self.averages) != len(batches):
            raise InputError(
                f"fishr keeps a moving average for each of {len(self.averages)} domains, and this update has "
                f"{len(batches)} of them: say which with update(batches, domains=[...])"
            )
        self._make_room(max(self.domains) + 1)
        if self.averages is not None and self.domains == tuple(range(len(self.averages))):
            self.rows = None
        elif self.rows is None or len(self.rows) != len(self.domains):
            self.rows = torch.tensor(self.domains, device=self.device)
        else:
            self.rows.copy_(torch.tensor(self.domains))  # into the same memory every time

    def _make_room(self, domains: int) -> None:
        """Have averages for so many domains, those of new ones at 0, or for twice as many as before."""
        past = self.averages
        if past is None:
            head = cast(nn.Linear, self.net.head)
            width = head.in_features + (head.bias is not None)
            precision = torch.promote_types(head.weight.dtype, torch.float32)
            self.averages = torch.zeros(domains, head.out_features, width, dtype=precision, device=self.device)
        elif domains > len(past):
            self.averages = torch.cat([past, past.new_zeros(max(domains, 2 * len(past)) - len(past), *past.shape[1:])])

    def terms(self, batches: Sequence[Batch]) -> Terms:
        inputs, logits = at_head(self.net, batches)
        labels = [y for _, y in batches]
        mean = risk(torch.cat(logits), torch.cat(labels), self.class_weights)
        weight = self.penalty if self.phase else 0.0
        with torch.set_grad_enabled(weight > 0 and torch.is_grad_enabled()):
            variances = torch.stack([head_variance(*one) for one in zip(inputs, logits, labels, strict=True)])
            past = 0 if self.averages is None else self._own(self.averages) * (self.ema / (1 - self.ema))
            penalty = (past + variances).var(0, correction=0).mean()
        return Terms(mean, penalty, weight, noted=variances.detach())

    @torch.no_grad()
    def remember(self, terms: Terms) -> None:
        assert terms.noted is not None
        assert self.averages is not None
        if self.rows is None:
            self.averages.lerp_(terms.noted, 1 - self.ema)
        else:
            self.averages.index_copy_(0, self.rows, self._own(self.averages).lerp(terms.noted, 1 - self.ema))

    def _own(self, averages: Tensor) -> Tensor:
        return averages if self.rows is None else averages[self.rows]
