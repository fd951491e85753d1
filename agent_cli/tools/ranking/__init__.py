"""Full-text search over short texts, such as descriptions of tools and skills."""
