"""Files and frames: where they are, what is in them, and what need not be read."""
