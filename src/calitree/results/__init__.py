"""Answers, and what can be computed from one without another query."""
