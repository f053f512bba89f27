"""Models in words and as formulas."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from oddsmith.design.fitted_basis import in_deviations
from oddsmith.models.base import Classifier
from oddsmith.models.fisher import FisherDiscriminant
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.multiclass import OneVsOne, OneVsRest
from oddsmith.models.recalibrated import RecalibratedClassifier
from oddsmith.models.selection_mixin import selected_columns
from oddsmith.numerics import Array
from oddsmith.priors import JeffreysPrior, LaplacePrior
from oddsmith.report.context import ReportContext
from oddsmith.report.html import Markup, clean, join, name_list, name_tag, number, percent, tag
from oddsmith.report.parameters import class_prior, coefficients
from oddsmith.report.svg import abbreviate

MOST_TERMS = 12  # Terms of a formula that are written out.
LONGEST_NAME = 48  # Letters of a name in a formula; the table of weights has all of it.

WORDS = {
    "LogisticRegression": (
        "Logistic regression. The log odds of the classes are a weighted sum of the columns; a weight is the change "
        "for one unit of its column, all other columns being equal."
    ),
    "ProbitRegression": "Probit regression. A weighted sum of the columns, plus noise of a standard normal "
    "distribution, is above zero for one class and below for the other.",
    "GaussianClassifier": "A Gaussian model of each class. It describes how the columns of each class are distributed, "
    "and takes the class that explains a row best, given how frequent the classes are.",
    "NaiveBayes": "Naive Bayes. It describes each column of each class by itself, as if columns were independent "
    "within a class, and takes the class that explains a row best, given how frequent the classes are.",
    "FisherDiscriminant": "Fisher's discriminant. It looks for the directions in which the means of the classes lie "
    "far apart compared with the spread within them, and assigns a row to the nearest class there.",
    "LeastSquaresClassifier": "Least squares. A linear function for each class is fitted to 0 and 1 by least squares, "
    "and the largest wins. Its values are not probabilities.",
    "PerceptronClassifier": "A perceptron. It moves a separating plane at each mistake until there is none, or until "
    "its epochs are over. It gives a side of the plane, not a probability.",
    "OneVsRest": (
        "One-vs-rest: for each class, a separate model distinguishes it from all others; their probabilities are "
        "divided by their sum."
    ),
    "OneVsOne": "One-vs-one: a separate model distinguishes each pair of classes, and their predictions are combined.",
    "RecalibratedClassifier": (
        "A model whose values are mapped to probabilities by a calibration learned on held-out rows."
    ),
}

LINKS = {
    "logit": "log( p / (1 − p) )",
    "probit": "Φ⁻¹( p )",
    "cloglog": "log( −log(1 − p) )",
    "loglog": "−log( −log p )",
    "cauchit": "tan( π (p − ½) )",
    "log": "log p",
    "identity": "p",
}

GENERAL = {
    "GaussianClassifier": "p(C | x) ∝ π_C · N(x | μ_C, Σ_C)",
    "NaiveBayes": "p(C | x) ∝ π_C · Π_j p(x_j | C)",
    "OneVsRest": "p(C | x) = p_C(x) / Σ_K p_K(x), with p_C from the model of C against the rest",
    "OneVsOne": "p(C | x) from p(C | C or D, x) of all pairs of classes C, D",
    "RecalibratedClassifier": "p(C | x) = g( f(x) )_C, with the values f of the model and the learned map g",
    "LeastSquaresClassifier": "C(x) = argmax_C ( w_C0 + Σ_j w_Cj x_j )",
    "PerceptronClassifier": "C(x) = argmax_C ( w_C0 + Σ_j w_Cj x_j )",
}
SOFTMAX = "p(C | x) = exp(a_C) / Σ_K exp(a_K),   a_C = w_C0 + Σ_j w_Cj x_j"
COVARIANCES = {
    "shared": "All classes share one covariance, so the boundaries are planes.",
    "separate": "Each class has its own covariance, so the boundaries are quadratic.",
    "diagonal": "Columns vary independently within a class.",
    "spherical": "Each class has one variance for all columns.",
}


def describe_model(context: ReportContext) -> Markup:
    """Describe the kind of model and its classes in words."""
    model = context.model
    text = WORDS.get(context.name) or (type(model).__doc__ or context.name).strip().splitlines()[0]
    further, prior = _further(model), class_prior(model)
    if context.moved and prior is not None:
        shares = zip(context.classes, prior, strict=True)
        set_to = ", ".join(f"{clean(label)} {percent(share)}" for label, share in shares)
        further += f" Its intercepts were moved after the fit, to this class prior: {set_to}."
    names = [": ", name_list(context.classes)] if context.K <= 12 else []
    apart = tag("p", f"It tells {context.K:,} classes apart", *names, ".")
    return join([tag("p", text), tag("p", further) if further else "", apart])


def _further(model: Classifier) -> str:
    """Describe priors, bases and parts in words."""
    words, settings = [], model.get_params(deep=False)
    if isinstance(settings.get("prior"), JeffreysPrior):
        words.append("Jeffreys' prior (Firth's correction) keeps its weights finite and nearly unbiased.")
    elif isinstance(settings.get("prior"), LaplacePrior) and isinstance(model, LogisticRegression):
        selected, columns = len(model.selected_), model.coef_.shape[1]
        words.append(
            f"A Laplace prior shrinks its weights and sets many to exactly zero: it selected "
            f"{selected:,} of {columns:,} columns."
        )
    elif settings.get("prior") is not None:
        words.append("A Gaussian prior shrinks its weights towards zero.")
    elif isinstance(model, LogisticRegression):
        words.append("Its weights are maximum likelihood estimates, without a prior or penalty.")
    if settings.get("basis") is not None:
        words.append(f"It uses basis functions of the columns: {settings['basis']!r}.")
    if in_deviations(model):
        zero = ", and 0 is its mean" if np.any(model.basis_.steps[0].mean_) else ""
        words.append(f"So a unit of a column, here and in the weights, is one standard deviation of it{zero}.")
        made = model.basis_.steps[0].made
        if made is not None and made.any():
            words.append("The 0/1 columns of levels are not scaled.")
    if isinstance(settings.get("covariance"), str):
        words.append(COVARIANCES.get(settings["covariance"], ""))
    if isinstance(model, RecalibratedClassifier | OneVsRest | OneVsOne):
        inner = model._inner if isinstance(model, RecalibratedClassifier) else next(iter(model.models_.values()))
        words.append(f"The model inside is a {type(inner).__name__}.")
    return " ".join(word for word in words if word)


def model_formula(context: ReportContext) -> Markup:
    """Return the formula of the model, with its numbers if it has a single row of weights."""
    model, coef = context.model, coefficients(context.model)
    names = [str(name) for name in model._names()] if coef is not None else []
    if coef is not None and np.shape(coef) == (1, len(names)) and len(names):
        value, where = _left(context)
        stopped = "" if context.has_optimum else " There is no optimum: these are the weights at which the fit stopped."
        weights, size = coef[0], spread(context)
        if (selected := selected_columns(model)) is not None:  # what is zero is not in the sum
            size = None if size is None else size[weights != 0.0]
            weights, names = weights[weights != 0.0], selected
        formula = tag("p", value, " = ", _sum(weights, float(model.intercept_[0]), names, size), class_="formula")
        return join([formula, tag("p", where, stopped, class_="note")])
    text = GENERAL.get(context.name) or (SOFTMAX if context.probabilistic else "")
    if text:
        return tag("p", _subscripts(text), class_="formula")
    return tag("p", "Its formula is in its documentation.", class_="note")


def _left(context: ReportContext) -> tuple[str, Markup]:
    """Return the left side of the formula, and what it stands for."""
    model, link, second = context.model, "", name_tag(context.classes[-1])
    if isinstance(model, LogisticRegression | GaussianClassifier | FisherDiscriminant):
        link = model.link_ if isinstance(model, LogisticRegression) else "logit"
    if link in LINKS:
        value = f"{LINKS[link]} − offset" if context.offset is not None or context.misses_offset else LINKS[link]
        return value, join(["Here p is the probability of ", second, ". All weights are in the table below."])
    return "a", join(["If a is above zero, the model predicts ", second, ". All weights are in the table below."])


def spread(context: ReportContext) -> Array | None:
    """Return the standard deviation of each term in the fit, None where it is not known."""
    if context.fitted is None or len(context.fitted.coordinates.scale) != len(context.model._names()):
        return None
    return np.asarray(context.fitted.coordinates.scale, dtype=np.float64)


def _sum(weights: Array, start: float, names: list[str], spread: Array | None) -> Markup:
    """Return the weighted sum; of many terms those that move it most, by their ``spread``."""
    moved = np.abs(weights) if spread is None else np.abs(weights) * spread
    order = np.sort(np.argsort(-moved, kind="stable")[:MOST_TERMS])
    short = abbreviate(names, LONGEST_NAME) if names else []
    parts: list[Any] = [tag("span", number(start), class_="term")]
    for j in order:
        size = f"{'−' if weights[j] < 0 else '+'} {number(abs(float(weights[j])))} × "
        parts += [" ", tag("span", size, tag("i", name_tag(short[j])), class_="term")]
    if len(names) > MOST_TERMS:
        parts.append(f" + … ({len(names) - MOST_TERMS:,} more terms, with smaller effects)")
    return join(parts)


def _subscripts(text: str) -> Markup:
    """Return a formula with what follows an underscore set below the line.

    >>> _subscripts("π_C · w_Cj")
    'π<sub>C</sub> · w<sub>Cj</sub>'
    """
    parts = re.split(r"_([^\W_]+)", text)
    return join(tag("sub", part) if i % 2 else part for i, part in enumerate(parts))
