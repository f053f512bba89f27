"""Our messages for other libraries' errors about input."""

from __future__ import annotations

import re

UNREADABLE = {
    "np.matrix is not supported": "X is an np.matrix, which is not supported. Pass np.asarray(X).",
    "Complex data not supported": "Complex data not supported: X holds complex numbers. Pass real and imaginary parts "
    "as columns of their own, or one of them.",
    "could not convert string": "X holds text where numbers are expected ({}). Pass a data frame, whose categories "
    "become columns, or encode text as numbers first.",
    "float() argument must be": "X holds values that are not numbers ({}). Pass an array of numbers or a data frame.",
    "inhomogeneous": "The rows of X have different lengths ({}). Give every row the same columns.",
    "setting an array element": "X holds sequences where numbers are expected ({}). Give every row the same columns.",
    "int too large to convert": "X holds a whole number that no float64 can hold ({}). Rescale the column.",
    "Expected unique column names": "Two columns have the same name ({}). Give every column a unique name.",
    "Cannot cast": "X holds values that are not numbers ({}). Pass an array of numbers or a data frame.",
    "ufunc": "X holds values that are not numbers ({}). Pass an array of numbers or a data frame.",
}
"""Other libraries' errors about rows, and our message for each."""


def explain_rows(text: str) -> str:
    """Return our message for another library's error about rows.

    >>> explain_rows("could not convert string to float: 'good film'")[:62]
    'X holds text where numbers are expected (could not convert str'
    """
    shape = re.match(r"Expected 2D array, got \w+ array instead", text)
    if shape is not None:
        return (
            f"{shape.group()}. Reshape your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one "
            "row."
        )
    first = " ".join(text.split("\n")[:2]).rstrip(". ")
    found = [sentence for words, sentence in UNREADABLE.items() if words in text]
    return found[0].format(first) if found else text


def explain_numbers(what: str, text: str) -> str:
    """Return the sentence for weights or offsets that are not numbers."""
    return f"{what} holds values that are not numbers ({text}); expected a number for each row."
