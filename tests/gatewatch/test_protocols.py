"""Protocols from a folder into the database, and again after the database was lost."""

from pathlib import Path

import pytest

from gatewatch.parts import open_parts, put_protocols
from ingest.config import ConfigError, read_settings

TILL = """
agents = ["till-*"]
initial = "start"
final = ["paid"]
[transitions.start]
pay = "paid"
"""


def config(folder: Path, more: str = 'protocols_folder = "protocols"\n') -> Path:
    path = folder / "gatewatch.toml"
    path.write_text(f'redact_key = "redact.key"\n{more}', encoding="utf-8")
    return path


def written(folder: Path, text: str) -> Path:
    place = folder / "protocols"
    place.mkdir(exist_ok=True)
    (place / "till.toml").write_text(text, encoding="utf-8")
    return place


def in_force(path: Path) -> list[tuple[object, ...]]:
    parts = open_parts(read_settings(path))
    sql = "SELECT version, doc ->> '$[0].agents[0]' AS agent FROM protocols ORDER BY loaded_at"
    found = [tuple(row.values()) for row in parts.rows(sql)]
    parts.close()
    return found


def test_a_folder_is_put_in_force_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    written(tmp_path, TILL)

    [first] = in_force(config(tmp_path))
    assert in_force(config(tmp_path)) == [first]
    written(tmp_path, TILL.replace("till-*", "till-9"))
    assert [agent for _, agent in in_force(config(tmp_path))] == ["till-*", "till-9"]


def test_a_database_that_is_made_anew_has_them_without_the_folder(tmp_path: Path) -> None:
    written(tmp_path, TILL)
    before = in_force(config(tmp_path))
    for each in (tmp_path / "data").glob("*.duckdb*"):
        each.unlink()

    assert in_force(config(tmp_path, more="")) == before


def test_other_protocols_are_judged_anew(tmp_path: Path) -> None:
    place = written(tmp_path, TILL)
    parts = open_parts(read_settings(config(tmp_path)))

    assert not put_protocols(parts.store, parts.lander, place)
    assert parts.detectors["protocol_violation"].by_policy
    parts.close()


def test_a_mistake_in_a_protocol_stops_the_start(tmp_path: Path) -> None:
    place = written(tmp_path, TILL.replace('"paid"]', '"over"]'))

    with pytest.raises(ConfigError, match="no run reaches 'over'") as raised:
        in_force(config(tmp_path))

    assert str(place / "till.toml") in str(raised.value)
