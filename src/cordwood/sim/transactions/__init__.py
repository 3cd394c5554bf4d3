"""Transactional producers of both generations, and consume-transform-produce loops."""
