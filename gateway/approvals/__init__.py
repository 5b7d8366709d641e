"""Calls that wait for a person's yes: who asked for what exactly, who said what, and what a yes is still good for."""
