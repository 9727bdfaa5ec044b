"""SQL's scalar expressions: parsed, typed, in canonical form, evaluated."""
