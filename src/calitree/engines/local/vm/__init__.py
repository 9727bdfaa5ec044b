"""One pass over a large table as a program, and the compiled loop that runs it."""
