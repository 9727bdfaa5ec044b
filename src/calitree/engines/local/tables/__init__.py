"""Relations, messages and joined rows of the local engine."""
