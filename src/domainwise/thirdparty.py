"""Python files of a user's own: algorithms and networks that are no part of this package."""

from __future__ import annotations

import hashlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from domainwise.errors import InputError


def source_of(file: Path | str) -> str:
    """What a file says, as a hash; an edited file is another algorithm, or another network."""
    return hashlib.sha256(_content(Path(file))).hexdigest()


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"there is no file {file}") from error
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error


def module_of(file: Path) -> ModuleType:
    """The file, run once for each of its contents."""
    # Under a name of its own, so that two files of one name, or an edited one, do not stand in for each other.
    name = f"_domainwise_{file.stem}_{hashlib.sha256(str(file).encode() + _content(file)).hexdigest()[:12]}"
    if name not in sys.modules:
        location = spec_from_file_location(name, file)
        assert location is not None
        assert location.loader is not None
        module = sys.modules[name] = module_from_spec(location)
        try:
            location.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise InputError(f"{file.name} cannot be imported: {type(error).__name__}: {error}") from error
    return sys.modules[name]
