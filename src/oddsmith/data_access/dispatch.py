"""Dispatch of predictions: data in pieces goes to `streamed_prediction`, which is imported only then."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

from oddsmith.engines.scan import is_elsewhere
from oddsmith.rows.device import is_on_device

F = TypeVar("F", bound=Callable[..., Any])


def streams(method: F) -> F:
    """Decorate a method that predicts for each row so that it takes data in pieces, too.

    The method is one of `oddsmith.data_access.streamed_prediction.METHODS`; rows in memory are unaffected.
    """

    @wraps(method)
    def dispatch(self: BaseEstimator, X: object, *args: object, **kwargs: object) -> Any:
        if is_on_device(X):
            from oddsmith.data_access.device_prediction import predict_on_device

            return predict_on_device(self, method, X, args, kwargs)
        if not is_elsewhere(X):
            return method(self, X, *args, **kwargs)
        from oddsmith.data_access.streamed_prediction import predict_stream

        given = signature(method).bind(self, X, *args, **kwargs).arguments
        return predict_stream(self, method.__name__, X, dict(list(given.items())[2:]))

    return dispatch  # type: ignore[return-value]
