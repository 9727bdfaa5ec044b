"""Trees at rest."""
