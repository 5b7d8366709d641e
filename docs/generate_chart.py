"""Writes the chart's README and the descriptions of its schema from its values: ``python docs/generate_chart.py``."""

from __future__ import annotations

from tests.charts import told

if __name__ == "__main__":
    told.write()
