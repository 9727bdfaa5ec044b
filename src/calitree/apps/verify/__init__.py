"""Answers checked against the join really built."""
