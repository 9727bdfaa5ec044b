"""The version of calitree, as `calitree.__version__`."""

__version__ = "0.1.0"
