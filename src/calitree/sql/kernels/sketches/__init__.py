"""What sketches group by: cells of the hashes of values, and buckets of numbers."""
