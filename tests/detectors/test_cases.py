"""Every bug of others that detectors, times, scheduler and metrics are held against has a test.

A case that is new in the manifest, or whose test was dropped, fails here.
"""

import pytest

from tests.ingest import test_cases as of_intake
from tests.kit_cases import held, of_kinds

KINDS = ("detector", "time", "scheduler", "prometheus")
CATALOGUE = "detectors/catalogue"
HELD = {  # case: the test file that holds its expectation
    "B049": "ingest/adapters/test_native.py",
    "B051": "ingest/test_cases.py",
    "B053": f"{CATALOGUE}/test_deny_retry.py",
    "B054": "ingest/test_policy.py",
    "B056": "ingest/test_policy.py",
    "B058": "ingest/test_policy.py",
    "B059": "ingest/adapters/test_native.py",
    "B061": "ingest/test_policy.py",
    "B063": f"{CATALOGUE}/test_clock_skew.py",
    "B064": f"{CATALOGUE}/test_deny_rotation.py",
    "B066": f"{CATALOGUE}/test_deny_retry.py",
    "B068": f"{CATALOGUE}/test_deny_rotation.py",
    "B069": f"{CATALOGUE}/test_approval_backlog.py",
    "B071": f"{CATALOGUE}/test_approval_surge.py",
    "B073": f"{CATALOGUE}/test_external_call_spike.py",
    "B074": f"{CATALOGUE}/test_external_call_spike.py",
    "B076": f"{CATALOGUE}/test_first_seen.py",
    "B078": f"{CATALOGUE}/test_external_call_spike.py",
    "B080": f"{CATALOGUE}/test_external_call_spike.py",
    "B081": f"{CATALOGUE}/test_external_call_spike.py",
    "B083": f"{CATALOGUE}/test_deny_retry.py",
    "B085": f"{CATALOGUE}/test_config_churn.py",
    "B086": f"{CATALOGUE}/test_unlisted_egress.py",
    "B088": f"{CATALOGUE}/test_external_call_spike.py",
    "B090": f"{CATALOGUE}/test_external_call_spike.py",
    "B091": "detectors/test_scheduler_cases.py",
    "B093": "detectors/test_scheduler_cases.py",
    "B095": "detectors/test_scheduler_cases.py",
    "B097": "detectors/test_scheduler_cases.py",
    "B098": "detectors/test_scheduler_cases.py",
    "B100": "detectors/test_scheduler_cases.py",
    "B102": "detectors/test_scheduler_cases.py",
    "B104": "detectors/test_scheduler_cases.py",
    "B138": "detectors/metrics/test_cases.py",
    "B140": "detectors/metrics/test_cases.py",
    "B142": "detectors/metrics/test_cases.py",
    "B143": "gatewatch/test_pushing.py",
    "B145": "gatewatch/test_pushing.py",
    "B147": "detectors/metrics/test_cases.py",
}


def test_every_case_of_these_kinds_is_in_the_table() -> None:
    assert of_kinds(*KINDS) == HELD.keys()


@pytest.mark.parametrize("case", HELD)
def test_a_case_is_held_where_the_table_says(case: str) -> None:
    if HELD[case] == "ingest/test_cases.py":  # which runs what the manifest names
        assert case in {param.id for param in of_intake.plain()}
        return
    assert held(case, HELD[case]), f"{HELD[case]} does not hold {case}"
