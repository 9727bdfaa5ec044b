"""SQL's scalar expressions: parsed, typed and brought to one form, evaluated."""
