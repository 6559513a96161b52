"""What stands before anything else is imported: the handlers of SIGINT and SIGTERM."""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

NAME = "ntkfl.interruption"


def interruption() -> ModuleType:
    """The module `ntkfl.interruption`, without the rest of `ntkfl`, which imports JAX: that takes a second or more.

    An interrupt within that second would abort the process in native code, or come as another error.
    """
    if NAME not in sys.modules:
        package = find_spec(NAME.partition(".")[0])
        assert package is not None and package.submodule_search_locations
        path = Path(package.submodule_search_locations[0], "interruption.py")
        spec = spec_from_file_location(NAME, path)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[NAME] = module
        spec.loader.exec_module(module)
    return sys.modules[NAME]
