"""What happens to one call between endpoint and pool: an ordered chain of small steps over frozen values."""
