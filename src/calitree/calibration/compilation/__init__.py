"""From plans to contractions."""
