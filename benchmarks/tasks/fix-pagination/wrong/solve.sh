#!/bin/sh
# Forgets the page size that makes no sense: range raises for 0, and nothing is raised below.
sed -i 's/len(entries) - size + 1/len(entries)/' paging.py
