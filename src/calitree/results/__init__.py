"""What comes back, and what can be made of it without asking again."""
