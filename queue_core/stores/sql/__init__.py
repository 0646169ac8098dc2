"""What the stores that speak SQL share: how they load statements, make filters, read rows and migrate."""
