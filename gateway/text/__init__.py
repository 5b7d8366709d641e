"""What may hide in text: characters that people do not see, words meant for a model, secrets. Pure functions."""
