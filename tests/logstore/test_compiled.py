"""Tests the detection of modules that should be compiled but are not."""

from lacuna.logstore.compiled import interpreted


def test_a_module_of_python_is_interpreted() -> None:
    assert interpreted(("lacuna.logstore.interpreted", "lacuna.none_such")) == [
        "lacuna.logstore.interpreted",
        "lacuna.none_such",
    ]
    assert interpreted(("_ctypes", "lacuna.logstore.compiled")) == ["lacuna.logstore.compiled"]
