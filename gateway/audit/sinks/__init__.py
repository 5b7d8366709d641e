"""Where records also go: other systems, told behind the log and never before it, so that none can slow a call."""
