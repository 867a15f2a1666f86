#!/bin/sh
# A Python package: two tasks with unit tests as checks. The first attempt at the first task is wrong on purpose.
# usage: sh python-package.sh [FOLDER]
set -eu
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
git init --quiet
git config user.name >/dev/null || git config user.name example
git config user.email >/dev/null || git config user.email example@example.com

mkdir -p slug tests
touch slug/__init__.py tests/__init__.py
cat >tests/test_slug.py <<'PY'
import unittest

from slug.text import slugify


class Slugify(unittest.TestCase):
    def test_words_are_joined_by_dashes(self):
        self.assertEqual(slugify("Hello, big World!"), "hello-big-world")

    def test_dashes_do_not_pile_up(self):
        self.assertEqual(slugify("  a --- b  "), "a-b")
PY
printf '__pycache__/\n' >.gitignore
git add .
git commit --quiet --message 'A package with tests and without code'

harness init --yes --no-config
# What an agent would do. The shell agent runs it as a script, and HARNESS_ATTEMPT counts from 1.
script=$(mktemp)
cat >"$script" <<'SH'
if [ "$HARNESS_ATTEMPT" = 1 ]; then
    printf 'def slugify(text):\n    return text.lower().replace(" ", "-")\n' > slug/text.py
else
    printf 'import re\n\n\ndef slugify(text):\n    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))\n' > slug/text.py
fi
SH
harness add 'Write slugify' --id slugify --instructions "@$script" --protected 'tests/**' \
    --validate 'python3 -m unittest tests.test_slug'
rm "$script"
harness add 'Offer it as a command' --id command --depends-on slugify \
    --instructions 'printf "import sys\n\nfrom slug.text import slugify\n\nprint(slugify(\" \".join(sys.argv[1:])))\n" > slug/__main__.py' \
    --validate 'test "$(python3 -m slug Hello World)" = hello-world'

harness run --agent shell
echo
echo '--- What happened:'
harness report
echo
echo '--- The first attempt was wrong. Its work was saved before it was undone:'
harness rescue list
echo
echo '--- Every check again, in clean checkouts:'
harness verify
echo
echo "The repository is in $folder."
