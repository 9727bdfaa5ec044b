"""The join graph as a value, and the junction hypertrees over it."""
