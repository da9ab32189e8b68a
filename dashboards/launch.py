"""How the dashboard is started: one command for the service, for people and for tests."""

import sys
from pathlib import Path

LOOK = {  # light, with contrast that holds on a bright office screen
    "base": "light",
    "primaryColor": "#1d4ed8",
    "backgroundColor": "#ffffff",
    "secondaryBackgroundColor": "#f5f6f8",
    "textColor": "#111827",
    "borderColor": "#d5d9e0",
    "baseRadius": "4px",
    "baseFontSize": "14",
}
SETTINGS = {
    "server.headless": "true",  # open no browser, ask for no e-mail address
    "server.fileWatcherType": "none",
    "server.runOnSave": "false",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",  # a mistake of ours shows no trace to who looks
    "logger.level": "warning",
}


def command(port: int, address: str = "127.0.0.1") -> list[str]:
    """The command line of the dashboard's own process. It reads GATEWATCH_URL, GATEWATCH_TOKEN."""
    settings = {
        **SETTINGS,
        **{f"theme.{name}": value for name, value in LOOK.items()},
        "server.port": str(port),
        "server.address": address,
    }
    script = str(Path(__file__).with_name("start") / "app.py")
    flags = [f"--{name}={value}" for name, value in settings.items()]
    return [sys.executable, "-m", "streamlit", "run", script, *flags]
