"""Data that breaks sums: what must be right however unlucky the numbers are."""
