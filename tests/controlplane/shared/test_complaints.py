"""Tests which messages count as new and which parts are kept, since they may contain text from any client."""

from lacuna.controlplane.shared.complaints import Complaints
from lacuna.controlplane.shared.config_values import printable


def test_a_message_about_a_host_is_new_once_a_minute() -> None:
    said = Complaints()
    asked = [
        ("a", "x", 0.0),
        ("a", "x", 59.9),
        ("b", "x", 59.9),
        ("a", "y", 59.9),
        ("a", "x", 60.0),
    ]
    assert [said.is_new(*each) for each in asked] == [True, False, True, True, True]


def test_long_messages_are_told_apart_and_not_kept_whole() -> None:
    said = Complaints()
    long = "u" * 500_000
    assert [said.is_new("a", long + end, 0.0) for end in ("1", "2", "1")] == [True, True, False]
    assert all(len(text) < 250 for _, text in said._said)


def test_text_of_a_client_stays_on_its_line() -> None:
    assert printable("User:alice") == "User:alice"
    assert printable("ü") == "ü"
    assert printable("a\nb\x1b[31m\u2028") == "a\\nb\\x1b[31m\\u2028"
    assert len(printable("\n" * 500_000)) < 250
