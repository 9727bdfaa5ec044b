"""From a query to a plan: where annotations stand, which root, which messages are missing."""
