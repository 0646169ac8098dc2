"""Metrics for Prometheus: read from the back-ends at each scrape, never counted here."""
