from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit_lifecycle import Desktop
from tests.kit_telling import Build, House


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Makes a House for the receivers it is given, and closes it."""
    built: list[House] = []

    def one(**receivers: dict[str, Any]) -> House:
        built.append(House(tmp_path / str(len(built)), **receivers))
        return built[-1]

    yield one
    for house in built:
        house.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desktop]:
    """A store with nothing in it, and who acts on it."""
    made = Desktop(tmp_path)
    yield made
    made.close()
