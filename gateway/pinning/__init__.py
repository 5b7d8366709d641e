"""Who a server and its definitions were when they were first seen, and what has changed since.

This version reports (mode ``warn``); it holds nothing back. Knows no connections and no clients.
"""
