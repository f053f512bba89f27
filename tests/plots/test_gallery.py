"""Every script of the gallery runs, and what its figure claims holds."""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs.gallery.build import contact_sheet, gallery_page
from matplotlib.text import Text
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from oddsmith import detect_separation
from oddsmith.lectures.algorithms import irls
from oddsmith.lectures.gallery import SECTIONS, draw, scripts

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
LARGEST_FILE, LARGEST_SHEET = 60_000, 1_000_000


@cache
def gallery(name: str) -> dict[str, Any]:
    """What a script defines."""
    return draw(name)


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """The figures are not kept for the tests of other modules."""
    yield
    gallery.cache_clear()


def picture(figure: Any) -> np.ndarray:
    """The figure as it is drawn, rows × columns × 3, 0 … 255."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].astype(int)


def pixel(image: np.ndarray, ax: Any, x: float, y: float) -> np.ndarray:
    """The colour of a picture at a point of the data."""
    column, row = ax.transData.transform((x, y))
    return image[image.shape[0] - 1 - round(row), round(column)]


@pytest.mark.parametrize("name", scripts())
def test_script_makes_a_figure_with_named_axes_whose_labels_stay_inside_and_apart(name: str) -> None:
    figure = gallery(name)["figure"]
    figure.draw_without_rendering()
    width, height = figure.bbox.size
    for ax in figure.axes:
        texts, below, left = [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label], [], []
        if ax.name != "3d":  # there a tick outside of the limits is anywhere
            below, left = ax.get_xticklabels(), ax.get_yticklabels()
            texts += [*below, *left]
        legend = ax.get_legend()
        texts += legend.get_texts() if legend is not None else []
        for text in texts:
            if not text.get_text() or not text.get_visible():
                continue
            box = text.get_window_extent()
            low, high = ax.bbox.x0 - 1, ax.bbox.x1 + 1
            if text in below and not low <= box.x0 + box.width / 2 <= high:
                continue  # of a tick outside of the limits, which is not drawn
            if text in left and not ax.bbox.y0 - 1 <= box.y0 + box.height / 2 <= ax.bbox.y1 + 1:
                continue
            assert box.x0 >= -2 and box.x1 <= width + 2 and box.y0 >= -2 and box.y1 <= height + 2, text.get_text()
    names = [text for ax in figure.axes for text in (ax._left_title, ax.title, ax.xaxis.label, ax.yaxis.label)]
    boxes = [text.get_window_extent() for text in names if text.get_text() and text.get_visible()]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])
    assert names_its_axes(figure)


def names_its_axes(figure: Any) -> bool:
    """Whether every panel has names for both axes; those that share an axis have its name once, below or left."""
    panels = [ax for ax in figure.axes if ax.get_subplotspec() is not None]  # others are bars of colours
    for ax in panels:
        place = ax.get_subplotspec()
        below = [one.get_xlabel() for one in panels if one.get_subplotspec().colspan == place.colspan]
        left = [one.get_ylabel() for one in panels if one.get_subplotspec().rowspan == place.rowspan]
        words = any(tick.get_text()[:1].isalpha() for tick in ax.get_yticklabels())  # such ticks name themselves
        if not (any(below) and (any(left) or words)):
            return False
    return True


def test_page_and_files_are_those_of_the_scripts() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(path.stem.removeprefix("plot_") for path in GALLERY.glob("plot_*.py"))
    assert (GALLERY / "README.md").read_text(encoding="utf-8") == gallery_page(), "run make gallery"
    files = {path.stem: path.stat().st_size for path in (GALLERY / "figures").glob("*.png")}
    assert 50_000 < files.pop("contact_sheet") < LARGEST_SHEET
    assert sorted(files) == sorted(listed)
    assert max(files.values()) < LARGEST_FILE


def test_contact_sheet_shows_every_figure(tmp_path: Path) -> None:
    from PIL import Image

    files = {f"f{k}": tmp_path / f"f{k}.png" for k in range(3)}
    for k, path in enumerate(files.values()):
        Image.new("RGB", (600, 400), (80 * k, 0, 0)).save(path)
    contact_sheet(files, tmp_path / "sheet.png", columns=2, width=100, height=90)
    sheet = np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB"))
    assert sheet.shape == (180, 200, 3)
    assert [tuple(sheet[y, x]) for y, x in ((50, 50), (50, 150), (140, 50))] == [(0, 0, 0), (80, 0, 0), (160, 0, 0)]


@pytest.mark.parametrize("name", ["decision_regions", "posterior_maps", "zigzag"])
def test_figure_has_the_same_pixels_when_it_is_drawn_again(name: str) -> None:
    assert np.array_equal(picture(draw(name)["figure"]), picture(draw(name)["figure"]))


def test_every_class_keeps_its_marker_so_that_grey_tells_them_apart() -> None:
    found = gallery("four_classes")
    (ax,) = found["figure"].axes
    shapes = [
        tuple(map(tuple, drawn.get_paths()[0].vertices.round(6)))
        for drawn in ax.collections
        if drawn.get_label() in found["y"]
    ]
    assert len(set(shapes)) == len(shapes) == 4


# --- what the figures claim ---


def test_every_figure_has_its_claim_tested_below() -> None:
    below = Path(__file__).read_text(encoding="utf-8").partition("# --- what the figures claim ---")[2]
    assert [name for name in scripts() if f'gallery("{name}")' not in below] == []


def test_links_differ_in_the_tails_alone() -> None:
    d = gallery("links")["display"]
    logit, probit = d.curves.values()
    middle = np.abs(d.a) < 0.2
    assert np.allclose(logit[middle], probit[middle], atol=1e-4)
    assert np.interp(-4.0, d.a, probit) < 0.5 * np.interp(-4.0, d.a, logit)
    assert np.allclose(logit + logit[::-1], 1.0)


def test_other_links_are_skew_or_end() -> None:
    d = gallery("other_links")["display"]
    assert np.interp(0.0, d.a, d.curves["cloglog"]) == pytest.approx(1 - np.exp(-1))
    assert np.allclose(d.curves["cloglog"] + d.curves["loglog"][::-1], 1.0)
    assert np.isnan(d.curves["log"][d.a > 0]).all()
    assert np.isnan(d.curves["identity"][(d.a < 0) | (d.a > 1)]).all()


def test_sigmoid_is_as_steep_as_w_is_long() -> None:
    d = gallery("sigmoid_steepness")["display"]
    slopes = [np.gradient(curve, d.a)[len(d.a) // 2] for curve in d.curves.values()]
    assert np.allclose(slopes, np.array([0.5, 1, 2, 8]) / 4, rtol=0.02)


def test_class_densities_cross_at_the_boundary_and_leave_the_bayes_error() -> None:
    found = gallery("class_densities")
    d, model = found["display"], found["model"]
    assert d.boundaries == pytest.approx([-model.intercept_[0] / model.coef_[0, 0]], abs=1e-3)
    step = d.x[1] - d.x[0]
    assert d.joint.sum() * step == pytest.approx(1.0, abs=1e-3)
    assert (d.joint.sum(axis=1) - d.joint.max(axis=1)).sum() * step == pytest.approx(found["error"].error, rel=1e-3)


def curvature_of_boundary(d: Any, one: str, other: str) -> float:
    """How far (in grid steps) the boundary between two classes is from the best line through it."""
    i, j = d.classes.index(one), d.classes.index(other)
    sides = [
        (rows + 0.5 * down, columns + 0.5 * right)
        for right, down, a, b in ((1, 0, d.regions[:, :-1], d.regions[:, 1:]), (0, 1, d.regions[:-1], d.regions[1:]))
        for rows, columns in [np.nonzero(((a == i) & (b == j)) | ((a == j) & (b == i)))]
    ]
    points = np.column_stack([np.concatenate(c) for c in zip(*sides, strict=True)])
    assert len(points) > 20
    centred = points - points.mean(axis=0)
    return float(np.abs(centred @ np.linalg.svd(centred, full_matrices=False)[2][1]).max())


def test_boundaries_are_straight_where_covariances_are_shared() -> None:
    shown = gallery("covariances")["displays"]
    for one, other in (("A", "B"), ("A", "C")):
        assert curvature_of_boundary(shown["shared"], one, other) < 1.0
    assert curvature_of_boundary(shown["A and B share"], "A", "B") < 1.0
    assert curvature_of_boundary(shown["A and B share"], "A", "C") > 5.0
    assert curvature_of_boundary(shown["separate"], "A", "C") > 5.0
    assert curvature_of_boundary(shown["separate"], "A", "B") > 1.5  # straight only where they share


def test_another_class_prior_moves_the_boundary_parallel() -> None:
    found = gallery("class_prior")
    first = found["model"].boundary_
    offsets = [first.offset]
    for boundary in found["boundaries"].values():
        assert np.allclose(boundary.normal, first.normal, atol=1e-12)
        offsets.append(boundary.offset)
    assert (np.diff(offsets) > 0).all()  # the usual class gains ground


def test_laplace_touches_at_the_mode_with_the_same_curvature() -> None:
    found = gallery("laplace")
    fit, h = found["display"].approximation, 1e-4
    f = [found["log_density"](fit.mode + d) for d in (-h, 0.0, h)]
    assert abs(f[2] - f[0]) / (2 * h) < 1e-6
    assert (2 * f[1] - f[0] - f[2]) / h**2 == pytest.approx(1 / fit.covariance, rel=1e-4)
    d = found["display"]
    assert np.trapezoid(d.density, d.x) == pytest.approx(1.0) and np.abs(d.density - d.gaussian).max() > 0.1


def test_decision_regions_have_the_colour_of_the_class_predicted() -> None:
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb

    from oddsmith.plots.style import color_of

    found = gallery("decision_regions")
    d, table = found["display"], found["table"]
    rows = np.column_stack([table[name].to_numpy() for name in d.names])
    _, ax = plt.subplots()
    d.plot(ax, samples=False)
    image = picture(ax.figure)
    for k, species in enumerate(d.classes):
        x, y = rows[table["species"].to_numpy() == species].mean(axis=0)
        assert d.class_at(x, y) == species
        expected = 255 * (0.22 * np.array(to_rgb(color_of(k))) + 0.78)
        assert np.abs(pixel(image, ax, x, y) - expected).max() <= 2
    assert curvature_of_boundary(d, "Adelie", "Gentoo") < 1.0
    assert d.figure_.axes[0].get_xlabel() == "bill_length_mm"


def test_four_classes_have_convex_regions() -> None:
    found = gallery("four_classes")
    d = found["display"]
    for centre, label in zip(found["centres"], ("north-west", "north-east", "south-east", "south-west"), strict=True):
        assert d.class_at(*centre) == label
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, len(d.x), (2, 4000, 2))
    same = d.regions[a[:, 0], a[:, 1]] == d.regions[b[:, 0], b[:, 1]]
    middle = ((a + b) // 2)[same & ((a + b) % 2 == 0).all(axis=1)]
    first = a[same & ((a + b) % 2 == 0).all(axis=1)]
    assert len(middle) > 100
    assert (d.regions[middle[:, 0], middle[:, 1]] == d.regions[first[:, 0], first[:, 1]]).all()


def test_expansion_helps_where_no_line_separates() -> None:
    shown = gallery("expansion")["displays"]

    def share(d: Any) -> float:
        return float(np.mean([d.class_at(*p) == d.classes[k] for p, k in zip(d.points, d.codes, strict=True)]))

    assert share(shown["separable", "linear"]) > 0.97 and share(shown["separable", "quadratic"]) > 0.97
    assert share(shown["not separable", "linear"]) < 0.75 < 0.97 < share(shown["not separable", "quadratic"])
    ring = shown["not separable", "quadratic"]
    assert ring.class_at(0, 0) == "A"
    assert {ring.class_at(x, y) for x in (-3, 3) for y in (-3, 3)} == {"B"}


def test_distances_are_those_to_the_feet_on_the_boundary() -> None:
    found = gallery("distance")
    d, model = found["display"], found["model"]
    assert np.allclose(np.linalg.norm(found["points"] - found["feet"], axis=1), np.abs(found["distances"]))
    assert np.allclose(model.decision_function(found["feet"]), 0.0, atol=1e-9)
    assert [d.class_at(*point) for point in found["points"]] == [
        "positive" if distance > 0 else "negative" for distance in found["distances"]
    ]
    assert found["distances"][-1] == pytest.approx(-model.boundary_.origin_distance)


def test_perceptrons_separate_by_other_lines_and_logistic_regression_by_one() -> None:
    found = gallery("perceptron")

    def largest_angle(models: Any) -> float:
        normals = np.array([model.boundary_.normal for model in models])
        return float(np.degrees(np.arccos(np.clip(normals @ normals.T, -1.0, 1.0))).max())

    assert all(model.converged_ and model.score(found["X"], found["y"]) == 1.0 for model in found["perceptrons"])
    assert largest_angle(found["perceptrons"]) > 5.0 > 1e-3 > largest_angle(found["logistic"])


def test_two_class_rules_leave_ambiguous_places_and_the_largest_does_not() -> None:
    shown = gallery("ambiguous")["displays"]
    centre = [np.abs(shown["one against one"].y).argmin(), np.abs(shown["one against one"].x).argmin()]
    for name in ("one against the rest", "one against one"):
        assert shown[name].ambiguous[tuple(centre)]
        assert not shown[name].ambiguous.all()
    assert shown["the largest of three"].ambiguous is None
    assert shown["one against the rest"].ambiguous.sum() > shown["one against one"].ambiguous.sum()


def test_fisher_leaves_two_directions_that_separate() -> None:
    found = gallery("fisher")
    d = found["display"]
    assert found["Z"].shape[1] == 2
    assert np.mean([d.class_at(*p) == d.classes[k] for p, k in zip(d.points, d.codes, strict=True)]) > 0.98


def test_posterior_maps_are_white_at_their_class_and_black_at_others() -> None:
    import matplotlib.pyplot as plt

    found = gallery("posterior_maps")
    d, table = found["display"], found["table"]
    assert np.allclose(d.proba.sum(axis=2), 1.0)
    rows = np.column_stack([table[name].to_numpy() for name in d.names])
    _, axes = plt.subplots(1, 3)
    d.plot(axes, samples=False)
    image = picture(axes[0].figure)
    for k in range(3):
        for j, species in enumerate(d.classes):
            grey = pixel(image, axes[k], *rows[table["species"].to_numpy() == species].mean(axis=0))
            assert np.ptp(grey) == 0 and (grey[0] > 235 if j == k else grey[0] < 20)


def test_prior_makes_the_map_softer() -> None:
    maps = gallery("prior_width")["maps"]
    sharp, soft = maps["maximum likelihood"], maps["prior of σ = 2"]
    assert sharp.sharpness > 1.2 * soft.sharpness
    assert np.mean(sharp.proba.max(axis=2) < 0.9) < 0.5 * np.mean(soft.proba.max(axis=2) < 0.9)


def test_uncertainty_grows_away_from_the_data() -> None:
    found = gallery("uncertainty")
    d, model = found["display"], found["model"]
    normal, offset = model.boundary_.normal, model.boundary_.offset
    along, foot = np.array([-normal[1], normal[0]]), -offset * normal  # on the boundary, near the data

    def std(point: np.ndarray) -> float:
        return float(d.measures["std"][np.abs(d.y - point[1]).argmin(), np.abs(d.x - point[0]).argmin()])

    assert std(foot + 3.5 * along) > 2 * std(foot) and std(foot - 3.5 * along) > 2 * std(foot)
    rows = np.stack(np.meshgrid(d.x, d.y), axis=-1).reshape(-1, 2)
    plug_in = model.predict_proba(rows)[:, 1]
    # Averaging pulls probabilities towards a half.
    assert (np.abs(d.mean[:, :, 1].ravel() - 0.5) <= np.abs(plug_in - 0.5) + 1e-9).all()


def test_far_rows_turn_the_boundary_of_least_squares_only() -> None:
    found = gallery("outliers_least_squares")

    def turned(name: str) -> float:
        before, after = (found["boundaries"][name, k].normal for k in (0, 1))
        return float(np.degrees(np.arccos(abs(before @ after))))

    assert turned("least squares") > 25.0 and turned("logistic regression") < 5.0
    for name, right in (("least squares", False), ("logistic regression", True)):
        d = found["displays"][name, 1]
        near = d.points[:160]
        said = np.array([d.class_at(*p) == d.classes[k] for p, k in zip(near, d.codes[:160], strict=True)])
        assert (said.mean() > 0.98) == right


def test_wrong_labels_flatten_probit_more() -> None:
    slopes = gallery("outliers_probit")["slopes"]
    kept = {
        model: slopes[model, "three wrong labels at the right"] / slopes[model, "clean"]
        for model in ("LogisticRegression", "ProbitRegression")
    }
    assert kept["ProbitRegression"] < 0.8 * kept["LogisticRegression"] < 0.8


def test_most_influential_row_is_the_one_put_there() -> None:
    d = gallery("influence")["display"]
    assert d.most(1) == [0]
    formula = d.residual**2 * d.leverage / ((1 - d.leverage) * d.n_weights)
    assert np.allclose(formula, d.cooks_distance)


def test_gradient_zigzags_and_newton_does_not() -> None:
    found = gallery("zigzag")
    paths = found["display"].paths
    steep, newton = np.diff(paths["gradient descent"], axis=0), np.diff(paths["Newton–Raphson"], axis=0)
    assert len(steep) > 10 * len(newton)
    assert np.linalg.norm(steep, axis=1).sum() > 1.5 * np.linalg.norm(newton, axis=1).sum()
    across = np.linalg.eigh(found["hessian"](paths["Newton–Raphson"][-1]))[1][:, 1]
    assert (np.sign(steep @ across)[:20] * (-1) ** np.arange(20) == np.sign(steep[0] @ across)).all()
    ends = [path[-1] for path in paths.values()]
    assert np.linalg.norm(ends[0] - ends[1]) < 0.01


def test_newton_needs_the_fewest_passes() -> None:
    traces = gallery("trace")["display"].traces
    assert traces["newton"]["passes"][-1] < 15 < traces["truncated-newton"]["passes"][-1]
    assert traces["truncated-newton"]["passes"][-1] < traces["gradient"]["passes"][-1]
    assert (np.diff(traces["newton"]["objective"]) <= 1e-9).all()
    ends = [columns["log_likelihood"][-1] for columns in traces.values()]
    assert np.ptp(ends) < 1e-3


def test_forest_plot_draws_the_summary() -> None:
    found = gallery("coefficients")
    d, summary = found["display"], found["model"].summary()
    assert np.array_equal(d.estimate, summary.estimate[1:]) and np.array_equal(d.upper, summary.upper[1:])
    shown = [label.get_text() for label in d.ax_.get_yticklabels()]
    assert shown[0] == "mean_radius" and set(shown) == set(d.terms)
    (dots,) = [line for line in d.ax_.lines if line.get_marker() == "o"]
    drawn = {shown[int(-y)]: x for x, y in zip(*dots.get_data(), strict=True)}
    assert drawn == dict(zip(d.terms, d.estimate, strict=True))


def test_profile_is_no_parabola_and_ends_at_the_quantile() -> None:
    d = gallery("profile")["display"]
    assert d.upper - d.estimate > 1.5 * (d.estimate - d.lower)
    ends = np.interp([d.lower, d.upper], d.value, d.deviance)
    assert np.allclose(ends, d.cutoff, rtol=0.02) and d.cutoff == pytest.approx(3.841459, abs=1e-6)
    assert np.allclose(d.wald, ((d.value - d.estimate) / ((d.wald_upper - d.estimate) / 1.959964)) ** 2)


def test_columns_enter_the_path_and_the_chosen_scales_are_inside() -> None:
    found = gallery("weight_path")
    d, path = found["display"], found["path"]
    assert d.n_selected[0] == 0
    assert d.n_selected[-1] > 15
    assert path.scales[0] < d.chosen["1se"] < d.chosen["min"] < path.scales[-1]
    labels = [text for text in d.ax_.texts if text.get_position()[0] == 1.05]
    assert len(labels) == 12
    d.figure_.canvas.draw()
    boxes = sorted((Text.get_window_extent(text) for text in labels), key=lambda box: box.y0)  # without its line
    assert all(low.y1 <= high.y0 + 1.0 for low, high in itertools.pairwise(boxes)), "labels overlap"


def test_fewer_columns_within_a_standard_error_of_the_smallest_loss() -> None:
    d = gallery("cv_curve")["display"]
    k, one = (int(np.flatnonzero(d.scales == d.chosen[name])[0]) for name in ("min", "1se"))
    assert d.loss[k] == d.loss.min()
    assert d.loss[one] <= d.loss[k] + d.error[k] < d.loss[one - 1]
    assert d.n_selected[one] < d.n_selected[k]


def test_widths_found_are_at_the_best_of_their_curves() -> None:
    d = gallery("widths")["display"]
    grid = np.log(d.width)
    for name, values in d.criteria.items():
        best = grid[values.argmax() if name == "log_evidence" else values.argmin()]
        assert abs(np.log(d.chosen[name]) - best) <= 1.01 * (grid[1] - grid[0])
    assert max(d.chosen.values()) < 3 * min(d.chosen.values())


def test_residuals_show_what_was_missed() -> None:
    found = gallery("residuals")
    outside = {name: np.mean(np.abs(found[name].mean) > found[name].limit) for name in ("missed", "fitted")}
    assert outside["missed"] > 0.25 and outside["fitted"] < 0.1
    d = found["fitted"]
    odds = d.fitted / (1.0 - d.fitted)
    assert np.allclose(d.residual, np.where(d.codes == 1, odds**-0.5, -(odds**0.5)))


def test_naive_bayes_is_too_sure() -> None:
    curves = gallery("reliability")["display"].curves
    naive, logistic = curves["naive Bayes"], curves["logistic"]
    assert naive.calibration_error > 4 * logistic.calibration_error
    assert naive.frequency[0] > naive.probability[0] + 0.1 and naive.frequency[-1] < naive.probability[-1] - 0.1
    inside = (logistic.lower <= logistic.probability) & (logistic.probability <= logistic.upper)
    assert inside.mean() >= 0.9


def test_roc_areas_are_those_of_scikit_learn() -> None:
    found = gallery("roc")
    X, y = found["X"][600:], found["y"][600:]
    for name, curve in found["roc"].curves.items():
        assert curve.area == pytest.approx(roc_auc_score(y, found["models"][name].predict_proba(X)[:, 1]))
    assert found["roc"].curves["quadratic"].area > found["roc"].curves["linear"].area + 0.03
    assert found["precision"].share == pytest.approx(np.mean(y))


def test_right_threshold_is_cheap_and_rejecting_lowers_the_risk() -> None:
    found = gallery("costs")
    (cost,), (risk,) = found["cost"].curves.values(), found["risk"].curves.values()
    assert cost.right_threshold == pytest.approx(1 / 11)
    half = cost.cost[np.searchsorted(cost.threshold, 0.5) - 1]
    assert cost.cost_there < 0.75 * half and cost.cost_there < 1.5 * cost.cost.min()
    assert 0 < found["difference"] < found["error"]  # the lowest point is within noise of the right threshold
    assert found["costs"][0].mean() == pytest.approx(cost.cost_there)
    assert np.interp(0.6, risk.coverage, risk.risk) < 0.5 * risk.risk[-1]


def test_comparison_says_which_models_are_within_noise() -> None:
    found = gallery("comparison")
    d = found["display"]
    assert d.verdicts[0] == "best" and d.models[0] == found["comparison"].best
    for verdict, difference, error in zip(d.verdicts, d.difference, d.std_error, strict=True):
        if verdict in ("within noise", "worse"):
            assert (difference <= 1.96 * error) == (verdict == "within noise")
    assert d.verdicts[d.models.index("softmax, σ = 0.01")] == "worse"
    assert d.verdicts[d.models.index("perceptron")] == "no probabilities"
    assert [label.get_text() for label in d.ax_.get_yticklabels()] == d.models


# --- those of single topics ---


def test_level_lines_of_all_activation_functions_are_parallel() -> None:
    found = gallery("generalised_linear")
    widths = {}
    for link, model in found["models"].items():
        w = model.coef_[0]
        ends = []
        for level, paths in zip(found["levels"], found["lines"][link].allsegs, strict=True):
            points = np.vstack(paths)
            heights = points @ w / np.linalg.norm(w)
            assert np.ptp(heights) < 0.02, (link, level)
            ends.append(heights.mean())
        assert (np.diff(ends) > 0).all()
        widths[link] = (ends[4] - ends[2]) / (ends[2] - ends[0])
    # The logit and the probit are symmetric about a half, the complementary log-log is not.
    assert widths["logit"] == pytest.approx(1.0, abs=0.05) and widths["probit"] == pytest.approx(1.0, abs=0.05)
    assert widths["cloglog"] < 0.8


def test_boundary_of_one_covariance_is_straight_but_not_perpendicular_to_the_means() -> None:
    found = gallery("gaussian_shared")
    model, d = found["model"], found["display"]
    assert curvature_of_boundary(d, "C0", "C1") < 1.0
    between = model.means_[1] - model.means_[0]
    w = np.linalg.solve(model.covariances_[0], between)
    assert np.allclose(w / np.linalg.norm(w), model.boundary_.normal)
    assert abs(between @ model.boundary_.normal) / np.linalg.norm(between) < 0.8
    for (k, share), ellipse in found["ellipses"].items():
        away = ellipse - model.means_[k]
        distance = np.einsum("nd,de,ne->n", away, np.linalg.inv(model.covariances_[0]), away)
        assert np.allclose(1 - np.exp(-distance / 2), share)


def test_pooled_covariance_is_the_average_by_shares() -> None:
    found = gallery("pooled_covariance")
    own, model = found["own"], found["model"]
    assert np.allclose(np.einsum("k,kde->de", own.class_prior_, own.covariances_), model.covariances_[0])
    assert (model.covariances_[0] == model.covariances_[2]).all()
    assert np.abs(own.covariances_[0] - own.covariances_[1]).max() > 1.0


def test_softmax_boundaries_are_where_the_largest_lines_cross() -> None:
    found = gallery("softmax")
    a, p = found["activations"], found["proba"]
    assert np.abs(np.diff(a, 2, axis=0)).max() < 1e-9  # lines
    assert np.allclose(p, np.exp(a) / np.exp(a).sum(axis=1, keepdims=True))
    assert len(found["boundaries"]) == 2
    for boundary in found["boundaries"]:
        top = np.sort(a[np.abs(found["x"] - boundary).argmin()])
        assert top[-1] - top[-2] < 0.1 < top[-1] - top[-3] + 0.1


def test_quadrics_are_what_their_titles_say() -> None:
    found = gallery("quadrics")
    for name, model in found["models"].items():
        W = model.quadratic_[0].reshape(2, 2)  # of the log odds
        size, turn = np.linalg.det(W), np.abs(W).max() ** 2
        if name == "parabola":
            assert abs(size) < 1e-9 * turn
        else:
            assert size > 0.1 * turn if name == "ellipse" else size < -0.1 * turn
        assert np.allclose(W, np.diag(np.diag(W)))
    ellipse = found["displays"]["ellipse"]
    assert ellipse.class_at(0.3, 0.3) == "B"
    edge = [*ellipse.regions[[0, -1]].ravel(), *ellipse.regions[:, [0, -1]].ravel()]
    assert {ellipse.classes[k] for k in edge} == {"A"}  # it goes round
    hyperbola = found["displays"]["hyperbola"]
    assert [hyperbola.class_at(*p) for p in ((-3, 0), (3, 0), (0, -3), (0, 3))] == ["A", "A", "B", "B"]


def test_naive_bayes_adds_the_log_odds_of_the_columns() -> None:
    found = gallery("naive_bayes")
    assert found["total"] == pytest.approx(found["prior"] + sum(found["parts"].values()), abs=1e-9)
    assert found["parts"]["sex"] == 0.0  # missing
    assert found["parts"]["bill_length_mm"] < 0 < found["parts"]["flipper_length_mm"]
    assert [bar.get_width() for bar in found["ax"].patches] == [*found["bars"].values(), found["total"]]


def test_samples_of_the_model_look_like_the_data() -> None:
    found = gallery("synthetic")
    for label in found["model"].classes_:
        real, made = found["X"][found["y"] == label], found["rows"][found["labels"] == label]
        error = real.std(axis=0) * np.sqrt(1 / len(real) + 1 / len(made))
        assert (np.abs(real.mean(axis=0) - made.mean(axis=0)) < 4 * error).all()
        assert np.allclose(made.std(axis=0), real.std(axis=0), rtol=0.3)


def test_parameters_are_as_many_as_the_formulas_say_and_the_generative_model_learns_faster() -> None:
    found = gallery("parameters")
    D = found["dimensions"]
    assert found["counts"]["Gaussian classes"] == (D * (D + 1) // 2 + 2 * D + 1).tolist()
    assert found["counts"]["logistic regression"] == (D + 1).tolist()
    generative, logistic = (np.array(found["errors"][name]) for name in ("Gaussian classes", "logistic regression"))
    assert (generative[1:] < logistic[1:]).all()
    assert (generative > found["best"]).all() and found["best"] == ndtr(-1.5)
    assert generative[-1] < 1.1 * found["best"] and logistic[-1] < 1.1 * found["best"]


def test_direction_of_fisher_is_that_of_least_squares_and_separates_better() -> None:
    found = gallery("fisher_least_squares")
    assert np.allclose(found["fisher"], found["least"], atol=1e-9)

    def ratio(z: np.ndarray) -> float:
        a, b = (z[found["y"] == label] for label in "AB")
        return float((a.mean() - b.mean()) ** 2 / (a.var() * len(a) + b.var() * len(b)) * len(z))

    ratios = {name: ratio(z) for name, z in found["projected"].items()}
    assert ratios["Fisher and least squares"] > 3 * ratios["line of the means"]
    turns = [np.array([np.cos(a), np.sin(a)]) for a in np.linspace(0, np.pi, 180)]
    assert ratios["Fisher and least squares"] >= max(ratio(found["X"] @ w) for w in turns)  # Fisher's criterion


def test_bases_bend_the_boundary_around_the_moons() -> None:
    found = gallery("bases")
    y = np.array(found["y"])
    scores = {name: model.score(found["X"], y) for name, model in found["models"].items()}
    assert scores.pop("linear") < 0.9 < 0.97 < min(scores.values())
    assert found["models"]["kernel"].n_parameters_ == len(y) + 1
    for name in scores:
        d = found["displays"][name]
        assert d.class_at(0.0, 1.0) == "upper" and d.class_at(1.0, -0.5) == "lower"
        assert d.class_at(0.0, 0.3) == "lower" and d.class_at(1.0, 0.2) == "upper"  # inside the other moon's arch


def test_scaling_makes_gradient_descent_arrive_sooner() -> None:
    found = gallery("scaling")
    paths = found["paths"]
    assert paths["as they are"].converged and paths["standardised"].converged
    assert paths["as they are"].iterations > 8 * paths["standardised"].iterations
    assert np.allclose(found["rows"]["standardised"].std(axis=0), 1.0)
    # The same optimum, in the units of the columns.
    assert np.allclose(paths["standardised"].x / found["X"].std(axis=0), paths["as they are"].x, rtol=0.1)


def test_curves_of_the_moths_are_parallel_on_the_scale_of_log_odds() -> None:
    found = gallery("logistic")
    odds = {sex: np.log(p / (1 - p)) for sex, p in found["curves"].items()}
    assert np.ptp(odds["male"] - odds["female"]) < 1e-9 and (odds["male"] > odds["female"]).all()
    assert np.abs(np.diff(odds["male"], 2)).max() < 1e-9
    # Sums of rows and of probabilities agree at the optimum, for each sex.
    for sex, shares in found["shares"].items():
        at = np.interp(np.arange(6.0), found["grid"], found["curves"][sex])
        assert shares.sum() == pytest.approx(at.sum(), abs=2e-3)


def test_one_pass_of_single_rows_comes_nearer_than_one_step_of_all() -> None:
    found = gallery("sgd")
    best = found["f"](found["optimum"].x)
    path = np.array(found["steps"])
    assert len(path) == 401 and len(found["batch"].path) == 2 and found["optimum"].converged
    assert found["f"](path[-1]) - best < 0.2 * (found["f"](found["batch"].x) - best)
    walked = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert walked > 5 * np.linalg.norm(path[-1] - path[0])  # it wanders
    crosses = [line for line in found["display"].ax_.lines if line.get_marker() == "+"]
    assert len(crosses) == 1 and np.allclose(crosses[0].get_xydata()[0], found["optimum"].x)  # not the path's end


@pytest.mark.parametrize("name", ["scaling", "zigzag", "expansion"])
def test_axes_have_one_scale_so_that_right_angles_are_right(name: str) -> None:
    for ax in gallery(name)["figure"].axes:
        assert ax.get_aspect() == 1.0


def test_every_row_of_the_working_response_is_inside_its_panel() -> None:
    for ax in gallery("working_response")["axes"]:
        (low, high), (left, right) = ax.get_ylim(), ax.get_xlim()
        points = np.vstack([drawn.get_offsets() for drawn in ax.collections])
        assert len(points) == 80 and ((points > [left, low]) & (points < [right, high])).all()


def test_newton_goes_to_the_lowest_points_of_parabolas_and_squares_the_error() -> None:
    found = gallery("newton")
    x, points, errors = found["x"], found["points"], found["errors"]
    for k, parabola in enumerate(found["parabolas"]):
        assert x[parabola.argmin()] == pytest.approx(points[k + 1], abs=x[1] - x[0])
        assert np.interp(points[k], x, parabola) == pytest.approx(found["f"](points[k]), abs=1e-3)
    assert found["result"].converged
    assert (errors[2:6] < errors[1:5] ** 2).all() and errors[-1] < 1e-14


def test_newton_needs_one_step_for_a_sum_of_squares_from_anywhere() -> None:
    found = gallery("one_step")
    solution = np.linalg.lstsq(found["Phi"], found["t"])[0]
    for result in found["newton"].values():
        assert result.iterations == 1 and np.allclose(result.x, solution)
    assert found["slow"].iterations > 10
    walked = [np.linalg.norm(np.diff(p, axis=0), axis=1).sum() for p in found["display"].paths.values()]
    assert walked[0] > 2 * walked[1]


def test_reweighted_lines_end_at_the_fit() -> None:
    found = gallery("working_response")
    model, lines = found["model"], np.array(found["lines"])
    assert np.allclose(lines[-1], [model.intercept_[0], model.coef_[0, 0]], atol=1e-6)
    changes = np.linalg.norm(np.diff(lines, axis=0), axis=1)
    assert (np.diff(changes) < 0).all() and changes[-1] < 1e-4


def test_posterior_becomes_narrower_and_more_gaussian() -> None:
    found = gallery("posterior")
    grid, areas, errors = found["grid"], [], []
    for log, mean, S in found["posteriors"].values():
        assert np.allclose(grid.reshape(-1, 2)[log.argmax()], mean, atol=0.06)  # the mode, on the grid
        truth = np.exp(log) / np.exp(log).sum()
        q = np.exp(-0.5 * np.einsum("xyi,ij,xyj->xy", grid - mean, np.linalg.inv(S), grid - mean))
        errors.append(0.5 * np.abs(truth - q / q.sum()).sum())
        areas.append(np.sqrt(np.linalg.det(S)))
    assert areas[0] > areas[1] > areas[2] and errors[0] < 1e-9 and errors[2] < errors[1] < 0.3


def test_growth_is_an_exponential_at_first_and_its_slope_is_the_curve_times_the_room_left() -> None:
    found = gallery("growth")
    hours, limited, room = found["hours"], found["limited"], found["room"]
    assert np.allclose(limited[hours < 2], found["free"][hours < 2], rtol=0.025)
    assert np.allclose(found["slope"][5:-5], found["rate"] * limited[5:-5] * (1 - limited[5:-5] / room), rtol=0.01)
    for (middle, speed), share in zip(found["inventions"].values(), found["shares"].values(), strict=True):
        assert np.allclose(np.log(share / (1 - share)), speed * (found["years"] - middle))


def test_network_of_logistics_does_what_one_cannot() -> None:
    found = gallery("network")
    X, y = found["X"], found["y"]
    assert found["alone"].score(X, y) < 0.75
    assert np.mean((found["output"](X) > 0.5) == y) > 0.95
    by_hand = found["sigmoid"](found["answers"] @ found["last"].coef_[0] + found["last"].intercept_[0])
    assert np.allclose(by_hand, found["output"](X))


def test_quadrics_in_three_dimensions_are_where_the_classes_are_as_probable() -> None:
    found = gallery("quadrics_3d")
    for way, points in found["surfaces"].items():
        inside = points[(np.abs(points) <= 2.6).all(axis=-1)]
        assert len(inside) > 200
        first, second, mean = found["WAYS"][way]
        densities = norm.logpdf(inside, mean, second) - norm.logpdf(inside, 0.0, first)
        assert np.abs(densities.sum(axis=1)).max() < 1e-2
        signs = {float(s) for s in np.sign(np.round(np.power(second, -2.0) - np.power(first, -2.0), 9))}
        kinds = {"plane": {0.0}, "ellipsoid": {1.0}, "hyperboloid": {-1.0, 1.0}, "paraboloid": {-1.0, 0.0}}
        assert signs == kinds[way]


def test_posterior_panels_have_a_line_between_classes_that_share_a_covariance() -> None:
    found = gallery("posterior_panels")
    two, three = found["models"].values()
    assert two.boundary_.normal.shape == (2,)
    S = three.covariances_
    assert np.allclose(S[0], S[1]) and not np.allclose(S[0], S[2])


def test_left_hump_does_not_matter_to_the_posterior() -> None:
    found = gallery("two_humps")
    x, one, posterior = found["x"], found["one"], found["posterior"]
    humps = (one[1:-1] > one[:-2]) & (one[1:-1] > one[2:])
    assert humps.sum() == 2
    assert (np.diff(posterior[x > -2.5]) < 1e-4).all() and posterior[x < -0.5].min() > 0.98  # no hump in it
    assert np.abs(found["fitted"] - posterior).max() < 0.1


def test_classes_are_linearly_separable_in_the_plane_of_the_bumps() -> None:
    found = gallery("feature_space")
    assert found["line"].score(found["X"], found["y"]) < 0.8
    assert found["model"].score(found["X"], found["y"]) == 1.0
    distance = np.linalg.norm(found["X"][:, None] - found["centers"], axis=2)
    assert np.allclose(found["Phi"], np.exp(-(distance**2) / (2 * 0.6**2)))
    assert detect_separation(found["Phi"], found["y"]).kind == "complete"


def test_worked_examples_are_sure_where_they_are_separable_and_the_prior_softens_them() -> None:
    found, many = gallery("worked_two_classes"), gallery("worked_classes")
    maps, values = found["maps"], found["values"]
    assert np.ptp(maps["not separable"].proba) < 0.3 < 0.99 < np.ptp(maps["expanded"].proba)
    assert values["not separable"][-1] < -500 and values["separable"][-1] > -1 and values["expanded"][-1] > -1
    assert values["separable"][0] == pytest.approx(-800 * np.log(2))
    sure, soft = (np.mean(many["maps"][name].proba.max(axis=2) < 0.95) for name in ("three, quadratic", "with σ = 2"))
    assert soft > 2 * sure
    ends = {name: value[-1] for name, value in many["values"].items()}
    assert ends["three, linear"] < -150 < ends["with σ = 2"] < ends["three, quadratic"] < 0
    for name, value in (*values.items(), *many["values"].items()):
        assert (np.diff(value) > -1e-6).all(), name


def test_gradient_ascent_ends_on_the_hill_it_started_on() -> None:
    found = gallery("local_maxima")
    low, high = found["found"].values()
    assert low.converged and high.converged and -low.value < 0.7 < 0.95 < -high.value
    for result, centre in zip((low, high), found["CENTRES"], strict=True):
        assert np.linalg.norm(result.x - centre) < 0.1


def test_steps_in_one_dimension_creep_arrive_or_jump_about() -> None:
    found = gallery("descent_1d")
    short, good, long = found["paths"].values()
    optimum = float(irls(found["x"][:, None], found["t"], [0.0], 1e-9).w[0])
    assert short[-1] < optimum - 0.1 and (np.diff(short) > 0).all()
    assert abs(good[-1] - optimum) < 1e-3
    assert abs(long[-1] - optimum) > 0.2 and (np.sign(long[5:] - optimum)[1:] != np.sign(long[5:] - optimum)[:-1]).all()


def test_separated_classes_have_no_likeliest_slope_and_jeffreys_prior_has_one() -> None:
    found = gallery("separation")
    assert (np.diff(found["separated"]) >= 0).all() and found["separated"][-1] < 0
    for name, slope in (("penalised", found["firth"]), ("overlapping", None)):
        best = int(np.argmax(found[name]))
        assert 0 < best < len(found["slopes"]) - 1
        assert slope is None or found["slopes"][best] == pytest.approx(slope, rel=0.03)
