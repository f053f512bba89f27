"""Every storage has the verbs of the dense matrix that it stands for."""

import pytest

from oddsmith.rows import STORAGES, DenseRows
from oddsmith.testing import check_rows


@pytest.mark.parametrize("name", list(STORAGES))
def test_storage_keeps_its_laws(name: str) -> None:
    check_rows(STORAGES[name])


@pytest.mark.parametrize("verb", ["activations", "gradient", "gram", "squares", "row_norms", "take", "centred"])
def test_a_wrong_verb_is_noticed(verb: str) -> None:
    """The check itself can fail: each verb in turn is off by a part in a million."""

    class Wrong(DenseRows):
        pass

    def wrong(self: DenseRows, *given: object) -> object:
        found = getattr(DenseRows, verb)(self, *given)
        return DenseRows(found.X * (1.0 + 1e-6)) if isinstance(found, DenseRows) else found * (1.0 + 1e-6)

    setattr(Wrong, verb, wrong)
    with pytest.raises(AssertionError):
        check_rows(Wrong)
