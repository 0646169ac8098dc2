"""Operations console, command line and exporter for queue_core."""
