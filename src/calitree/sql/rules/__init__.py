"""How each kind of expression is typed and written out: a function a rule, a file a family."""
