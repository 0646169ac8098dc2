"""How workers learn what is ready, and subscribers what happens: notifications of PostgreSQL."""
