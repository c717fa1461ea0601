#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# waylay pack and unpack: back bit for bit, read like what was packed, damage is found.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
for calls in 7 11; do
	# shellcheck disable=SC2046 # words are wanted
	expect 0 waylay run -q --no-export --dir rec --run-id same -- $(sampler naive $calls)
done
waylay pack -o test.wpack rec 2>err
status=$?
if grep -q 'need libzstd' err; then
	echo "built without libzstd"
	exit 77
fi
[ $status = 0 ] || fail "pack: status $status"
says err "test.wpack: 2 files"
[ "$(stat -c %a test.wpack)" = 600 ] || fail "the pack may be read by others"
one_line 1 "is there already" waylay pack -o test.wpack rec
expect 0 waylay pack --verify test.wpack
says err "2 files whole"
expect 0 waylay unpack test.wpack -o back
[ "$(find back -name '*.wspool' | wc -l)" = 2 ] || fail "files unpacked: $(ls back)"
for file in rec/*.wspool; do
	cmp "$file" "back/${file#rec/}" || fail "not bit for bit: $file"
done
[ $(($(stat -c %s test.wpack) * 4)) -lt "$(cat rec/*.wspool | wc -c)" ] || fail "hardly compressed"

# --- read like what was packed, alone and in a directory
waylay report rec >a 2>/dev/null
waylay report test.wpack >b 2>/dev/null
[ -s a ] || fail "no report"
cmp a b || fail "the report of the pack"
mkdir dir
cp test.wpack dir/
waylay report dir >b 2>/dev/null
cmp a b || fail "the report of a directory with the pack"
expect 1 waylay check --range sampler-naive --max-syncs 1 test.wpack
expect 0 waylay check --range sampler-naive --max-syncs 2 test.wpack
waylay export -o a.pftrace rec 2>a
waylay export -o b.pftrace test.wpack 2>b
[ "$(sed 's/.*: \(.*\), .*/\1/' a)" = "$(sed 's/.*: \(.*\), .*/\1/' b)" ] || fail "exports differ: $(cat a b)"

# --- damage
size=$(stat -c %s test.wpack)
damage() { # OFFSET
	cp test.wpack damaged.wpack
	printf '\377\376\375' | dd of=damaged.wpack bs=1 seek="$1" conv=notrunc 2>/dev/null
}
damage $((size / 3))
expect 1 waylay pack --verify damaged.wpack
says err "damaged"
damage $((size - 60))
one_line 1 "cut or damaged" waylay report damaged.wpack
head -c $((size / 2)) test.wpack >damaged.wpack
one_line 1 "cut or damaged" waylay unpack damaged.wpack -o nowhere
: >damaged.wpack
one_line 1 "cut or damaged" waylay pack --verify damaged.wpack
one_line 1 "No such file" waylay pack -o x.wpack nosuch
mkdir empty
one_line 1 "there is no recording to pack" waylay pack -o x.wpack empty
[ ! -e x.wpack ] || fail "a pack of nothing"
one_line 64 "one packed file is needed, not 0" waylay unpack
one_line 64 "no number from 1 to 19" waylay pack --level 20
one_line 64 "no packed file given" waylay pack --verify
