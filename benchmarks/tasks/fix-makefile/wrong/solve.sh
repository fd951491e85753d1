#!/bin/sh
# Always rebuilds.
printf '.PHONY: book.txt clean\n\nbook.txt:\n\tfor chapter in src/ch*.txt; do cat src/style.txt $$chapter; done >book.txt\n\nclean:\n\trm -f book.txt\n' >Makefile
