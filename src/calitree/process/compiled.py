"""How loops over arrays are compiled: once, kept on disk, and without Python's lock.

There is a fixed set of them, whatever is asked, so a machine compiles once: when they are first
used, or before (`calitree warm-up`). Every later process reads machine code from a file.

The files are in `$NUMBA_CACHE_DIR` if that is set, else beside the sources; where these cannot be written
to, in the user's cache directory; and where nothing can be written, each process compiles for itself.

numba's own cache fails there. It also trusts what it reads, and has numbered files and an index, which two
processes that write at a time may leave disagreeing. Here a file has one function for one set of types, and
begins with a digest of its content, of these types and of all that was compiled into it: a file that is
damaged, or of another version, is as good as none.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import getfile
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast
from uuid import uuid4

import numba
from llvmlite import __version__ as llvmlite_version  # type: ignore[import-untyped]
from numba.core import config, event
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from calitree.interrupts import run
from calitree.process.locks import hold_in_forks
from calitree.progress import notice
from calitree.user_cache import cache_directory

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE = __name__.partition(".")[0]
_used: set[Path] = set()
"""The directories from which code was read, or to which it was written."""

DIGEST_BYTES = hashlib.sha256().digest_size


def compiled(function: Function) -> Function:
    """A loop over arrays as machine code. It is compiled when first called and then kept on disk."""
    make = numba.njit(nogil=True, error_model="numpy", boundscheck=False)
    dispatcher: Any = make(function)
    dispatcher._cache = MachineCode(dispatcher.py_func)
    # KeyboardInterrupt in the midst of it would leave numba with half of its declarations.
    prepare = dispatcher._compile_for_args
    dispatcher._compile_for_args = lambda *arguments: run(lambda: prepare(*arguments))
    return cast(Function, dispatcher)


def directory_in_use() -> Path | None:
    """The directory below which the machine code of this process is; None if it is in no file."""
    return Path(os.path.commonpath(_used)) if _used else None


def helper(function: Function) -> Function:
    """A function that compiled loops call: its machine code becomes part of theirs."""
    make = numba.njit(forceinline=True, nogil=True, error_model="numpy", boundscheck=False)
    return cast(Function, make(function))


def inlined(function: Function) -> Function:
    """A helper that is put in place of its calls before types are inferred: quicker to compile."""
    make = numba.njit(inline="always", error_model="numpy", boundscheck=False)
    return cast(Function, make(function))


class MachineCode(_Cache):
    """The files with the machine code of one function, as numba asks for them: under its lock."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self._parts: str | None = None
        self._rebuild: Any = CompileResult._rebuild

    @property
    def cache_path(self) -> str | None:
        """Where it is looked for first."""
        return str(next(self._directories()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function for these types, if a file has it."""
        target_context.refresh()
        name, identity = self._identified(sig, target_context.codegen())
        for directory in self._directories():
            with suppress(Exception):  # whatever is wrong with a file, there is another way
                written = (directory / name).read_bytes()
                digest, content = written[:DIGEST_BYTES], written[DIGEST_BYTES:]
                if digest == hashlib.sha256(identity + content).digest():
                    loaded = self._rebuild(target_context, *pickle.loads(content))
                    _used.add(directory)
                    return loaded
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write it to the first directory that takes it."""
        if data.lifted or data.library.has_dynamic_globals:
            return
        name, identity = self._identified(sig, data.codegen)
        content: bytes = dumps(data._reduce())  # type: ignore[no-untyped-call]
        written = hashlib.sha256(identity + content).digest() + content
        for directory in self._directories():
            with suppress(OSError):
                _replace(directory / name, written)
                _used.add(directory)
                return

    def enable(self) -> None:
        """Nothing: it is enabled."""

    def disable(self) -> None:
        """Nothing: it stays enabled."""

    def flush(self) -> None:
        """Nothing: what does not fit any more is not read, and is written over."""

    def _directories(self) -> Iterator[Path]:
        source = Path(getfile(self.function)).absolute()
        place = hashlib.sha256(os.fsencode(source.parent)).hexdigest()[:16]
        below = f"{source.parent.name}_{place}"
        if given := getattr(config, "CACHE_DIR", ""):
            yield Path(given) / below
        else:
            yield source.parent / "__pycache__"
        with suppress(OSError):  # there may be none
            yield cache_directory() / "compiled" / below

    def _identified(self, sig: Any, codegen: Any) -> tuple[str, bytes]:
        """The name of the file, and what its content must have been made from."""
        target = repr((sig, codegen.magic_tuple()))
        if self._parts is None:
            self._parts = "\n".join(sorted(set(_parts(self.function, set()))))
        versions = (numba.__version__, llvmlite_version, sys.version)
        identity = f"{versions}\n{self.function.__qualname__}\n{target}\n{self._parts}"
        source = Path(getfile(self.function)).stem
        short = hashlib.sha256(target.encode()).hexdigest()[:16]
        tag = sys.implementation.cache_tag
        return f"{source}.{self.function.__qualname__}.{tag}.{short}.nbc", identity.encode()


def _parts(function: FunctionType, seen: set[FunctionType]) -> Iterator[str]:
    """All that is compiled into a function: sources, and the values of its globals."""
    if function in seen:
        return
    seen.add(function)
    yield hashlib.sha256(Path(getfile(function)).read_bytes()).hexdigest()
    for name in sorted(set(_names(function.__code__))):
        value = function.__globals__.get(name)
        inner = getattr(value, "py_func", getattr(value, "_defn", None))
        if isinstance(inner, FunctionType):
            yield from _parts(inner, seen)
        elif value is not None and not isinstance(value, ModuleType | type | FunctionType):
            yield f"{function.__module__}.{name} = {value!r}"


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _replace(path: Path, content: bytes) -> None:
    """Write a file that others see whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    complete = path.with_name(f".{uuid4().hex}.tmp")
    try:
        complete.write_bytes(content)
        complete.replace(path)
    except BaseException:
        complete.unlink(missing_ok=True)
        raise


class _Notice(event.Listener):
    """Says why the first question on a machine takes seconds."""

    given = False

    def on_start(self, event: Any) -> None:
        ours = event.data["dispatcher"].py_func.__module__.startswith(PACKAGE)
        if ours and not self.given:
            self.given = True
            notice("compiling for this machine, once (some seconds)")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Notice())  # type: ignore[no-untyped-call]

# A child process could not compile if another thread were about to at the fork.
hold_in_forks(global_compiler_lock)
