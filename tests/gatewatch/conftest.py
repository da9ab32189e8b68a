from collections.abc import Iterator

import pytest

from tests.kit_gates import afresh
from tests.kit_http import Asked


@pytest.fixture(scope="module")
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asked]:
    """One installation for all tests of a module, of its own CONFIG."""
    asked = Asked(tmp_path_factory.mktemp("house"), request.module.CONFIG)
    yield asked
    asked.parts.close()


@pytest.fixture
def there(opened: Asked) -> Asked:
    """With one alert of agent a1, and nothing else that has happened."""
    return afresh(opened)
