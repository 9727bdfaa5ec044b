"""As-of joins: the matches of their rows, computed and kept up with updates."""
