#!/bin/sh
# A data job: three independent parts for two workers at the same time, and a last task that collects the results.
# usage: sh data-job.sh [FOLDER]
set -eu
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
git init --quiet
git config user.name >/dev/null || git config user.name example
git config user.email >/dev/null || git config user.email example@example.com

mkdir data
for region in north south west; do
    awk -v seed="$region" 'BEGIN {
        n = length(seed)
        for (i = 1; i <= 200; i++) printf "%d,%s,%d\n", i, seed, (i * 37 * n) % 101
    }' >"data/$region.csv"
done
git add .
git commit --quiet --message 'The raw data'

harness init --yes --no-config
for region in north south west; do
    harness add "Sum up $region" --id "$region" \
        --instructions "mkdir -p out && awk -F, '{ sum += \$3 } END { print \"$region\", NR, sum }' data/$region.csv > out/$region.txt" \
        --validate "test \"\$(cut -d' ' -f2 out/$region.txt)\" = \"\$(wc -l < data/$region.csv | tr -d ' ')\""
done
harness add 'Write the report' --id report --depends-on north,south,west \
    --instructions 'sort out/*.txt > report.txt' \
    --validate 'test "$(wc -l < report.txt | tr -d " ")" = 3 && sort -c report.txt'

harness run --agent shell --workers 2
echo
cat report.txt
echo
echo '--- One commit for each task, each checked on top of what landed before it:'
git log --oneline
echo
echo "The repository is in $folder."
