"""Tables that improve a model."""
