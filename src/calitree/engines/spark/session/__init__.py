"""Spark as it is started: the session, its Java, its archive of classes."""

from calitree.engines.spark.session.launch import spark_session

__all__ = ["spark_session"]
