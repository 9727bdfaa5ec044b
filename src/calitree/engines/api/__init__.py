"""What an engine is given, and what it must be able to do."""
