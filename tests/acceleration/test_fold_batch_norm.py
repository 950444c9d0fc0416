from __future__ import annotations

import copy

import torch
from torch import nn

from domainwise.acceleration.fold_batch_norm import folds
from domainwise.acceleration.rewrite import replace, wiring


class Residual(nn.Module):
    """Two folded pairs, a convolution with a bias, a projection in a Sequential, and one norm that nothing precedes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(3)
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1, groups=2)
        self.bn2 = nn.BatchNorm2d(6)
        self.down = nn.Sequential(nn.Conv2d(3, 6, 1), nn.BatchNorm2d(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.down(x))


class Peeking(Residual):
    """Looks at a convolution's output past its norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(x)
        return self.bn1(y) + y


def frozen(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    net = kind().double()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
            for tensor in (module.weight, module.bias, module.running_mean):
                nn.init.normal_(tensor)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return net


def fold(net: nn.Module) -> bool:
    return replace(net, X[:1], folds(wiring(net, X[:1])))


X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1)).double()


def test_folding_keeps_outputs_gradients_and_names() -> None:
    plain = frozen(Residual)
    folded = copy.deepcopy(plain)
    assert len(folds(wiring(folded, X[:1]))) == 6
    assert fold(folded)
    outputs = [net(X) for net in (plain, folded)]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)
    for output in outputs:
        output.square().sum().backward()
    for (name, p), (other, q) in zip(plain.named_parameters(), folded.named_parameters(), strict=True):
        assert name == other
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-10, atol=1e-10)
    assert list(plain.state_dict()) == list(folded.state_dict())


def test_folding_follows_the_parameters() -> None:
    plain, folded = frozen(Residual), frozen(Residual)
    assert fold(folded)
    changed = {key: value + 0.1 for key, value in plain.state_dict().items() if value.is_floating_point()}
    for net in (plain, folded):
        net.load_state_dict(changed, strict=False)
    torch.testing.assert_close(plain(X), folded(X), rtol=0, atol=1e-12)


def test_what_cannot_be_folded_stays() -> None:
    peeking = frozen(Peeking)
    before = peeking(X)
    assert not fold(peeking)
    assert torch.equal(peeking(X), before)
    assert not folds(wiring(frozen(Residual).train(), X[:1]))
