"""Time logistic and softmax regression against every comparable library, on one objective.

For rows x_n with labels t_n, weights w and intercept b, every fit here minimises the same sum

    f(w, b) = Σ_n −log p(t_n | x_n, w, b) + ½ ‖w‖² / σ²

with the intercept free. A library *counts* on a case when the weights it returns, put into f by one
exact evaluator, are within a stated relative gap of the lowest value known. Run ``python -m benchmarks``.
"""
