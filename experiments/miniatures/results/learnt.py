"""What the miniatures show, in sentences with numbers and words from the results."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from experiments.miniatures.comparison import NOT_SEEN, OPPOSITE, SEEN, STEP_SIZE, Comparison, compared
from experiments.miniatures.miniature import Miniature
from experiments.miniatures.results.by_scale import Result
from ntkfl.messages import number_of

VERDICTS = SEEN, STEP_SIZE, NOT_SEEN, OPPOSITE


class Found:
    """The comparisons of all results, and the keys of each setting."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.rows = {miniature.label: compared(miniature, cells) for miniature, cells in results}
        self.miniatures: Mapping[str, Miniature] = {miniature.label: miniature for miniature, _ in results}

    def every(self, wanted: Callable[[Mapping], bool] = lambda keys: True) -> Iterator[tuple[str, Comparison]]:
        """The comparisons of settings with their baselines, each with the label of its miniature.

        A setting is left out if `wanted` is false for its keys.
        """
        for label, rows in self.rows.items():
            keys = {setting.name: setting.keys for setting in self.miniatures[label].settings}
            yield from ((label, row) for row in rows if not math.isnan(row.difference) and wanted(keys[row.setting]))

    def one(self, label: str, setting: str, quantity: str = "test accuracy") -> Comparison | None:
        """The comparison of this setting and quantity; None if it is not among the results."""
        return next((r for r in self.rows.get(label, ()) if (r.setting, r.quantity) == (setting, quantity)), None)


def sentences(results: Sequence[Result]) -> list[str]:
    """The sentences about those miniatures that are among the results."""
    everything = Found(results)
    makers = _counts, _fedgucci, _largest, _sharpness, _feddyn, _scaffold, _ima, _connected, _undertrained, _scale
    return [sentence for make in makers if (sentence := make(everything))]


def _counts(results: Found) -> str:
    judged = [row for _, row in results.every() if row.verdict in VERDICTS]
    if not judged:
        return ""
    seen, step, noise, other = (sum(row.verdict == verdict for row in judged) for verdict in VERDICTS)
    alone = sum(row.verdict == SEEN and not row.beyond_finding for row in judged)
    uncontrolled = f"{alone} are seen in settings without a control of the step size, " if alone else ""
    return (
        f"Of {number_of(len(judged), 'ordering')} that the papers report, {seen - alone} are seen here beyond the "
        f"effect of the step size, {uncontrolled}{step} are seen but are no more than the effect of the step size, "
        f"{noise} are within noise, and in {other} the opposite is seen."
    )


def _connecting(keys: Mapping) -> bool:
    """Whether the method is FedGuCci as in the paper, without the additions of FedGuCci+."""
    return keys.get("method") == "fedgucci" and not keys.get("options", {}).get("released")


def _fedgucci(results: Found) -> str:
    rows = [row for _, row in results.every(_connecting)]
    if not rows:
        return ""
    above = sum(row.finding == "higher" for row in rows)
    beyond = sum(row.finding == row.beyond_finding == "higher" for row in rows)
    rest = f"; the other {above - beyond} may be the effect of a larger step alone" if above > beyond else ""
    return (
        f"FedGuCci is above FedAvg in {above} of {number_of(len(rows), 'comparison')}. In {beyond} of these it is also "
        f"above its control, FedAvg at the step sizes to which FedGuCci amounts (statement fedgucci/X4){rest}."
    )


def _largest(results: Found) -> str:
    rows = [(label, row) for label, row in results.every(_connecting) if not math.isnan(row.beyond_error)]
    if not rows:
        return ""
    label, row = max(rows, key=lambda pair: pair[1].difference)
    sentence = (
        f"The largest gain of FedGuCci, {_signed(row.difference, row.difference_error)} points ({row.setting}, in "
        f"{label}), is {_signed(row.beyond, row.beyond_error)} above the gain of its control"
    )
    released = results.one("ablation", "FedGuCci, as released")
    if released is not None:
        sentence += (
            f"; the released FedGuCci, with two steps of the optimizer for one, gains "
            f"{_signed(released.difference, released.difference_error)} points in ablation, and its control "
            f"{_signed(released.difference - released.beyond)}"
        )
    return f"{sentence}."


def _sharpness_aware(keys: Mapping) -> bool:
    """Whether the method is FedSAM or FedGuCci+, with a radius other than 0."""
    return keys.get("method") in ("fedsam", "fedgucci+") and keys.get("options", {}).get("rho") != 0


def _sharpness(results: Found) -> str:
    rows = [row for _, row in results.every(_sharpness_aware)]
    settled = [row for row in rows if not row.settled]
    if not rows:
        return ""
    above, below, settled_above, settled_below = (
        sum(row.finding == finding for row in among) for among in (rows, settled) for finding in ("higher", "lower")
    )
    return (
        f"Of the sharpness-aware methods (FedSAM, FedGuCci+) {above} of {number_of(len(rows), 'setting')} are above "
        f"FedAvg and {below} below it; of the {len(settled)} that are on a plateau {settled_above} are above and "
        f"{settled_below} below it."
    )


def _feddyn(results: Found) -> str:
    row = results.one("ordering", "FedDyn")
    if row is None:
        return ""
    return (
        f"FedDyn differs from FedAvg by {_signed(row.difference, row.difference_error)} points; the paper has "
        f"{row.paper_difference:+.2f}. Its control, FedAvg with the Nesterov momentum at the server to which FedDyn's "
        f"duals amount, differs from FedAvg by {_signed(row.difference - row.beyond)}."
    )


def _scaffold(results: Found) -> str:
    row, released = results.one("ordering", "SCAFFOLD"), results.one("ordering", "SCAFFOLD, as released")
    if row is None or released is None:
        return ""
    return (
        f"SCAFFOLD is {_signed(row.difference, row.difference_error)} points from FedAvg and "
        f"{_signed(row.beyond, row.beyond_error)} from FedAvg with the unweighted mean. The released code runs FedAvg "
        f"with the unweighted mean under the name of SCAFFOLD: here it is "
        f"{_signed(released.difference, released.difference_error)} from FedAvg, in the paper "
        f"{row.paper_difference:+.2f}."
    )


def _ima(results: Found) -> str:
    added: dict[tuple[float, ...], Comparison] = {}  # a run that has two names or is in two miniatures counts once
    for label, row in results.every(lambda keys: bool(keys.get("ima")) and keys.get("ima_window") != 1):
        if row.quantity == "test accuracy" and not math.isnan(row.beyond) and not label.startswith("ima-window"):
            added.setdefault(tuple(round(value, 6) for value in (row.mean, row.difference, row.beyond)), row)
    rows = list(added.values())
    if not rows:
        return ""
    above = sum(row.finding == "higher" for row in rows)
    beyond = sum(row.finding == row.beyond_finding == "higher" for row in rows)
    return (
        f"IMA is above the method that it is added to in {above} of {number_of(len(rows), 'comparison')}. In {beyond} "
        "of these it is also above a run with the same rates and passes but without averaging; the paper has no such "
        "baseline."
    )


def _connected(results: Found) -> str:
    row = results.one("transitivity", "beta 3, trained anchor", "accuracy barrier")
    base = results.one("transitivity", "cross-entropy", "accuracy barrier")
    if row is None or base is None:
        return ""
    return (
        f"Models that were trained from different starts and connected to one trained anchor have an accuracy barrier "
        f"of {row.mean:.2g} between them; models trained alone have {base.mean:.2g}. As the models do not start at the "
        f"anchor, a larger step would not have this effect; the paper's ordering is {row.verdict}."
    )


def _undertrained(results: Found) -> str:
    moving = Counter(label for label, row in results.every() if row.claim and row.settled)
    if not moving:
        return ""
    which = ", ".join(f"{label} ({count})" for label, count in moving.items())
    return (
        f"In {number_of(moving.total(), 'ordering')} the curves still move, or the error is too large to tell: "
        f"{which}. These comparisons say which setting is faster, not which is better in the end."
    )


def _scale(results: Found) -> str:
    rows = [row for _, row in results.every() if row.verdict == NOT_SEEN and row.paper_difference is not None]
    settings = [row for _, row in results.every() if row.paper_difference is not None]
    # other quantities are not in percent
    errors = [row.difference_error for row in rows if row.quantity == "test accuracy"]
    if not errors:
        return ""
    return (
        f"{len(rows)} of the {len(settings)} printed differences are within noise here, so that the miniatures neither "
        f"show nor exclude them (standard errors of accuracies are up to {max(errors):.1f} points); `--scale paper` "
        "runs the settings as printed."
    )


def _signed(value: float, error: float = math.nan) -> str:
    return f"{value:+.2f}" + ("" if math.isnan(error) else f" ± {error:.2f}")
