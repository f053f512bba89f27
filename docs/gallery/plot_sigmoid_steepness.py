"""The longer the weight vector, the steeper the sigmoid across the boundary.

The direction of w turns the boundary, its length says how sure the model is near it.
"""

from oddsmith.plots import LinkDisplay

display = LinkDisplay.from_lengths([0.5, 1, 2, 8]).plot()
figure = display.figure_
