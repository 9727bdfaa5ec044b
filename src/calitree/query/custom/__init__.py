"""Measures over semirings of the user's own."""
