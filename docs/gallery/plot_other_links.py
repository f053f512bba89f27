"""Other maps from an activation to a probability.

The complementary log-log and the log-log link are not symmetric; the Cauchy link has thick tails. Log and identity
give probabilities for some activations only.
"""

from oddsmith.plots import LinkDisplay

names = ["logit", "cloglog", "loglog", "cauchit", "log", "identity"]
display = LinkDisplay.from_links(names, limits=(-4, 4)).plot()
figure = display.figure_
