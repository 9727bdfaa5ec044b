"""The pass over a large table: which messages its rows are joined with, and by what it is summed."""
