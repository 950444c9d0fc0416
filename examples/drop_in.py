"""
Arith in a training loop of your own
====================================

A loop in plain PyTorch, first with Adam on all domains together, then with the same Adam inside ``MetaOptimizer``. Only
the lines around the step change.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from domainwise import MetaOptimizer

# %%
# The data: two classes in the plane. In every domain they are turned by another angle, and the target is turned further
# than any domain that is trained on.


def domain(degrees: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return 64 points of two classes, turned by an angle."""
    y = torch.randint(2, (64,), generator=generator)
    x = torch.randn(64, 2, generator=generator) + torch.stack([3.0 * y - 1.5, torch.zeros(64)], 1)
    angle = torch.deg2rad(torch.tensor(degrees))
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    return x @ turn.T, y


SOURCES, TARGET = (0.0, 20.0, 40.0), 60.0

# %%
# The two loops. ``legs`` is one minibatch of every domain; the walk visits them one after the other, in a new order
# each time, and the outer Adam steps towards the mean of the models visited.


def train(walk: bool) -> list[float]:
    """Train for 200 updates; return the accuracy on the target along the way."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    outer = torch.optim.Adam(model.parameters(), lr=3e-3)
    optimizer = MetaOptimizer(outer, inner_lr=0.1)
    x, y = domain(TARGET, torch.Generator().manual_seed(2))
    accuracies = []
    for _ in range(200):
        legs = [domain(degrees, generator) for degrees in SOURCES]
        if walk:
            optimizer.step(lambda leg: cross_entropy(model(leg[0]), leg[1]), legs)
        else:
            outer.zero_grad()
            sum(cross_entropy(model(a), b) for a, b in legs).backward()
            outer.step()
        accuracies.append((model(x).argmax(1) == y).float().mean().item())
    return accuracies


curves = {"ERM": train(walk=False), "Arith": train(walk=True)}
for name, curve in curves.items():
    print(f"{name}: {100 * curve[-1]:.1f} % on a domain turned by {TARGET:.0f} degrees")

# %%
# One seed of a toy shows how to use it, not which is better.

for name, curve in curves.items():
    plt.plot(curve, label=name)
plt.xlabel("updates")
plt.ylabel("accuracy on the target")
plt.legend()
plt.show()
