"""CloudTrail: a record is one event, in whatever it is packed."""

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row


def record(**fields: object) -> Row:
    return {
        "eventTime": "2026-03-10T09:00:00Z", "eventSource": "iam.amazonaws.com",
        "eventName": "CreateUser", "eventID": "e-1", "readOnly": False,
        "eventType": "AwsApiCall", **fields,
    }  # fmt: skip


def test_a_record_has_one_id_however_it_is_packed() -> None:
    for one, two in (
        (record(), record(eventID="e-2")),
        (record(eventID=None), record(eventID=None, eventName="DeleteUser")),
    ):
        packs: list[Row] = [
            {"Records": [one, two]}, {"Records": [two]}, {"Records": [one], "x": 1}, one, two,
            {"detail-type": "AWS API Call via CloudTrail", "detail": one},
        ]  # fmt: skip

        rows = kit.read("cloudtrail", packs)

        assert len(rows) == 7
        assert len({row["event_id"] for row in rows}) == 2
        assert len({row["native_id"] for row in rows}) == 2


def test_each_service_has_its_own_word_for_no() -> None:
    codes = ["AccessDenied", "AccessDeniedException", "Client.UnauthorizedOperation",
             "VpceAccessDenied", "UnauthorizedAccess", "Throttling", "ThrottlingException",
             "ValidationException", ""]  # fmt: skip

    rows = kit.read("cloudtrail", [record(errorCode=code, eventID=code) for code in codes])

    assert [row["kind"] for row in rows] == ["tool_decided"] * 5 + ["other"] * 3 + [
        "config_changed"
    ]
    assert [row["decision"] for row in rows] == ["deny"] * 5 + [None] * 4


def test_a_pack_that_holds_something_else_is_none_of_ours() -> None:
    packs: list[Row] = [
        {"Records": [7, None, "x"]},
        {"Records": [{}]},
        {"Records": "x"},
        {"x": []},
        {},
    ]

    assert kit.read("cloudtrail", packs) == []


def test_a_question_that_was_refused_itself_is_a_denial() -> None:
    asked = {
        "eventSource": "verifiedpermissions.amazonaws.com", "eventName": "IsAuthorized",
        "readOnly": True, "requestParameters": {"action": {"actionId": "pay"}},
    }  # fmt: skip

    refused, unread = kit.read("cloudtrail", [
        record(**asked, errorCode="AccessDeniedException"),
        record(**asked, errorCode="ValidationException", eventID="e-2"),
    ])  # fmt: skip

    assert (refused["kind"], refused["decision"], refused["status"]) == (
        "tool_decided", "deny", "denied"
    )  # fmt: skip
    assert (unread["kind"], unread["decision"], unread["status"]) == ("other", None, "error")
