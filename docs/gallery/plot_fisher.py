"""Fisher's discriminant: three kinds of wine in thirteen measurements, seen in two dimensions.

K classes leave K − 1 directions. In the plane that keeps the class means apart, a linear rule separates them.
"""

from oddsmith import FisherDiscriminant, GaussianClassifier
from oddsmith.data import load_dataset
from oddsmith.plots import DecisionRegionDisplay

table = load_dataset("wine")
X, y = table.drop_columns("cultivar"), table["cultivar"].to_numpy()

fisher = FisherDiscriminant().fit(X, y)
Z = fisher.transform(X)
display = DecisionRegionDisplay.from_estimator(GaussianClassifier("shared").fit(Z, y), Z, y)
display.ax_.set(xlabel="first direction", ylabel="second direction")
figure = display.figure_
