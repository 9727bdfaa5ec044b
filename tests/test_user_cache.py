"""One directory for all that is kept between processes, and one rule for where it is."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from calitree.user_cache import cache_directory


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose home and temporary directory are empty."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_it_is_in_the_home_of_the_user(tmp_path: Path) -> None:
    assert cache_directory() == tmp_path / "home" / ".cache" / "calitree"
    assert cache_directory().is_dir()


def test_it_is_where_xdg_cache_home_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_directory() == tmp_path / "cache" / "calitree"
    for relative in ("cache", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert cache_directory() == tmp_path / "home" / ".cache" / "calitree"


def test_a_temporary_one_serves_where_the_user_has_none(tmp_path: Path) -> None:
    (tmp_path / "home").rmdir()
    directory = cache_directory()
    assert directory == tmp_path / f"calitree-{os.getuid()}" == cache_directory()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_temporary_one_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "home").rmdir()
    cache_directory().chmod(0o777)
    directory = cache_directory()
    assert directory != tmp_path / f"calitree-{os.getuid()}"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    (tmp_path / f"calitree-{os.getuid()}").rmdir()
    (tmp_path / f"calitree-{os.getuid()}").symlink_to(tmp_path)
    assert cache_directory().parent == tmp_path
    assert not cache_directory().is_symlink()
