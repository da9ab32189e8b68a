"""How the dashboard is started."""

import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from dashboards.launch import command
from tests.kit import ROOT


def test_the_command_starts_our_script_quietly_and_only_on_this_machine() -> None:
    words = command(8_601)

    assert words[:4] == [sys.executable, "-m", "streamlit", "run"]
    assert Path(words[4]).is_file()
    for flag in (
        "--server.port=8601",
        "--server.address=127.0.0.1",
        "--server.headless=true",
        "--browser.gatherUsageStats=false",
        "--client.toolbarMode=minimal",
        "--client.showErrorDetails=none",
    ):
        assert flag in words


def test_no_folder_of_pages_lies_beside_the_script_for_streamlit_to_run_by_itself() -> None:
    beside = {path.stem for path in Path(command(1)[4]).parent.iterdir()} - {"__pycache__"}

    assert beside == {"__init__", "app"}


def test_nothing_in_the_folder_hides_another_module() -> None:
    ours = {path.stem for path in (ROOT / "dashboards").iterdir()} - {"__init__", "__pycache__"}
    taken = sys.stdlib_module_names | packages_distributions().keys()

    assert ours & (taken | {"gatewatch", "rules_miner", "detectors", "ingest"}) == set()
