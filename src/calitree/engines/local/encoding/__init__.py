"""Values as codes, combinations of codes as ids."""
