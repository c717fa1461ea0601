# SPDX-License-Identifier: Apache-2.0
# libFuzzer targets, each from any bytes (needs clang):  make fuzz-NAME && build/release/fuzz/fuzz_NAME DIR
# fuzz-spool, fuzz-pack and fuzz-ctf are with what they fuzz.
FUZZ_CLANG = clang $(CPPFLAGS) -std=gnu11 -g -O1 -fno-strict-aliasing -pthread -fsanitize=fuzzer,address,undefined \
	-fno-sanitize-recover=all
FUZZ_VIEWERS = $(VIEWERS_CFLAGS) $(filter-out viewers/main.c,$(libviewers_SRCS)) $(libexporters_SRCS) $(libctf_SRCS) \
	$(libspoolreader_SRCS) $(libsettings_SRCS) $(libevents_SRCS) $(VIEWERS_LDLIBS)

.PHONY: fuzz-settings fuzz-gate fuzz-report
fuzz-settings: ## libFuzzer target of the WAYLAY_* settings (needs clang)
	@mkdir -p $(O)/fuzz
	$(FUZZ_CLANG) -o $(O)/fuzz/fuzz_settings tests/fuzz/fuzz_settings.c $(libsettings_SRCS)
fuzz-gate fuzz-report: fuzz-%: ## libFuzzer targets of budgets and baselines, and of reports (need clang)
	@mkdir -p $(O)/fuzz
	$(FUZZ_CLANG) -o $(O)/fuzz/fuzz_$* tests/fuzz/fuzz_$*.c $(FUZZ_VIEWERS)
