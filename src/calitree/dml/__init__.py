"""Changing the rows of relations: updates, and what-ifs that nobody else sees."""

from calitree.dml.update import suppose, update

__all__ = ["suppose", "update"]
