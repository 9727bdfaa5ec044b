"""Joins: as they are declared, what they mean in their order, and what they make of columns."""
