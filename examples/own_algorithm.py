"""
An algorithm of your own
========================

One class with one method, checked by the tests that ours pass, and compared as fairly as any of them.
"""

import tempfile
from collections.abc import Sequence

from torch import Tensor

import domainwise as dw
from domainwise.algorithms import Algorithm, algorithm, hyper, log10
from domainwise.losses import Batch, mean_of
from domainwise.testing import check_algorithm

# %%
# The idea: large logits are a sign of memorising, so they cost something. ``strength`` is a hyperparameter: it has a
# default, a range, and a draw for random search.


@algorithm
class Modest(Algorithm):
    """Cross-entropy, and a price for large logits."""

    strength: float = hyper(0.1, log10(-2, 0), least=0)

    def loss(self, batches: Sequence[Batch]) -> Tensor:
        """Return the loss of one leg."""
        return super().loss(batches) + self.strength * mean_of(self.net(x).square().mean() for x, _ in batches)


# %%
# The checks: does it learn, does it go on exactly after a kill, is its loss free of side effects, and so on. They say
# nothing when all is well.

check_algorithm(Modest)

# %%
# The comparison. Own classes and names of ours stand side by side.

results = dw.compare(
    dw.digits(), ["erm", Modest(strength=0.2)], targets=["75"], seeds=3, steps=40, output=tempfile.mkdtemp()
)
print(results.table())
