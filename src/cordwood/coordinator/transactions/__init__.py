"""The transaction coordinator: transactional ids, their producers, and what is decided about their transactions."""
