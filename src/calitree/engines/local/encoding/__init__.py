"""Values as codes, combinations of codes as ids, annotations as arrays."""
