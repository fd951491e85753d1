"""Sessions that several clients read at their own pace, and what opens them."""
