"""What a process has of its own, and others like it may have copies of: machine code, and locks."""
