"""The era with a handshake: sessions, streams opened with GET, cancellation by notification. Goes away as a whole."""
