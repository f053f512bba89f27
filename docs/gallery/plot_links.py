"""The logistic sigmoid and the Gaussian cdf.

With activations scaled so that both are as steep at zero, they differ in the tails alone: the Gaussian's are thinner.
"""

from oddsmith.plots import LinkDisplay

display = LinkDisplay.from_links(["logit", "probit"], match_slopes=True).plot()
figure = display.figure_
