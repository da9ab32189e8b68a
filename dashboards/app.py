"""The script that Streamlit runs. It puts the path right and hands over to dashboards/board.py."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Streamlit puts this folder first, where a file of ours could hide a package of the same name.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from dashboards.board import main  # noqa: E402 - the path has to be right first

main()
