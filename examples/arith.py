"""
The paper's method in plain torch
=================================

Arithmetic meta-learning in the symbols of its paper (Wang et al., CVPR 2025), whole: Algorithm 1.
``domainwise.MetaOptimizer`` takes the same steps, for any network, any outer optimizer and any hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

Loss = Callable[[Tensor, Tensor], Tensor]  # of a model and a minibatch


def walk(
    Theta: Tensor, domains: Sequence[Sequence[Tensor]], L: Loss, alpha: float, order: Sequence[int]
) -> list[Tensor]:
    """Return theta_1, ..., theta_{n+1}: from Theta, k gradient steps of size alpha on each of n domains in turn."""
    theta = [Theta]
    for i in order:
        here = theta[-1]
        for minibatch in domains[i]:  # k of them
            here = here.detach().requires_grad_()
            here = here - alpha * torch.autograd.grad(L(here, minibatch), here)[0]
        theta.append(here.detach())
    return theta


def arith(
    Theta: Tensor, domains: Sequence[Sequence[Tensor]], L: Loss, alpha: float, epsilon: float, generator: Generator
) -> Tensor:
    """Return the next Theta: the mean of the models visited, in which Theta itself counts epsilon times."""
    n = len(domains)
    theta = walk(Theta, domains, L, alpha, torch.randperm(n, generator=generator).tolist())
    g = [theta[i] - theta[i + 1] for i in range(n)]  # g[0] is the paper's g_1
    return Theta - sum((n - i) * g[i] for i in range(n)) / (n + epsilon)  # Eq. 6: weights n, n - 1, ..., 1


def mean_of_models(Theta: Tensor, theta: Sequence[Tensor], epsilon: float) -> Tensor:
    """Return the same point without gradients (Eq. 5)."""
    return (epsilon * Theta + sum(theta[1:])) / (len(theta) - 1 + epsilon)


def main() -> None:
    centres = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])  # where each domain's loss is smallest
    generator, Theta = torch.Generator().manual_seed(0), torch.tensor([6.0, 6.0])
    epsilon = 3 * (3 - 1) / 2  # with it the weights sum to one: 1/2, 1/3, 1/6
    for step in range(31):
        if step % 10 == 0:
            print(f"step {step:2}: Theta = ({Theta[0]:.3f}, {Theta[1]:.3f})")
        domains = [[centre + 0.1 * torch.randn(2, generator=generator)] for centre in centres]
        Theta = arith(Theta, domains, lambda theta, x: ((theta - x) ** 2).sum() / 2, 0.3, epsilon, generator)
    print("the domains' centroid is (1.333, 1.000)")


if __name__ == "__main__":
    main()
