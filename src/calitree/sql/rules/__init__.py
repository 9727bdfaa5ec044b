"""Rules that type a parsed node and give its canonical form, one file a family of functions."""
