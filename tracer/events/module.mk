# SPDX-License-Identifier: Apache-2.0
LIBS += libevents
libevents_SRCS := tracer/events/events.c tracer/events/parse.c

ifneq ($(HAVE_CMOCKA),)
UNIT_TESTS += test_events
test_events_SRCS := tests/unit/test_events.c
test_events_LIBS := libevents
test_events_LDLIBS := -lcmocka
endif
