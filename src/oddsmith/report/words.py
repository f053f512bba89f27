"""Models in words and as formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.models.expanding import in_deviations
from oddsmith.report.html import Markup, clean, join, named, number, percent, tag
from oddsmith.report.subject import Subject
from oddsmith.report.svg import told_apart

MOST_TERMS = 12
"""Terms of a formula that are written out."""
LONGEST_NAME = 48
"""Letters of a name in a formula; the table of weights has all of it."""

WORDS = {
    "LogisticRegression": "Logistic regression. The log odds of the classes are a weighted sum of the columns; a "
    "weight says by how much one unit of its column moves them, all other columns being equal.",
    "ProbitRegression": "Probit regression. A weighted sum of the columns, plus noise of a standard normal "
    "distribution, is above zero for one class and below for the other.",
    "GaussianClassifier": "A Gaussian model of each class. It describes how the columns of each class are distributed, "
    "and takes the class that explains a row best, given how frequent the classes are.",
    "NaiveBayes": "Naive Bayes. It describes each column of each class by itself, as if columns were independent "
    "inside of a class, and takes the class that explains a row best, given how frequent the classes are.",
    "FisherDiscriminant": "Fisher's discriminant. It looks for the directions in which the means of the classes lie "
    "far apart compared with the spread inside of them, and assigns a row to the nearest class there.",
    "LeastSquaresClassifier": "Least squares. A linear function for each class is fitted to 0 and 1 by least squares, "
    "and the largest wins. Its values are no probabilities.",
    "PerceptronClassifier": "A perceptron. It moves a separating plane at each mistake until there is none, or until "
    "its epochs are over. It knows sides of the plane, and no probabilities.",
    "OneVsRest": "One against the rest: for each class a model of its own tells that class from all others; their "
    "probabilities are divided by their sum.",
    "OneVsOne": "One against one: a model of its own tells each pair of classes apart, and their answers are joined.",
    "RecalibratedClassifier": "A model whose values are mapped to probabilities by a calibration that was learned on "
    "rows which the model had not seen.",
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
    "separate": "Each class has a covariance of its own, so the boundaries are quadratic.",
    "diagonal": "Columns vary independently inside of a class.",
    "spherical": "Each class has one variance for all columns.",
}


def in_words(subject: Subject) -> Markup:
    """Return what kind of model it is, and of which classes, in words."""
    model = subject.model
    text = WORDS.get(subject.name) or (type(model).__doc__ or subject.name).strip().splitlines()[0]
    parts: list[Any] = [tag("p", text)]
    further = _further(model)
    if subject.moved:
        shares = zip(subject.classes, model.class_prior_, strict=True)
        set_to = ", ".join(f"{clean(label)} {percent(share)}" for label, share in shares)
        further += f" Its intercepts were moved after the fit, to this class prior: {set_to}."
    if further:
        parts.append(tag("p", further))
    if len(subject.classes) <= 12:
        names: list[Any] = []
        for label in subject.classes:
            names += [", " if names else "", named(label)]
        parts.append(tag("p", "It tells ", f"{subject.K} classes apart: ", join(names), "."))
    else:
        parts.append(tag("p", f"It tells {subject.K:,} classes apart."))
    return join(parts)


def _further(model: Any) -> str:
    """Return what is said about priors, bases and parts."""
    words = []
    prior = getattr(model, "prior", None)
    if prior is not None:
        kind = type(prior).__name__
        if kind == "JeffreysPrior":
            words.append("Jeffreys' prior (Firth's correction) keeps its weights finite and nearly unbiased.")
        else:
            words.append("A Gaussian prior draws its weights towards zero.")
    elif hasattr(model, "link_"):
        words.append("Its weights are those of maximum likelihood: no penalty, no prior.")
    if getattr(model, "basis", None) is not None:
        words.append(f"It sees the columns through basis functions: {model.basis!r}.")
    if in_deviations(model):
        zero = ", and 0 is its mean" if np.any(model.basis_.steps[0].mean_) else ""
        words.append(f"So a unit of a column, here and in the weights, is one standard deviation of it{zero}.")
    covariance = getattr(model, "covariance", None)
    if isinstance(covariance, str):
        words.append(COVARIANCES.get(covariance, ""))
    inner = getattr(model, "_inner", None) or next(iter(getattr(model, "models_", {}).values()), None)
    if inner is not None:
        words.append(f"The model inside is a {type(inner).__name__}.")
    return " ".join(word for word in words if word)


def as_formula(subject: Subject) -> Markup:
    """Return the formula of the model, with its numbers where there is one line of them."""
    model = subject.model
    coef = getattr(model, "coef_", None)
    names = [str(name) for name in model._names()] if coef is not None else []
    if coef is not None and np.shape(coef) == (1, len(names)) and len(names):
        value, where = _left(subject)
        sum_ = _sum(coef[0], float(model.intercept_[0]), names)
        if not subject.has_optimum:
            where = join([where, " There is no optimum: these are the weights at which the fit stopped."])
        return join([tag("p", value, " = ", sum_, class_="formula"), tag("p", where, class_="note")])
    text = GENERAL.get(subject.name) or (SOFTMAX if subject.probabilistic else "")
    if not text:
        return tag("p", "Its formula is in its documentation.", class_="note")
    return tag("p", _subscripts(text), class_="formula")


def _left(subject: Subject) -> tuple[str, Markup]:
    """Return the left side of the formula, and what it stands for."""
    link = getattr(subject.model, "link_", None)
    second = named(subject.classes[-1])
    if link is None and subject.name in ("GaussianClassifier", "FisherDiscriminant"):
        link = "logit"
    if link in LINKS:
        value = f"{LINKS[link]} − offset" if subject.offset is not None or subject.misses_offset else LINKS[link]
        return value, join(["Here p is the probability of ", second, ". All weights are in the table below."])
    return "a", join(["Where a is above zero the model says ", second, ". All weights are in the table below."])


def _sum(weights: Any, start: float, names: list[str]) -> Markup:
    """Return the weighted sum; of many terms the largest by their weight's size."""
    order, short = range(len(names)), told_apart(names, LONGEST_NAME)
    if len(names) > MOST_TERMS:
        order = sorted(np.argsort(-np.abs(weights), kind="stable")[:MOST_TERMS].tolist())  # type: ignore[assignment]
    parts: list[Any] = [tag("span", number(start), class_="term")]
    for j in order:
        sign = "−" if weights[j] < 0 else "+"
        size = f"{sign} {number(abs(float(weights[j])))} × "
        parts += [" ", tag("span", size, tag("i", named(short[j])), class_="term")]
    if len(names) > MOST_TERMS:
        parts.append(f" + … ({len(names) - MOST_TERMS:,} more terms, with smaller weights)")
    return join(parts)


def _subscripts(text: str) -> Markup:
    """Return a formula with what follows an underscore set below the line.

    >>> _subscripts("π_C · w_Cj")
    'π<sub>C</sub> · w<sub>Cj</sub>'
    """
    first, *rest = text.split("_")
    parts: list[Any] = [first]
    for part in rest:
        end = next((i for i, c in enumerate(part) if not c.isalnum()), len(part))
        parts += [tag("sub", part[:end]), part[end:]]
    return join(parts)
