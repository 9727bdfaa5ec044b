"""Questions, bound to annotations, aggregates and lifts over a join graph."""
