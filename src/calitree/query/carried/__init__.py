"""Measures that are folded of values carried in the tree."""
