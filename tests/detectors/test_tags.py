"""What a detector is about, by which routes choose: its header says it, a user may add to it."""

from typing import Any

import pytest

from detectors.detector import Detector
from ingest.config import ConfigError
from tests.kit import loaded, store


def tagged(**settings: Any) -> Detector:
    return loaded("unlisted_egress", store(), **settings)


def test_a_user_adds_tags_to_those_of_the_header() -> None:
    assert tagged().tags == ("egress", "policy")
    assert tagged(tags=["team-a", "egress"]).tags == ("egress", "policy", "team-a")


def test_another_tag_is_no_reason_to_judge_history_anew() -> None:
    assert tagged(tags=["team-a"]) != tagged()
    assert tagged(tags=["team-a"]).version == tagged().version


@pytest.mark.parametrize("given", ["team-a", ["Team A"], [""], [7], {"team": "a"}])
def test_what_is_no_tag_is_named_with_its_place(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"unlisted_egress\.tags: .* expected short words"):
        tagged(tags=given)
