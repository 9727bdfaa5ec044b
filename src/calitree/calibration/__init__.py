"""The idea: what a message is, when it can be reused, and how it is kept up to date."""
