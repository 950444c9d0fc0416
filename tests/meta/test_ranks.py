"""Two ranks with parts of every batch are one process with the whole; what differs or fails is a sentence on both."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from made_ranks import COMBINES, INNERS, on_two_ranks, program
from torch.optim import SGD

from domainwise import InputError, MetaOptimizer

OTHER = "InputError: rank 1 could not finish this round, and says why itself; the parameters are as they were"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What every case returned on both ranks: (on rank 0, on rank 1) by its name."""
    zero, one = on_two_ranks("made_ranks", tmp_path_factory.mktemp("ranks"))
    return {name: (zero[name], one[name]) for name in zero}


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("inner", INNERS)
def test_two_ranks_are_one_process_with_whole_batches(found, combine, inner):
    zero, one = found["equal"]
    assert max(max(r[key] for r in (zero, one)) for key in zero if key.startswith(f"{combine}, {inner}, ")) < 1e-12
    assert {key[-1] for key in zero} == {"1", "3"}
    assert min(found["moved"]) > 0.01  # what makes this test one


def test_without_it_they_drift_unless_one_averages_oneself(found):
    assert min(found["unsynced_ranks_drift"]) > 1e-3
    assert max(found["own_average"]) < 1e-12


def test_the_order_is_that_of_rank_0_whatever_the_generators_are(found):
    zero, one = found["order_of_rank_0"]
    assert zero == one
    assert len({tuple(order) for order in zero}) > 2


@pytest.mark.parametrize("case", ["empty", "empty_none"])
def test_a_rank_without_samples_takes_part_without_a_forward_pass(found, case):
    (apart, visited), (apart_too, visited_too) = found[case]
    assert max(apart, apart_too) < 1e-12
    assert (visited, visited_too) == (9, 6)


def test_the_number_of_samples_is_found_in_batches_of_any_shape_or_told(found):
    assert max(found["sizes_of_ones_own"]) < 1e-12


def test_a_parameter_used_on_one_rank_gets_its_gradient_on_both_and_one_used_nowhere_gets_none(found):
    zero, one = found["unused"]
    assert zero == one
    assert zero["nowhere"]
    assert zero["values"][2] == [1.0, 1.0]
    assert zero["grad"] == [0.5, 0.5]  # of rank 1 alone, which has half of the samples


def test_a_saved_state_goes_on_as_one_process_does(found):
    assert max(found["state"]) < 1e-12


def test_a_rank_that_fails_ends_the_round_on_both_and_leaves_no_trace(found):
    zero, one = found["fails_in_loss"]
    assert [r["said"] for r in zero] == [OTHER] * 3
    assert [r["said"] for r in one] == ["ValueError: mine", "ValueError: mine", "KeyboardInterrupt: stop"]
    for r in (*zero, *one, *found["fails_in_combine"]):
        assert r["kept"]
        assert r["apart"] < 1e-12  # and the next round is as if nothing had been
    assert [r["said"] for r in found["fails_in_combine"]] == [OTHER, "MemoryError: full"]


def test_an_interrupt_while_a_rank_waits_ends_the_round_on_both(found):
    zero, one = found["interrupted_while_waiting"]
    assert [zero["one"]["said"], zero["both"]["said"]] == [OTHER, "KeyboardInterrupt: "]
    assert one["one"]["said"] == one["both"]["said"] == "KeyboardInterrupt: "
    for r in (*zero.values(), *one.values()):
        assert r["kept"]
        assert r["apart"] < 1e-12


def test_a_loss_that_is_not_finite_on_one_rank_is_named_there(found):
    zero, one = (r["said"] for r in found["not_finite"])
    assert zero == OTHER
    assert one.startswith("FloatingPointError: the loss of leg 0 is nan")


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("legs", "InputError: rank 0 was given 3 legs and rank 1 2: every rank needs the same number"),
        ("nobody_has_samples", "InputError: a batch has no samples on any rank"),
    ],
)
def test_legs_that_do_not_match_are_the_same_sentence_on_both(found, case, sentence):
    for r in found[case]:
        assert r["said"].startswith(sentence)
        assert r["kept"]
        assert r["apart"] < 1e-12


def test_legs_that_one_rank_cannot_walk_are_told_to_the_other(found):
    zero, one = (r["said"] for r in found["no_legs"])
    assert (zero, one) == (OTHER, "InputError: a walk needs at least one leg, got none")
    zero, one = (r["said"] for r in found["named_legs"])
    assert zero == OTHER
    assert one.startswith("InputError: legs must be a sequence")


def test_sizes_that_are_no_number_of_samples_are_sentences(found):
    zero, one = found["sizes_that_are_none"]
    assert one[0] == "size must give the number of samples in a batch, got -1.0"
    assert zero[1] == "size must give the number of samples in a batch, got nan"
    assert zero[0].startswith("rank 1 could not finish")
    assert one[1].startswith("rank 0 could not finish")
    assert "There is no tensor in this str: give size=" in zero[2]


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("parameters", "the parameters of rank 0 and rank 1 are not the same"),
        ("inner_lr", "different inner_lr"),
        ("frozen", "rank 0 trains 4 parameters and rank 1 3"),
        ("network", "rank 0 trains 43 numbers and rank 1 51"),
        ("steps", "rank 0 takes 6 inner steps in this round and rank 1 12"),
        ("module", "rank 0 has 3 numbers in the buffers of module= and rank 1 0"),
        ("first", "nothing"),
        ("rate of one", "nothing"),
        ("after it", "a scheduler, clipping, loading"),
    ],
)
def test_what_differs_between_ranks_is_said_before_the_walk(found, what, sentence):
    zero, one = found["different"]
    assert sentence in zero[what]
    assert zero[what] == one[what]


def test_buffers_follow_rank_0_by_whatever_policy(found):
    zero, one = found["buffers"]
    assert zero == one
    assert [zero[policy][2] for policy in ("end", "start", "mean")] == [3, 0, 3]
    assert zero["end"] != zero["mean"] != zero["start"]


@pytest.mark.parametrize("way", ["plain", "unused", "views"])
def test_in_distributed_data_parallel_there_is_one_average_and_later_its_own(found, way):
    for r in found["wrapped"]:
        assert r[way] < 1e-12
        assert r[f"{way}, later"] < 1e-12


def test_distributed_data_parallel_that_cannot_be_kept_still_is_a_sentence(found):
    assert all("static_graph=True" in r["static"] for r in found["wrapped"])


def test_an_empty_or_a_failing_rank_does_not_hang_where_buffers_would_be_broadcast(found):
    zero, one = found["wrapped_with_buffers"]
    assert zero["net"] == one["net"]
    assert (OTHER.endswith(zero["said"]), one["said"]) == (True, "mine")


def test_mixed_precision_sparse_and_oddly_laid_out_gradients_stay_alike(found):
    zero, one = found["precisions"]
    assert zero == one
    assert zero["kinds"] == ["float32", "float32", "float32", "bfloat16", "float32"]
    assert zero["strides"]
    assert zero["losses"][0] != zero["losses"][-1]


def test_an_algorithm_that_would_train_apart_on_every_rank_is_a_sentence(found):
    for said in found["algorithms"]:
        assert [sentence.partition(" trains in one process")[0] for sentence in said] == ["erm", "arith", "mldg"]
        assert all("would drift apart" in sentence for sentence in said)


def test_a_trial_among_ranks_is_a_sentence_before_it_begins(found):
    assert all(said.startswith("a trial trains in one process") for said in found["trials"])


def test_the_program_of_the_docs_trains_the_same_network_on_both(found):
    zero, one = found["docs"]
    assert zero == one
    assert len(zero["losses"]) == 3


@pytest.mark.slow
def test_the_program_of_the_docs_runs_under_torchrun(tmp_path):
    (tmp_path / "train.py").write_text(program("# train.py"), encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    ran = subprocess.run(torchrun, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("tensor([") == 1


@pytest.fixture(scope="module")
def framed(tmp_path_factory):
    return on_two_ranks("made_frameworks", tmp_path_factory.mktemp("frameworks"))


@pytest.mark.slow
def test_two_ranks_are_one_process_for_every_combine_inner_optimizer_and_number_of_steps(framed):
    for rank in framed:
        assert len(rank["every"]) == len(COMBINES) * len(INNERS) * 3
        assert max(rank["every"].values()) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["fabric", "accelerate"])
def test_what_the_docs_say_of_fabric_and_accelerate_walks_as_one_process_does(framed, framework):
    found = [rank[framework] for rank in framed]
    if None in found:
        pytest.skip(f"{framework} is not installed")
    assert max(found) < 1e-4  # float32 and Adam; ranks that do not share are 0.2 off


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fully_shard", "whole parameters", "flat parameters"])
def test_parameters_of_which_a_rank_has_a_part_are_a_sentence(framed, way):
    assert all("spread over ranks (FSDP, DTensor) cannot walk" in rank["sharded"][way] for rank in framed)


def test_a_group_of_ones_own(found):
    for r in found["groups"]:
        assert r["own"] == 0  # of one rank: it walks alone
        assert "not in the group" in r["other"]


def test_an_outer_optimizer_dealt_out_over_the_ranks(found):
    assert max(found["spread_optimizer"]) < 1e-12


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sync": "step"}, '"auto", "leg" or "none", got \'step\''),
        ({"size": 8}, "size must be a function from a batch to its number of samples, got 8"),
    ],
)
def test_settings_that_make_no_sense_are_sentences(problem, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        MetaOptimizer(SGD(problem().net.parameters()), inner_lr=0.1, **settings)


def test_to_insist_on_ranks_that_do_not_run_is_a_sentence(problem):
    task = problem()
    with pytest.raises(InputError, match="call init_process_group first"):
        MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1, sync="leg").step(task.loss, task.legs)


def test_a_torch_without_distributed_walks_alone(problem, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    monkeypatch.delattr(torch.distributed, "is_initialized")
    task = problem()
    assert MetaOptimizer(SGD(task.net.parameters()), inner_lr=0.1).step(task.loss, task.legs).shape == (3,)
