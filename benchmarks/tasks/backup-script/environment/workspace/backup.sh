#!/bin/sh
# Copy each .txt file under SOURCE to the same place under TARGET, and print how many were copied.
source=$1
target=$2
count=0
mkdir -p $target
cd $source
for file in $(find . -name *.txt); do
    mkdir -p $target/$(dirname $file)
    cp $file $target/$file
    count=$((count + 1))
done
echo $count
