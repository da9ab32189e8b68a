"""The one option that the tests add: `pytest --accept` writes golden files anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept", action="store_true", help="write golden files anew, for a person to read"
    )
