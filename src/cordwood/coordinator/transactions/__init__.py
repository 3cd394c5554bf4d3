"""The transaction coordinator: transactional ids, their producers, and decisions about their transactions."""
