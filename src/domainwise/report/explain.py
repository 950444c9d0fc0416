"""Explain which number of a trial is reported, and why that one."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from domainwise.data.splits import OFFICIAL
from domainwise.errors import InputError, counted
from domainwise.experiment.records import Record, Summary
from domainwise.experiment.results import Outcome
from domainwise.experiment.selection import RULES, Rule, eligible, target_accuracy, validation
from domainwise.experiment.trial import Trial
from domainwise.report.formats import text_table
from domainwise.report.grid import accuracy, arrange, label, target

WIDTH = 100


def explanation(outcome: Outcome, standing: str = "") -> str:
    """Return all there is to say about one trial; ``standing`` is what its result counts for among others."""
    trial, records = outcome.trial, outcome.records()
    where = target(trial) if trial.targets else "all domains"
    head = f"{label(trial)} on {where}, seed {trial.seed}: trial {_id(outcome)}, {outcome.result['status']}"
    said = [*_verdict(outcome, records), *([standing] if standing else [])]
    parts = [head, _settings(outcome), _table(outcome, records) if records else "", *map(_filled, said)]
    return "\n\n".join(part for part in parts if part)


def _filled(sentence: str) -> str:
    return textwrap.fill(sentence, WIDTH, break_on_hyphens=False)


def _settings(outcome: Outcome) -> str:
    trial, result = outcome.trial, outcome.result
    hypers = [f"{name}={_short(value)}" for name, value in trial.used.items()]
    rows = {
        "data": f"{trial.data}, fingerprint {trial.fingerprint}",
        "algorithm": f"{trial.algorithm}: {', '.join(hypers)}",
        "source": f"sha256 {trial.source}" if trial.source else "",
        "network": ", ".join(_network(trial)),
        "images": _images(trial) if trial.input_size else "",
        "from": "; ".join(f"{origin}: {', '.join(names)}" for origin, names in _by_origin(trial).items()),
        "training": ", ".join(_training(trial)),
        "evaluation": f"{_evaluated(trial)}, {_held_out(trial)}",
        "memory": f"too little on the GPU: every leg computed in {result['parts']} parts" if "parts" in result else "",
        "versions": ", ".join(f"{name} {version}" for name, version in (result.get("versions") or {}).items()),
    }
    return "\n".join(
        textwrap.fill(f"{name:<12}{text}", WIDTH, subsequent_indent=" " * 12) for name, text in rows.items() if text
    )


def _network(trial: Trial) -> list[str]:
    frozen = ["batch-norm frozen"] if trial.freeze_batch_norm else []
    return [trial.network, f"weights {trial.weights}", *frozen, f"dropout {_short(trial.dropout)}"]


def _images(trial: Trial) -> str:
    seen = f"seen at {trial.input_size} x {trial.input_size} pixels, stored with a side of {trial.size}"
    return f"{seen}; augmentation in training: {trial.augment}, in validation: {_validated(trial)}"


def _validated(trial: Trial) -> str:
    return trial.augment if trial.validation == "augmented" else "none"


def _training(trial: Trial) -> list[str]:
    pooled = trial.hyperparameters.get("domainwise") is False
    each = "for each source domain, drawn from all of them" if pooled else "of each source domain"
    if some := trial.domains_per_step:
        how = " in proportion to their size" if trial.domains_by == "size" else ""
        each = f"for each of {some}, drawn from all domains" if pooled else f"of {some} source domains, drawn anew{how}"
    most = f" at most, fewer where {trial.patience} evaluations bring nothing better" if trial.patience else ""
    batch = [f"{trial.steps} steps{most}" + (f" of {trial.batch} images {each}" if trial.batch else "")]
    drawn = ["all classes drawn equally often"] if trial.balanced else []
    weighed = [] if trial.class_weights == "none" else [f"class weights {trial.class_weights}"]
    return [*batch, *drawn, *weighed, f"precision {trial.precision}"]


def _held_out(trial: Trial) -> str:
    official = trial.targets == (OFFICIAL,)
    return "on the parts of the official split" if official else f"{_whole(trial.holdout)} of every domain held out"


def _evaluated(trial: Trial) -> str:
    every = f"every {trial.evaluate_every} steps"
    if trial.evaluate_every % trial.select_every == 0:
        return every
    return f"{every}, those at every {trial.select_every}th and the last to select from"


def _by_origin(trial: Trial) -> dict[str, list[str]]:
    """Sort the settings under the layer that decided them."""
    found: dict[str, list[str]] = {}
    for name, origin in trial.origins.items():
        found.setdefault(origin, []).append(name)
    return found


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(outcome: Outcome, records: Sequence[Record]) -> str:
    """Write the records as a table, with an arrow at the one that is reported."""
    targets = outcome.trial.targets
    chosen = outcome.selected.get("step")
    shown = [(name, part) for name in targets for part in ("main", "holdout")]
    shown = shown or [(name, "holdout") for name in records[0]["domains"]]
    parts = [(name, part) for name, part in shown if part in records[0]["domains"][name]]
    head, rows = ["step", "loss", "validation", *(f"{name} {part}" for name, part in parts)], []
    for record in records:
        accuracies = [record["domains"][name][part]["accuracy"] for name, part in parts]
        numbers = [validation(record, targets), *accuracies]
        loss = "-" if record.get("loss") is None else f"{record['loss']:.4f}"
        rows.append([str(record["step"]), loss, *(f"{100 * number:.1f}" for number in numbers)])
    lines = text_table(head, rows, right=True).split("\n")
    arrows = ["", *("  <- reported" if record["step"] == chosen else "" for record in records)]
    return "\n".join(line + arrow for line, arrow in zip(lines, arrows, strict=True))


def _verdict(outcome: Outcome, records: Sequence[Record]) -> list[str]:
    status = outcome.result["status"]
    if status == "unfinished":
        return [f"No number is reported: the trial has not come to an end. It has {_evaluations(records)} so far."]
    if status != "finished" or not records:  # diverged, failed or damaged
        return [f"No number is reported: {outcome.result.get('message') or 'there are no records'}"]
    early = [f"Training {outcome.result['message']}."] if outcome.result.get("message") else []
    because = _because(outcome, eligible(records, outcome.trial), RULES[outcome.trial.selection])
    if not outcome.trial.targets:
        known = _expected(outcome) or "so nothing is known of an unseen one."
        return [f"No domain was held out, {known} {because}", *early, *_averages(outcome)]
    return [_reported(outcome, records), because, *early, _otherwise(outcome, records), *_averages(outcome)]


def _expected(outcome: Outcome) -> str:
    """Say what the comparison that a model comes from lets one expect of it; "" where it comes from none."""
    from domainwise.saved_models.card import read

    try:
        expected = read(outcome.folder / ("best-average" if outcome.trial.averages else "best")).expected
    except InputError as error:
        return f"and what to expect is not known: {error}."
    return f"and the comparison that it comes from says: {expected}" if expected else ""


def _evaluations(records: Sequence[Record]) -> str:
    return counted(len(records), "evaluation")


def _reported(outcome: Outcome, records: Sequence[Record]) -> str:
    trial, selected = outcome.trial, outcome.selected
    tested = {"main": ["main"], "all": ["main", "holdout"]}[trial.test]
    own = [records[0]["domains"][name] for name in trial.targets]
    parts = [parts[part] for parts in own for part in tested if part in parts]
    images = f", {sum(part['count'] for part in parts)} images" if all("count" in part for part in parts) else ""
    named = (
        f"the main part ({_whole(1 - trial.holdout)}{images})"
        if trial.test == "main"
        else f"both parts (100 %{images})"
    )
    reached = f"The number reported is {_percent(selected['target'] or 0.0)}: accuracy on"
    if trial.targets == (OFFICIAL,):
        return f"{reached} the test images of the official split{images}, at step {selected['step']}."
    targets = f"target{'s' * (len(trial.targets) > 1)} {' and '.join(trial.targets)}"
    return f"{reached} {named} of the {targets}, at step {selected['step']}."


def _because(outcome: Outcome, records: Sequence[Record], rule: Rule) -> str:
    targets, step = outcome.trial.targets, outcome.selected["step"]
    candidates = rule.candidates({frozenset(targets): records}, targets)
    value = next((one.value for one in candidates if one.record["step"] == step), None)
    reason = rule.reason.replace("validation accuracy", f"validation {outcome.trial.metric.replace('_', ' ')}")
    if outcome.trial.targets == (OFFICIAL,):
        reason = reason.replace("mean over the source domains' hold-outs", "on the official split's images for that")
    if value is None or len(candidates) < 2:
        return f"Step {step} was chosen because it {reason}."
    ties = sum(one.value == value for one in candidates)
    first = f", as the first of {ties} with the same value" if ties > 1 else ""
    return (
        f"Step {step} was chosen because it {reason}: {_percent(value)}, of {_evaluations(records)}{first}."
        f"{' The target had no part in this.' if targets else ''}"
    )


def _otherwise(outcome: Outcome, records: Sequence[Record]) -> str:
    """Say what other rules would have reported: a reader may know the number of one of them."""
    trial, last = outcome.trial, records[-1]
    given = {record["step"]: target_accuracy(record, trial.targets, trial.test) for record in records}
    same = last["step"] == outcome.selected["step"]
    said = f"The last step ({last['step']}) would have given {_percent(given[last['step']])}"
    said = "That is the last step as well" if same else said
    oracle = RULES["oracle"].choose({frozenset(trial.targets): records}, trial.targets)
    if oracle is not None:
        said += (
            ", which is what the oracle takes: it looks at the target's hold-out "
            f"({_percent(oracle.value)}) only to choose between hyperparameters"
        )
    best = max(given, key=lambda step: given[step])
    return f"{said}. The best in hindsight, which no rule may pick, was {_percent(given[best])} at step {best}."


def _averages(outcome: Outcome) -> list[str]:
    averages = outcome.result["averages"]
    return [
        f'The averaged weights beside it ("{name}") are reported as a model of their own: '
        f"{_reached(selected)} at step {selected['step']}."
        for name, numbers in averages.items()
        if (selected := numbers["selected"])
    ]


def _reached(selected: Summary) -> str:
    target = selected["target"]
    return f"validation {_percent(selected['validation'])}" if target is None else _percent(target)


def standing(outcome: Outcome, others: Sequence[Outcome]) -> str:
    """Say whether tables use this trial, where its seed has several that differ in their hyperparameters."""
    own = next((one for one in others if _id(one) == _id(outcome)), outcome)
    rivals = [one for one in others if _place(one) == _place(own)]
    if len(rivals) < 2 or accuracy(own) is None:
        return ""
    winner = arrange(rivals)[label(own.trial)][target(own.trial)][own.trial.seed]
    best = _percent(winner.selected["validation"])
    if _id(winner) == _id(own):
        return f"Tables use this trial: of the {len(rivals)} of its seed it has the best validation accuracy ({best})."
    return f"Tables use another trial of this seed, {_id(winner)}: its validation accuracy is better ({best})."


def _id(outcome: Outcome) -> str:
    return outcome.folder.name  # also of a trial from before a setting was added to what makes an id


def _place(outcome: Outcome) -> tuple[str, str, tuple[str, ...], int]:
    trial = outcome.trial
    return trial.data, label(trial), trial.targets, trial.seed


def overview(outcomes: Sequence[Outcome]) -> str:
    """Write one line per trial with the number it reports."""
    head, rows = ["id", "algorithm", "target", "seed", "status", "step", "validation", "reported"], []
    for one in sorted(outcomes, key=lambda one: (*_place(one), _id(one))):
        selected = one.selected
        numbers = [selected.get("step"), selected.get("validation"), selected.get("target")]
        texts = ["-" if n is None else str(n) if isinstance(n, int) else f"{100 * n:.1f}" for n in numbers]
        trial = one.trial
        rows.append([_id(one), label(trial), target(trial), str(trial.seed), one.result["status"], *texts])
    return text_table(head, rows)


def _whole(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"
