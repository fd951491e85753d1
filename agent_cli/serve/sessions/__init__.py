"""Open sessions that several clients read at their own pace, and the interface that opens them."""
