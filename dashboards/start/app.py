"""The script that Streamlit runs. It puts the path right and hands over to dashboards/board.py."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:  # a checkout that is not installed
    sys.path.insert(0, ROOT)

from dashboards.board import main  # noqa: E402 - the path has to be right first

main()
