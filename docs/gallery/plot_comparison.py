"""A comparison of models on the same folds, with intervals of the difference from the best.

If an interval reaches zero, the difference is within noise: the order of those models may be due to chance.
"""

from oddsmith import (
    FisherDiscriminant,
    GaussianClassifier,
    LogisticRegression,
    NaiveBayes,
    PerceptronClassifier,
    compare,
)
from oddsmith.data import load_dataset
from oddsmith.plots import ComparisonDisplay

table = load_dataset("wine")
names = table.column_names[1:6]
X, y = table.select(names), table["cultivar"].to_numpy()
models = {
    "softmax, σ = 1": LogisticRegression(prior=1.0),
    "softmax, σ = 0.01": LogisticRegression(prior=0.01),
    "Gaussian, shared": GaussianClassifier("shared"),
    "Gaussian, separate": GaussianClassifier("separate"),
    "naive Bayes": NaiveBayes(),
    "Fisher": FisherDiscriminant(),
    "perceptron": PerceptronClassifier(),
}
comparison = compare(models, X, y, cv=5)
display = ComparisonDisplay.from_comparison(comparison).plot()
figure = display.figure_
