"""Review a change: findings, checked, remembered, and told in the formats of other tools."""
