#!/bin/sh
# The folders of inputs with which a fuzz target begins, those that there are, a line each. usage: tests/fuzz/seeds.sh TARGET
case $1 in
parse) more=tests/data/patterns ;;
any) more="tests/data/foreign tests/data/configs" ;;
layers) more=tests/data/configs ;;
*) more="" ;;
esac
for folder in "tests/fuzz/corpus/$1" "tests/data/foreign/$1" "build/fuzz/seeds/files/$1" $more; do
    [ -d "$folder" ] && echo "$folder"
done
true
