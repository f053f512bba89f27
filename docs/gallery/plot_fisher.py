"""Fisher's discriminant: thirteen measurements of three wines, projected to two dimensions.

K classes have K − 1 directions. In the plane that best separates the class means, a linear rule separates the wines.
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
