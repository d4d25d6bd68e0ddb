"""If Kafka cannot be run, the benchmark says what is missing."""

from pathlib import Path

import pytest

from bench import kafka


def test_the_version_stands_in_the_pom() -> None:
    assert kafka.version().startswith("4.1.")


@pytest.mark.parametrize("missing", ["java", "mvn"])
def test_what_is_missing_is_named(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "JARS", tmp_path)
    monkeypatch.setattr(
        "shutil.which", lambda name: None if name == missing else f"/usr/bin/{name}"
    )
    with pytest.raises(kafka.KafkaMissing, match=rf"there is no {missing}.*install"):
        kafka.jars()


def test_jars_that_are_there_are_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"kafka-{kafka.version()}"
    folder.mkdir()
    monkeypatch.setattr(kafka, "JARS", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: "java" if name == "java" else None)
    assert kafka.jars() == folder
