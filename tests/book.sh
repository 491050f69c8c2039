#!/bin/bash
# Makes the book of docs/ with what cargo has built, into a folder:
#   tests/book.sh target/debug target/book
# In a virtual environment of its own under the target directory, of the Python that PYTHON names, else of
# python3. Says "skipped" and succeeds where there is none of 3.11 or newer, or its packages cannot be had;
# with DEBUBBLE_PYTHON=require, as in CI, it fails then. Warnings are errors, links into nowhere among them.
# Where there is node, the search of the book is asked in everyday words.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/python-environment.sh

built=$(realpath "${1:?the folder of what cargo has built}")
book=${2:?the folder of the book}
case $version in
  3.9 | 3.10) skip "the book is made with Python 3.11 or newer, and $python is $version" ;;
esac
venv=$target/python/venv-$version-book
environment "$venv" docs/requirements.txt
site "$built" "$target/python/site-book"
run python tests/book_pictures.py "$built/debubble" docs/reference/schedules
run sphinx-build --quiet --fail-on-warning --keep-going --jobs auto \
  --doctree-dir "$target/python/doctrees" docs "$book"
run python tests/book_stands_alone.py "$book"
if command -v node >/dev/null; then
  run node tests/book_search.js "$book"
else
  echo "skipped: there is no node to ask the search of the book"
fi
echo "the book: $book/index.html"
