"""JSON Schema, drafts 4 to 2020-12: parsing with references, normalisation, compatibility."""
