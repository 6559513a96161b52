"""Whether training has ended: the rule on planted curves, and a page's words on orderings of curves that still move."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from test_miniatures import toy

from experiments.miniatures.cells import run
from experiments.miniatures.comparison import BEYOND, NOT_SEEN, OPPOSITE, SEEN, STEP_SIZE, compared, last_third
from experiments.miniatures.miniature import Quantity, Setting
from experiments.miniatures.results.curves import drawn
from experiments.miniatures.results.results_page import as_csv, results_page

CURVE = Quantity("score", "%, mean of the last 3 rounds", last=3, flat=1.0, chance=10.0)
ROUNDS = 30


@pytest.mark.parametrize("rise, spread, state", [(0.3, 0.1, "flat"), (3.0, 0.1, "moves"), (0.3, 3.0, "unclear")])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_line_rises_by_what_it_was_given(rise, spread, state, sign):
    """In the last third, the two seeds rise by rise - spread and rise + spread; earlier rounds do not matter."""
    slopes = [sign * (rise + off) / (ROUNDS // 3 - 1) for off in (-spread, spread)]
    before = np.random.default_rng(0).standard_normal((2, ROUNDS - ROUNDS // 3)) * 50
    curves = [[*old, *(70 + slope * np.arange(ROUNDS // 3))] for old, slope in zip(before, slopes, strict=True)]
    trend = last_third(curves, 1.0, BEYOND)
    assert (trend.change, trend.error) == (pytest.approx(sign * rise), pytest.approx(spread)) and trend.state == state


@given(st.lists(st.lists(st.floats(0, 100), min_size=9, max_size=9), min_size=2, max_size=4), st.floats(-50, 50))
def test_a_level_changes_nothing_and_a_mirror_the_sign(curves, level):
    trend = last_third(curves, 1.0, BEYOND)
    moved = last_third([[level - value for value in curve] for curve in curves], 1.0, BEYOND)
    assert moved.change == pytest.approx(-trend.change, abs=1e-9) and moved.error == pytest.approx(
        trend.error, abs=1e-9
    )


def test_one_seed_shows_no_plateau_and_five_rounds_are_too_few():
    assert last_third([[1.0] * 9], 1.0, BEYOND).state == "unclear"
    with pytest.raises(ValueError, match="the curve has 5 rounds; a plateau needs 6 or more"):
        last_third([[1.0] * 5], 1.0, BEYOND)


def curves(**effects):
    """A miniature whose curves are 60 plus the effect and rise by `rise` over the last third, with some noise."""
    settings = [Setting("base", {"effect": 0.0, "rise": effects.pop("base_rise", 0.0)})]
    claim = effects.pop("claim", "higher")
    for name, (effect, rise, control) in effects.items():
        of_it = {"score": claim} if name == "more" else {}
        settings.append(Setting(name, {"effect": effect, "rise": rise}, "base", claim=of_it, control=control))

    def measure(keys, seed):
        ramp = np.clip((np.arange(ROUNDS) - 20) / 9, 0, 1)
        noise = 0.05 * np.random.default_rng([seed, int(1000 * abs(keys["effect"]))]).standard_normal()
        return {"score": list(60 + keys["effect"] + noise + keys["rise"] * (ramp - 1))}

    return toy(measure, *settings, quantities=(CURVE,))


def ordering(miniature):
    return next(row for row in compared(miniature, run(miniature, range(4))) if row.setting == "more")


@pytest.mark.parametrize(
    "effect, of_control, verdict",
    [(2.0, 1.0, SEEN), (2.0, 2.0, STEP_SIZE), (2.0, 3.0, STEP_SIZE), (-2.0, -3.0, OPPOSITE), (0.0, -1.0, NOT_SEEN)],
)
def test_an_ordering_is_seen_only_beyond_its_control(effect, of_control, verdict):
    comparison = ordering(curves(more=(effect, 0.0, "same"), same=(of_control + 0.001, 0.0, None)))
    assert comparison.verdict == verdict and comparison.ordering == f"higher: {verdict}"
    assert comparison.beyond == pytest.approx(effect - of_control, abs=0.2) and comparison.beyond_error < 0.1
    alone = ordering(curves(more=(effect, 0.0, None)))
    assert alone.verdict == {2.0: SEEN, -2.0: OPPOSITE, 0.0: NOT_SEEN}[effect] and math.isnan(alone.beyond)


def test_where_the_baseline_has_a_control_the_gains_over_the_controls_are_compared():
    """'more' is 2 above its baseline; its control is 2 or 1 above the baseline too."""
    for of_controls, verdict in ((2.0, STEP_SIZE), (1.0, SEEN)):
        effects = {"base": 1.0, "more": 3.0, "base alone": 0.5, "more alone": 0.5 + of_controls}
        controls = {"base": "base alone", "more": "more alone"}
        settings = tuple(
            Setting(
                name,
                {"effect": effect},
                None if name == "base" else "base",
                claim={"score": "higher"} if name == "more" else {},
                control=controls.get(name),
            )
            for name, effect in effects.items()
        )

        def measure(keys, seed):
            noise = 0.05 * np.random.default_rng([seed, int(1000 * keys["effect"])]).standard_normal()
            return {"score": 60 + 5 * seed + keys["effect"] + noise}  # a seed changes all settings alike

        comparison = ordering(toy(measure, *settings, quantities=(Quantity("score", "%"),)))
        assert comparison.difference == pytest.approx(2, abs=0.2)
        assert comparison.beyond == pytest.approx(2 - of_controls, abs=0.2) and comparison.beyond_error < 0.1
        assert comparison.verdict == verdict


@pytest.mark.parametrize("where", ["base", "more", "same"])
def test_an_ordering_of_curves_that_move_is_one_before_the_plateau(where):
    rises = {"base": 0.0, "more": 0.0, "same": 0.0, where: 5.0}
    more, same = (2.0, rises["more"], "same"), (0.001, rises["same"], None)
    comparison = ordering(curves(more=more, same=same, base_rise=rises["base"]))
    assert comparison.ordering == f"higher: {SEEN}, before the plateau"


def test_at_chance_nothing_is_claimed():
    here = curves(more=(-50.0, 0.0, None), claim="lower")
    assert ordering(here).ordering == "no claim: at chance here"
    assert ordering(curves(more=(-40.0, 0.0, None), claim="lower")).ordering == f"lower: {SEEN}"


def test_less_than_one_test_image_is_no_difference():
    """Seeds that agree to the last digit have no spread: any difference would count as a finding."""
    settings = Setting("base", {"effect": 0.0}), Setting("more", {"effect": 0.2}, "base", claim={"score": "higher"})
    for image, finding in ((0.28, "within noise"), (0.2, "higher"), (0.1, "higher")):
        quantity = Quantity("score", "%", resolution=lambda keys, image=image: image)
        one = toy(lambda keys, seed: {"score": 70 + 0.1 * seed + keys["effect"]}, *settings, quantities=(quantity,))
        assert ordering(one).finding == finding and 0 <= ordering(one).difference_error < 1e-12
        assert "| +0.20 ± 0.00 |" in results_page([(one, run(one, range(4)))], ""), "an error of rounding has no digits"


def test_the_page_and_the_picture_show_control_and_plateau(tmp_path):
    miniature = curves(more=(2.0, 5.0, "same"), same=(1.001, 0.0, None))
    cells = run(miniature, range(4), tmp_path)
    assert run(miniature, range(4), tmp_path) == cells and all(len(cell.curves["score"]) == ROUNDS for cell in cells)
    assert cells[1].numbers["score"] == pytest.approx(np.mean(cells[1].curves["score"][-3:]))
    text = results_page([(miniature, cells)], "")
    (row,) = (line for line in text.splitlines() if line.startswith("| more"))
    assert row.endswith(f"moves | higher | higher: {SEEN}, before the plateau |") and row.count("±") == 4
    assert "| 1 | 0 | 0 | 0 | 0 |" in text and "docs/curves/toy.svg" in text
    assert ",moves" not in as_csv([(miniature, cells)]) and "last third" in as_csv([(miniature, cells)])
    (panel,) = (axes for axes in drawn(miniature, cells).axes if axes.lines)
    assert [line.get_label() for line in panel.lines] == ["base", "more", "same"]
    assert [line.get_linestyle() for line in panel.lines] == ["-", "-", "--"]
    np.testing.assert_allclose(panel.lines[1].get_ydata(), np.mean([c.curves["score"] for c in cells[1::3]], axis=0))
    assert panel.get_ylabel() and panel.get_xlabel()
