"""Which rows make a measure what it is."""
