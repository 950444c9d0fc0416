from __future__ import annotations

import pytest
import torch

from domainwise.acceleration import cuda_graph as capture
from domainwise.acceleration.cuda_graph import Fast


def plain(x: int) -> int:
    return x


def test_nothing_is_compiled_where_it_cannot_or_need_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch for Windows comes without Triton, and would fail at the first update."""
    monkeypatch.setattr(capture, "has_triton", lambda: True)
    monkeypatch.setattr(capture, "keep_compiled", lambda: None)
    monkeypatch.setattr(torch, "compile", lambda function, **options: "compiled")
    assert Fast().compiler("cuda")(plain) == "compiled"
    assert Fast(compile=False).compiler("cuda")(plain) is plain
    assert Fast().compiler("cpu")(plain) is plain
    monkeypatch.setattr(capture, "has_triton", lambda: False)
    assert Fast().compiler("cuda")(plain) is plain
