"""Questions about an earlier or a later time: the same groups and conditions, of times that are moved."""
