"""What is believed of a saved tree, and what of it may be touched: see docs/security.md."""
