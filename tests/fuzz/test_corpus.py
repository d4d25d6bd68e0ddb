"""Runs every stored input, and a short reproducible search: no crash, no hang, no disproportionate memory."""

import re
import time
import tracemalloc

import pytest

from tests.fuzz import corpus
from tests.fuzz.search import search_each
from tests.fuzz.targets import MAX_DECOMPRESSED_BYTES, MAX_FRAME_BYTES, TARGETS

#: How much memory one input may take: a frame's buffer, and a decompressed batch in each of three readers.
MOST_BYTES = MAX_FRAME_BYTES + 8 * MAX_DECOMPRESSED_BYTES
MOST_SECONDS = 5.0


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_the_kept_corpus(name: str) -> None:
    inputs = corpus.kept(name)
    assert len(inputs) > 5
    check = TARGETS[name].check
    for data in inputs:
        tracemalloc.start()
        began = time.process_time()
        try:
            check(data)
        except Exception as error:
            raise AssertionError(f"{data.hex()} of {name}") from error
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak < MOST_BYTES, data.hex()
        assert time.process_time() - began < MOST_SECONDS, data.hex()


SEED = 1


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    runs = {name: target.runs for name, target in TARGETS.items()}
    return search_each(runs, tmp_path_factory.mktemp("found"), seed=SEED)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found(name: str, searched: dict[str, tuple[int, str]]) -> None:
    code, output = searched[name]
    assert code == 0, output[-4000:]
    runs = re.search(r"number_of_executed_units: (\d+)", output)
    assert runs is not None
    assert int(runs[1]) >= TARGETS[name].runs
