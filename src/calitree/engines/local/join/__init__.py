"""Joins: of what is small by look-ups, of relations that share a bag worst-case optimally."""
