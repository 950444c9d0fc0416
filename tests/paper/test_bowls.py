from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

from domainwise.paper import sketches, theory as quadratic
from domainwise.paper.theory import STRATEGIES, Bowls, displacement, end, fan, path, ternary_bowls, three_bowls, visited

START = torch.tensor([6.0, 5.0], dtype=torch.float64)
CORNER = torch.full((3,), 5.0, dtype=torch.float64)
LEGS = [(0,), (1,), (2,)]


@pytest.fixture
def bowls() -> Bowls:
    return three_bowls()


def walked(bowls: Bowls, alpha: float, steps: int) -> list[Tensor]:
    """Descent on one bowl after the other, by its closed form."""
    models = [START]
    for centre, curvature in zip(bowls.centres, bowls.curvatures, strict=True):
        shrinking = torch.linalg.matrix_power(torch.eye(2, dtype=torch.float64) - alpha * curvature, steps)
        models.append(centre + shrinking @ (models[-1] - centre))
    return models


def test_the_weight_rows_are_those_of_the_methods() -> None:
    rows = {name: strategy.weights(3) for name, strategy in STRATEGIES.items()}
    assert rows["ERM"] == [1]
    assert rows["MLDG"] == [1 / 2, 1 / 2]
    assert rows["MAML"] == [0, 0, 1]
    assert rows["Fish"] == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert rows["Arith"] == pytest.approx([1 / 2, 1 / 3, 1 / 6])


@pytest.mark.parametrize("steps", [1, 4])
def test_a_walk_visits_the_models_of_its_closed_form(bowls: Bowls, steps: int) -> None:
    torch.testing.assert_close(visited(bowls, START, LEGS, 0.1, steps), torch.stack(walked(bowls, 0.1, steps)))


def test_arith_heads_for_the_mean_of_the_models_and_fish_for_the_last(bowls: Bowls) -> None:
    _, *models = walked(bowls, 0.1, 5)
    arith = displacement(bowls, START, LEGS, STRATEGIES["Arith"].combine, 0.1, 5)
    fish = displacement(bowls, START, LEGS, STRATEGIES["Fish"].combine, 0.1, 5)
    torch.testing.assert_close(START + 2 * arith, torch.stack(models).mean(0))
    torch.testing.assert_close(START + 3 * fish, models[-1])


def test_the_fan_holds_every_strategy_that_walks_and_only_convex_mixtures(bowls: Bowls) -> None:
    rays = fan(bowls, START, 0.1, 5)
    assert len(rays) == 13 * 14 // 2
    corners = torch.stack([b - a for a, b in zip(walked(bowls, 0.1, 5), walked(bowls, 0.1, 5)[1:], strict=False)])
    for name in ("MAML", "Fish", "Arith"):
        own = displacement(bowls, START, LEGS, STRATEGIES[name].combine, 0.1, 5)
        assert (rays - own).norm(dim=1).min() < 1e-12
    assert rays.min(0).values.tolist() == pytest.approx(corners.min(0).values.tolist())
    assert rays.max(0).values.tolist() == pytest.approx(corners.max(0).values.tolist())


def test_erm_ends_where_the_mean_loss_is_lowest_and_not_at_the_centroid(bowls: Bowls) -> None:
    found = end(bowls, path(bowls, START, STRATEGIES["ERM"], inner_lr=0.5, rounds=100))
    torch.testing.assert_close(found.mean, bowls.pooled)
    assert found.off_centroid == pytest.approx(float((bowls.pooled - bowls.centroid).norm()))
    assert found.wander < 1e-6


def test_a_steep_bowl_pulls_the_pooled_optimum_to_itself(bowls: Bowls) -> None:
    to_pooled, to_centroid = ((bowls.centres[0] - place).norm() for place in (bowls.pooled, bowls.centroid))
    assert to_pooled < to_centroid


def test_with_legs_that_reach_the_optima_arith_ends_nearer_the_centroid_and_wanders_less_than_fish(
    bowls: Bowls,
) -> None:
    ends = {
        name: end(bowls, path(bowls, START, STRATEGIES[name], inner_lr=0.6, inner_steps=6, rounds=80))
        for name in ("Fish", "Arith")
    }
    assert ends["Arith"].off_centroid < 0.1 < ends["Fish"].off_centroid
    assert ends["Arith"].wander < ends["Fish"].wander / 5
    assert ends["Arith"].variation < ends["Fish"].variation


def test_in_three_parameters_weights_lead_to_one_triangle_and_fish_leaves_the_first_optimum_for_the_last() -> None:
    bowls = ternary_bowls()
    corners, models, tips = sketches.heads(bowls, CORNER, 0.1, 12)
    steps = models[:-1] - models[1:]  # g_1, g_2, g_3
    torch.testing.assert_close(corners, (CORNER - steps).flip(0))  # all of the weight on one leg
    torch.testing.assert_close(tips["Arith"], models[1:].mean(0))
    torch.testing.assert_close(tips["Fish"], CORNER + 2 / 3 * (models[-1] - CORNER))
    for tip in tips.values():  # half of an arrow ends on the triangle, within it
        shares = torch.linalg.solve(corners.T, CORNER + (tip - CORNER) / 2)
        assert shares.sum() == pytest.approx(1)
        assert (shares > 0).all()
    fish, arith = ((bowls.centres - tips[name]).norm(dim=1) for name in ("Fish", "Arith"))
    assert fish[0] > 1.5 * arith[0]
    assert fish[2] < arith[2]
    assert arith.std() < fish.std()


def test_equal_distances_have_no_variation() -> None:
    assert quadratic.End(START, 0.0, 0.0, [2.0, 2.0, 2.0]).variation == 0
    assert quadratic.End(START, 0.0, 0.0, [1.0, 3.0]).variation == pytest.approx(0.5)


def test_the_drawings_are_pictures_with_their_names(bowls: Bowls) -> None:
    paths = {name: path(bowls, START, STRATEGIES[name], inner_lr=0.3, rounds=5) for name in ("ERM", "Arith")}
    drawn = {
        "optimum of a domain": sketches.fan_figure(bowls, START, 0.1, 5),
        "MLDG": sketches.weights_figure(),
        "centroid": sketches.path_figure(bowls, paths),
        "where weights can lead": sketches.solid_figure(ternary_bowls(), CORNER, 0.1, 12),
    }
    for word, panel in drawn.items():
        words = {text.strip() for text in ElementTree.fromstring(panel.svg).itertext()}
        assert word in words
        assert {"Arith", "Arith, where it ends"} & words
