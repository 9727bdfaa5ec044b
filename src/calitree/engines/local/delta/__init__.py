"""What updates need: rows found, messages added and subtracted."""
