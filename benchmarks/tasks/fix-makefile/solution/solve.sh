#!/bin/sh
{
    printf 'chapters := $(sort $(wildcard src/ch*.txt))\n\n'
    printf 'book.txt: $(chapters) src/style.txt\n\tfor chapter in $(chapters); do cat src/style.txt $$chapter; done >$@\n\n'
    printf '.PHONY: clean\nclean:\n\trm -f book.txt\n'
} >Makefile
