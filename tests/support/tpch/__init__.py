"""The 22 queries of TPC-H: their texts, and what a tree is asked for each."""
