from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from domainwise.data.domains import Domains
from domainwise.data.sources.digits import _shipped, digits


@pytest.fixture(scope="module")
def data() -> Domains:
    return digits()


def shrunk(image: np.ndarray) -> np.ndarray:
    """Back to the 8x8 original, as far as that is possible: the middle 12x12 of an upright image."""
    return np.asarray(Image.fromarray(image[2:14, 2:14, 0]).resize((8, 8), Image.Resampling.BOX), float)


def nearest_original(image: np.ndarray) -> int:
    differences = np.abs(load_digits().images * (255 / 16) - shrunk(image)).mean((1, 2))
    assert differences.min() < 25  # of 255; what the enlarging has blurred
    return int(differences.argmin())


def test_six_domains_named_by_their_angle_share_ten_classes(data: Domains) -> None:
    assert data.name == "digits"
    assert data.names == ("0", "15", "30", "45", "60", "75")
    assert data.classes == tuple("0123456789")
    assert data.shape == (16, 16, 1)
    assert all(set(domain.labels) == set(range(10)) for domain in data)


def test_the_images_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its file is found or not."""
    data, labels = _shipped()
    assert np.array_equal(data, load_digits().data)
    assert np.array_equal(labels, load_digits().target)
    monkeypatch.setattr("domainwise.data.sources.digits.find_spec", lambda name: None)
    assert np.array_equal(_shipped()[0], data)


def test_every_digit_is_in_exactly_one_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 1797
    monkeypatch.setattr("domainwise.data.sources.digits._shipped", lambda: (np.zeros((count, 64)), np.arange(count)))
    data = digits()
    assert sorted(np.concatenate([domain.labels for domain in data])) == list(range(count))
    assert [len(domain) for domain in data] == [300, 300, 300, 299, 299, 299]


def test_the_first_domain_is_upright_and_labelled_right(data: Domains) -> None:
    domain = data["0"]
    originals = [nearest_original(image) for image in domain.images[:20]]
    assert np.array_equal(load_digits().target[originals], domain.labels[:20])


@pytest.mark.parametrize("angle", [15, 30, 45, 60, 75])
def test_turning_a_domain_back_clockwise_makes_it_upright(data: Domains, angle: int) -> None:
    ones = data[str(angle)].images[data[str(angle)].labels == 1]
    upright, further = (
        np.mean([np.asarray(Image.fromarray(image[..., 0]).rotate(by, Image.Resampling.BILINEAR)) for image in ones], 0)
        for by in (-angle, angle)
    )
    target = data["0"].images[data["0"].labels == 1].mean(0)[..., 0]
    assert np.abs(upright - target).mean() < 12 < np.abs(further - target).mean()


def test_hardly_a_stroke_is_cut_off_by_the_border(data: Domains) -> None:
    frame = np.ones((16, 16), bool)
    frame[1:-1, 1:-1] = False
    assert all(domain.images[:, frame].mean() < 2 for domain in data)
    assert all(domain.images.max() > 200 for domain in data)


def test_the_fingerprint_is_the_same_every_time(data: Domains) -> None:
    np.random.seed(7)
    assert digits().fingerprint == data.fingerprint


def test_importing_the_module_does_not_import_scikit_learn() -> None:
    program = "import sys, domainwise.data.sources.digits; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
