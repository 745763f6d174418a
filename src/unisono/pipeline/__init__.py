"""Whole traces at scale: audits and measures with Spark, which is imported below this package alone."""
