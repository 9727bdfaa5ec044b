"""From text to trees that are not too deep: the dialect, segments of tokens, lists and chains."""
