"""Review a change: findings, checked, remembered, and exported in the formats of other tools."""
