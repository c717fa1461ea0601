# SPDX-License-Identifier: Apache-2.0
# Pages that are written from the code's own tables.
TEST_PROGRAMS += rules_table
rules_table_SRCS := docs/tables/rules.c tracer/inject/cuda/classify.c tracer/events/events.c

.PHONY: docs
docs: $(O)/tests/rules_table ## write the pages that come from the code's tables
	$(Q)$(O)/tests/rules_table >docs/rules.md
