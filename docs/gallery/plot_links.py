"""The logistic sigmoid and the Gaussian cdf.

Scaled to the same slope at zero, they differ only in the tails: the Gaussian's are thinner.
"""

from oddsmith.plots import LinkDisplay

display = LinkDisplay.from_links(["logit", "probit"], match_slopes=True).plot()
figure = display.figure_
