"""Annotations of rows as arrays: numbers of 64 and 128 bits, texts, covariances; ⊕ of them by group."""
