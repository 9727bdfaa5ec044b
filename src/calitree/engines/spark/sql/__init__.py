"""An output of a contraction as one SQL statement for Spark."""
