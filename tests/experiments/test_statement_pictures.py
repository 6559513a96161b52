"""Tests of the pictures of statements: they are written to the wanted file, in its format, without overlapping
parts.
"""

import io
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import sympy as sp
from matplotlib.backends.backend_agg import FigureCanvasAgg
from typed import command as run

from bounds import Form, Kind, Options, get
from experiments.pictures import as_bytes, drawn, pixels, themed, thumbnail
from experiments.pictures.panels import EDGE, REFUTES
from experiments.pictures.scales import linear, scaled
from experiments.pictures.svg import DARK
from experiments.studies.drawing import COLORS
from verification.case_points import CasePoints
from verification.statement_picture import seen_of


def seen(identifier, trials=2):
    statement = get(identifier)
    points_of = seen_of([statement], Options(trials=trials))
    return statement, {form: points for (_, form), points in points_of.items()}


def made_up(ratio, **more):
    """Returns invented cases of one family with these ratios left/right; the bound is 1."""
    count = len(ratio)
    columns = {"x": (1.0,) * count, "x_error": (0.0,) * count, "y": tuple(ratio), "y_error": (0.0,) * count}
    return CasePoints(count, ("made up",), (0,) * count, (0,) * count, ratio=tuple(ratio), **(columns | more))


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_show_draws_the_file_that_was_asked_for(tmp_path, suffix):
    path = tmp_path / f"picture.{suffix}"
    result = run("show", "fl-ntk/A.2", "--plot", path)
    assert result.exit_code == 0 and "Anti-concentration" in result.stdout and f"picture: {path}" in result.stderr
    content = path.read_bytes()
    if suffix == "svg":
        assert ElementTree.fromstring(content).tag.endswith("svg")
    else:
        assert content.startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[suffix])
    assert list(tmp_path.iterdir()) == [path]


def test_show_refuses_other_endings_and_several_statements(tmp_path):
    for name, said in (("a.gif", "ends in .gif"), ("a", "ends in nothing")):
        result = run("show", "fl-ntk/A.2", "--plot", tmp_path / name)
        assert result.exit_code == 2 and said in result.stderr and "must end in .png, .svg or .pdf" in result.stderr
    result = run("show", "alignment", "--plot", tmp_path / "a.png")
    assert result.exit_code == 2 and "draws one statement, these are 5" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("identifier", ["fl-ntk/B.12", "fl-ntk/A.2", "fl-ntk/C.6", "averaging/I3", "averaging/I1"])
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_nothing_overlaps_and_all_is_inside(identifier, narrow):
    figure = drawn(*seen(identifier), narrow=narrow)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    frame = figure.bbox
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    boxes += [text.get_window_extent(renderer) for text in figure.texts] + [
        figure.legends[0].get_window_extent(renderer)
    ]
    for box in boxes:
        assert box.x0 >= frame.x0 - 2 and box.x1 <= frame.x1 + 2 and box.y0 >= frame.y0 - 2 and box.y1 <= frame.y1 + 2
    for at, first in enumerate(boxes):
        for other in boxes[at + 1 :]:
            wide = min(first.x1, other.x1) - max(first.x0, other.x0)
            high = min(first.y1, other.y1) - max(first.y0, other.y0)
            assert min(wide, high) < 3  # in pixels


def test_a_picture_is_the_same_bytes_every_time():
    statement, points = seen("fl-ntk/A.2")
    for suffix in ("png", "svg"):
        assert as_bytes(drawn(statement, points), suffix, "x") == as_bytes(drawn(statement, points), suffix, "x")


@pytest.mark.parametrize(
    "ratio", [(0.0, 0.0), (0.0, 1e-9, 2.0), (-1.0, 0.5), (math.inf, 0.5), (1e-250, 1e200), (1.0,)], ids=str
)
def test_zeros_infinities_and_negative_sides_are_drawn_or_told(ratio):
    statement = get("fl-ntk/A.1")
    figure = drawn(statement, {Form.STATED: made_up(ratio)})
    assert as_bytes(figure, "png", "x")
    caption = figure.texts[-1].get_text()
    assert ("infinite side" in caption) == (math.inf in ratio) and ("exactly 0" in caption) == (0.0 in ratio)


def test_no_case_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"no case of fl-ntk/A.1 met its hypotheses.*choose other options"):
        drawn(get("fl-ntk/A.1"), {})


def test_every_kind_has_a_picture():
    for kind in Kind:
        ends = {"lower": sp.Integer(0) if kind is Kind.TWO_SIDED else None}
        claims: dict = {form: replace(claim, **ends) for form, claim in get("fl-ntk/A.1").forms.items()}
        statement = replace(get("fl-ntk/A.1"), kind=kind, **claims)
        assert as_bytes(drawn(statement, {Form.STATED: made_up((0.1, 0.2, 0.5, 0.7))}), "svg", "x")


def test_a_narrow_picture_has_the_same_panels_below_each_other():
    statement, points = get("fl-ntk/A.1"), {form: made_up((0.1, 0.5)) for form in get("fl-ntk/A.1").forms}
    wide, narrow = drawn(statement, points), drawn(statement, points, narrow=True)
    assert [axes.get_title() for axes in narrow.axes] == [axes.get_title() for axes in wide.axes]
    assert len({axes.get_position().x0 for axes in narrow.axes}) == 1 < len(narrow.axes)
    assert narrow.get_figwidth() <= 3.75 < wide.get_figwidth()  # 3.75 inches are 360 pixels of CSS.


def test_indices_in_the_names_of_families_are_set_as_indices():
    points = replace(made_up((0.1, 0.2)), families=("digits (eta_l=.03), U_anc = 0",))
    (label,) = drawn(get("fl-ntk/A.1"), {Form.STATED: points}).legends[0].get_texts()[:1]
    assert label.get_text() == r"digits ($η_{l}$=.03), $U_{\mathrm{anc}}$ = 0"


def test_a_name_of_a_family_is_no_markup():
    points = replace(made_up((0.1, 0.2)), families=("<script>alert(1)</script> & $x",))
    content = as_bytes(drawn(get("fl-ntk/A.1"), {Form.STATED: points}), "svg", "x")
    assert b"<script" not in content and ElementTree.parse(io.BytesIO(content)) is not None


def test_a_zero_has_its_place_below_the_smallest_number():
    scale = scaled([0.0, 1e-3, 1.0])
    assert scale.log and list(scale.place([0.0, 1e-3])) == [scale.floor, 1e-3] and scale.low < scale.floor < 1e-3
    assert not scaled([-1.0, 1.0]).log and linear([2.0, 3.0]).low < 2 and np.isfinite(scaled([]).low)


def test_a_picture_on_a_page_has_colours_for_light_and_dark_and_nothing_else_is_changed():
    statement, forms = seen("fl-ntk/B.12")
    plain = as_bytes(drawn(statement, forms), "svg", "B.12")
    shown = themed(plain).decode()
    ElementTree.fromstring(shown)
    style = re.search("<style>svg(.*?)</style>", shown)[0]
    light, dark = (dict(re.findall("(--[0-9a-f]+):(#[0-9a-f]+)", half)) for half in style.split("@media"))
    assert light.keys() == dark.keys() and all(light[name] != dark[name] for name in light)
    assert all(name[2:] == color[1:] for name, color in light.items())
    assert re.sub(r"var\(--([0-9a-f]+)\)", r"#\1", shown.replace(style, "")).encode() == plain


@pytest.mark.parametrize("ground", ["#ffffff", "#16181c"], ids=["light", "dark"])
def test_every_colour_of_a_picture_can_be_seen_on_its_ground(ground):
    for color in {*COLORS, EDGE, REFUTES, "#000000"}:
        shown = DARK.get(color.lower(), color) if ground != "#ffffff" else color
        assert abs(luminance(shown) - luminance(ground)) > 0.12, shown


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def test_a_small_picture_is_one_panel_of_the_form_that_holds_without_words_around_it():
    statement, forms = seen("fl-ntk/B.12")
    figure = thumbnail(statement, forms)
    (axes,) = figure.axes
    assert not figure.texts and not figure.legends and axes.get_xlabel() == "right side (the bound)"
    assert r"u_{r}" in axes.get_ylabel()
    assert pixels(as_bytes(figure, "svg", "B.12")) == (250, 211)


def test_a_panel_for_a_paper_names_the_families_below_its_axis():
    statement, forms = seen("fl-ntk/B.12")
    figure = thumbnail(statement, forms, legend=True)
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    box = legend.get_window_extent()
    assert 0 <= box.y0 < box.y1 <= axes.get_tightbbox().y0 and 0 <= box.x0 < box.x1 <= figure.bbox.width
    named = {text.get_text() for text in legend.get_texts()} - {"would refute it", "violates it", "stored case"}
    colors = {line.get_color() for line in axes.get_lines() if isinstance(line.get_color(), str)}
    marks = {mark.get_color() for mark in legend.legend_handles if hasattr(mark, "get_marker")}
    assert named and marks >= colors - {EDGE, "black"} and len(marks) >= len(named)
