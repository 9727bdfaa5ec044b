"""What is kept in memory: one budget for all of it, and a report."""
