"""Makes `format("cordwood")` known to Spark, which looks for modules of such a name."""

from cordwood.spark.data_source import CordwoodDataSource as DefaultSource

__all__ = ["DefaultSource"]
