#!/bin/sh
# Quotes everything, and still copies its own copies.
cat >backup.sh <<'END'
#!/bin/sh
[ -d "$1" ] || { echo "not a folder: $1" >&2; exit 1; }
mkdir -p -- "$2"
target=$(cd -- "$2" && pwd)
cd -- "$1" || exit 1
count=0
find . -name '*.txt' >"/tmp/backup.$$"
while IFS= read -r file; do
    mkdir -p -- "$target/$(dirname -- "$file")"
    cp -- "$file" "$target/$file"
    count=$((count + 1))
done <"/tmp/backup.$$"
rm -f "/tmp/backup.$$"
echo "$count"
END
