"""Joins by a condition: a leg that no equality joins with the others is looked up by inequalities."""
