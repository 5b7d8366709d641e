"""Who a server and its definitions were when they were approved, what has changed since, and what follows from it.

Decides and remembers; connects to nothing and knows no clients.
"""
