#!/bin/sh
cat >backup.sh <<'END'
#!/bin/sh
# Copy each .txt file under SOURCE to the same place under TARGET, and print how many were copied.
case $1 in /*) source=$1 ;; *) source=$PWD/$1 ;; esac
case $2 in /*) target=$2 ;; *) target=$PWD/$2 ;; esac
if [ ! -d "$source" ]; then
    echo "backup.sh: $1 is not a folder" >&2
    exit 1
fi
mkdir -p "$target" || exit 1
source=$(cd "$source" && pwd -P)
target=$(cd "$target" && pwd -P)
cd "$source" || exit 1
find . -path "./${target#"$source"/}" -prune -o -type f -name '*.txt' -exec sh -c '
    target=$1
    shift
    for file do
        mkdir -p "$target/${file%/*}" && cp -- "$file" "$target/$file" && echo copied
    done
' sh "$target" {} + | wc -l | tr -d " "
END
