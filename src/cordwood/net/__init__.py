"""Framed connections: the server's side (`server`, `serving`) and the client's (`channel`), over the Network port."""
