"""Transactional producers of both generations, and what they make of what they read."""
