#!/bin/sh
# A web page from a plan in two phases. The gate between them is a check of the whole page.
# usage: sh web-page.sh [FOLDER]
set -eu
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
git init --quiet
git config user.name >/dev/null || git config user.name example
git config user.email >/dev/null || git config user.email example@example.com

# The check: every local link leads to a file, and the page is small.
cat >check-links.sh <<'SH'
set -eu
test -s index.html
for link in $(grep -o 'href="[^"#]*"' ./*.html | sed 's/.*href="//; s/"$//' | grep -v '://'); do
    test -e "$link" || { echo "dead link: $link"; exit 1; }
done
test "$(wc -c <index.html)" -lt 10000
SH
git add .
git commit --quiet --message 'A check for the links'

# A plan is JSON in a fenced block of any text, so an agent can write it.
cat >plan.md <<'MD'
I would first write the pages, and then the style.

```json
{
  "goal": "A small site about tea",
  "phases": [
    { "name": "content", "gate": { "command": "sh check-links.sh" } },
    { "name": "style" }
  ],
  "tasks": {
    "index": {
      "description": "Write the front page, with a link to the list",
      "phase": "content",
      "instructions": "printf '<!doctype html>\\n<title>Tea</title>\\n<h1>Tea</h1>\\n<a href=\"list.html\">All teas</a>\\n' > index.html",
      "validation": { "command": "grep -q '<title>Tea</title>' index.html" },
      "protected": ["check-links.sh"]
    },
    "list": {
      "description": "Write the list of teas",
      "phase": "content",
      "dependencies": ["index"],
      "instructions": "printf '<!doctype html>\\n<title>All teas</title>\\n<ul><li>green<li>black</ul>\\n<a href=\"index.html\">Back</a>\\n' > list.html",
      "validation": { "command": "grep -c '<li>' list.html | grep -q 1" },
      "protected": ["check-links.sh"]
    },
    "style": {
      "description": "Give both pages a style sheet",
      "phase": "style",
      "instructions": "printf 'body { max-width: 40em; margin: auto }\\n' > style.css; for page in index list; do printf '<link rel=\"stylesheet\" href=\"style.css\">\\n' >> $page.html; done",
      "validation": { "command": "grep -l style.css index.html list.html && sh check-links.sh" },
      "protected": ["check-links.sh"]
    }
  }
}
```
MD
harness init --yes --no-config
harness plan import --file plan.md
rm plan.md
harness task graph
harness run --agent shell
echo
harness plan phases
harness report
echo
echo "Open $folder/index.html in a browser."
