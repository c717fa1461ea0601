#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Manual pages: there is one for each command and program, with every option that --help lists, every
# setting and its variable, every exit code, and no word that does not format.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
man=$WAYLAY_SOURCE/docs/man

# The text of a page, macros and escapes turned into what a reader types.
plain() { # PAGE
	sed -e 's/^\.It //' -e 's/ , / /g' -e 's/ Ns = Ns / /g' -e 's/ Ns Op = Ns / /g' -e 's/Fl -/--/g' \
		-e 's/^\.Fl -/--/' "$man/$1"
}
has_options() { # PAGE COMMAND...
	page=$1
	shift
	[ -e "$man/$page" ] || fail "no manual page $page"
	"$@" --help >help 2>&1 </dev/null || fail "no help: $*"
	plain "$page" >text
	# Options stand at the begin of a line of help, short ones first.
	sed -n 's/^ \{2,6\}\(-[A-Za-z?], \)\{0,1\}\(--[a-z].*\)$/\2/p' help |
		tr ', ' '[\n*]' | sed -n 's/^\(--[a-z_-]*\).*/\1/p' | sort -u >options
	[ -s options ] || fail "no options in the help of $*"
	while read -r option; do
		grep -q -e "$option\\([^a-z_-]\\|\$\\)" text || fail "$page has no $option"
		count=$((count + 1))
	done <options
}
count=0
for command in report check diff top view export ctl pack unpack doctor; do
	has_options waylay-$command.1 waylay $command
done
for program in waylay-coll-perf waylay-sampler-perf waylay-tbe-perf; do
	[ ! -x "$build/$program" ] || has_options $program.1 $program
done
# `run` has the budgets of `check`, and says so; the rest is its own.
cat "$man/waylay-run.1" "$man/waylay-check.1" >both.1
man_before=$man man=.
has_options both.1 waylay run
man=$man_before
grep -q 'Xr waylay-check 1' "$man/waylay-run.1" || fail "waylay-run.1 does not point to the budgets"
[ "$count" -ge 70 ] || fail "only $count options found"

# --- settings: variable, option and default of each
sed -n 's/^WL_SETTING([a-z_]*, "\([A-Z_]*\)", "\([a-z-]*\)", [A-Z]*, "\([^"]*\)",.*/\1 \2:\3/p' \
	"$WAYLAY_SOURCE/tracer/settings/settings.def" >settings
[ "$(wc -l <settings)" -ge 12 ] || fail "settings.def was not understood"
while IFS=: read -r names default; do
	variable=${names%% *}
	option=${names#* }
	awk -v variable="$variable" '
		/^\.It/ { in_it = 0; for (i = 1; i <= NF; i++) if ($i == variable) in_it = 1 }
		in_it { print }' "$man/waylay-run.1" >entry
	[ -s entry ] || fail "waylay-run.1 has no $variable"
	[ -z "$option" ] || grep -q -e "Fl -$option\\( \\|\$\\)" entry || fail "$variable has no --$option"
	[ -z "$default" ] || grep -qw -e "$default" entry || fail "$variable does not name its default, $default"
done <settings

# --- members of the JSON report
# shellcheck disable=SC2016
sed -n 's/^| `\([a-z_]*\)` |.*/\1/p' "$WAYLAY_SOURCE/docs/report-json.md" >members
while read -r member; do
	grep -q "^\.It Cm $member\$" "$man/waylay-report.1" || fail "waylay-report.1 has no $member"
done <members

# --- they format, without a word from the formatter, and hold the sections people look for
for page in "$man"/*.1; do
	for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' 'SEE ALSO'; do
		grep -q "^\.Sh $section\$" "$page" || fail "$page has no section $section"
	done
	if command -v mandoc >/dev/null; then
		mandoc -T lint -W warning "$page" >out 2>&1 || fail "$page does not lint"
	elif command -v groff >/dev/null && [ -e /usr/share/groff/current/tmac/mdoc.tmac ]; then
		groff -mdoc -Tascii -ww "$page" >out 2>err || fail "$page does not format"
		[ ! -s err ] || fail "$page does not format cleanly"
	fi
done
grep -q '^\.Sh OVERHEAD$' "$man/waylay.1" || fail "waylay.1 does not say what it costs"
echo "$count options"
