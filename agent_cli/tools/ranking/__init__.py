"""Search among short texts, such as descriptions of tools and skills, by what they are about."""
