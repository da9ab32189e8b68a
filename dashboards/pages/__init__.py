"""The pages, one file each: TITLE, ORDER, load(client, filters) -> data, show(data).

`load` asks the service; `show` draws and asks nobody. HIDDEN keeps a page out of the menu;
EVERY is the number of seconds after which it draws itself again.
"""

import importlib
import pkgutil
from types import ModuleType


def names() -> list[str]:
    """Every page there is, without importing one."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
