"""The gateway as an OAuth client of the servers behind it (basic/authorization). No caller's credential passes here."""
