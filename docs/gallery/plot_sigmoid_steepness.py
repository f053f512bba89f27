"""The longer the weight vector, the steeper the sigmoid across the boundary.

The direction of w orients the boundary; its length determines how certain the model is near it.
"""

from oddsmith.plots import LinkDisplay

display = LinkDisplay.from_lengths([0.5, 1, 2, 8]).plot()
figure = display.figure_
