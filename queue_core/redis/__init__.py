"""What every part that speaks to Redis shares: clients, keys, scripts. Neither stores nor delivery."""
