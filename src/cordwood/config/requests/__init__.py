"""The decisions and answers of requests that describe or alter configurations."""
