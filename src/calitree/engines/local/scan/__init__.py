"""The pass over a large table: what it takes in, by what it is summed."""
