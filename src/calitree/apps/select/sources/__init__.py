"""FROM: which relations of the graph a SELECT joins, and that it joins them as the graph does."""
