"""Standard output and standard error, whatever they are: closed, full, nobody's any more, or not in UTF-8."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import suppress
from typing import Any, cast

from calitree.errors import DamagedWarning
from calitree.progress import notice

BROKEN_PIPE = 128 + getattr(signal, "SIGPIPE", 13)
"""The exit status of a program whose reader has gone, as a shell reports it."""


def prepare() -> None:
    """Make the standard streams usable: none is missing, and none fails at a character."""
    warnings.showwarning = cast(Any, _show_warning)
    for number, access in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened would be taken for it. Writing to the output is an error.
            os.open(os.devnull, access)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _show_warning(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    """Our own warnings are one line, as our errors are."""
    if issubclass(category, DamagedWarning):
        notice(str(message))
    else:
        _SHOW_WARNING(message, category, *where, **more)


_SHOW_WARNING = warnings.showwarning


def arguments() -> list[str]:
    """What the command line was given. In a locale of ASCII only, bytes that are UTF-8 are taken for that."""
    given = []
    for argument in sys.argv[1:]:
        try:
            given.append(os.fsencode(argument).decode() if not argument.isascii() else argument)
        except UnicodeError:
            given.append(argument)
    return given


def show(text: str) -> None:
    """A text on standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show_data(text: str) -> None:
    """Text for another program on standard output: in UTF-8, as in a file."""
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
    else:
        sys.stdout.write(text)
    sys.stdout.flush()


def tell(text: str) -> None:
    """A text on standard error, if anybody hears it."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def failed(error: OSError) -> int:
    """The exit status after standard output could not be written to; what is left of it is dropped."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    notice(f"Cannot write to standard output: {error.strerror or error}.")
    return 2
