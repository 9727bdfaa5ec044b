"""What is asked: text bound to annotations, aggregates and lifts over a join graph."""
