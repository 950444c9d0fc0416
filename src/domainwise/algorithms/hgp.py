from __future__ import annotations

from collections.abc import Sequence

import torch

from domainwise.algorithms import Penalized, Terms, algorithm, hyper, log10
from domainwise.algorithms._bases import at_head
from domainwise.losses import Batch, distance_to, head_gradient, head_hessian_product, mean_of, risks


@algorithm
class HGP(Penalized):
    """Match gradients and Hessian-gradient products of the head between the domains (Hemati et al., 2023).

    Loss: ``mean_e [CE_e + alpha |H_e g_e - H g|^2 + beta |g_e - g|^2]``, ``g`` and ``H`` of the mean risk, held fixed.
    """

    linear = True

    alpha: float = hyper(1e-4, log10(-5, -3), domainbed="penalty_alpha", least=0)
    beta: float = hyper(5e-3, log10(-3, -1), domainbed="penalty_beta", least=0)

    def terms(self, batches: Sequence[Batch]) -> Terms:
        inputs, logits = at_head(self.net, batches)
        heads = list(zip(inputs, logits, strict=True))
        gradients = torch.stack([head_gradient(*head, y) for head, (_, y) in zip(heads, batches, strict=True)])
        mean = gradients.detach().mean(0)
        with torch.no_grad():
            center = mean_of(head_hessian_product(*head, mean) for head in heads)
        products = torch.stack([head_hessian_product(*head, g) for head, g in zip(heads, gradients, strict=True)])
        penalty = self.alpha * distance_to(center, products) + self.beta * distance_to(mean, gradients)
        return Terms(risks(logits, batches, self.class_weights).mean(), penalty)
